"""What stands beside a type in `Annotated`, as JSON Schema keywords.

A plain string is a description, a mapping is a set of raw keywords, and a constraint object is
recognised by its attributes (`gt`, `min_length`, ...), so `annotated_types` need not be imported.
Other metadata is left alone; but a constraint that is not understood would not be checked, and is
refused.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_NUMBER, _LENGTH, _TEXT = (int, float), (int,), (str,)

# Attribute: what it may be, and the keyword that it becomes; that of a length begins so.
_ATTRIBUTES: dict[str, tuple[tuple[type, ...], str]] = {
    "gt": (_NUMBER, "exclusiveMinimum"),
    "ge": (_NUMBER, "minimum"),
    "lt": (_NUMBER, "exclusiveMaximum"),
    "le": (_NUMBER, "maximum"),
    "multiple_of": (_NUMBER, "multipleOf"),
    "min_length": (_LENGTH, "min"),
    "max_length": (_LENGTH, "max"),
    "pattern": (_TEXT, "pattern"),
    "description": (_TEXT, "description"),
    "documentation": (_TEXT, "description"),
    "title": (_TEXT, "title"),
    "examples": ((list,), "examples"),
}
_LENGTHS = {"string": "Length", "array": "Items", "object": "Properties"}
_OF_THE_WHOLE = ("description", "title", "examples")

_OF_CONSTRAINTS = ("annotated_types", "pydantic")
"""Packages whose metadata is there to be kept."""
_HARMLESS = {"DocInfo", "Unit", "Strict"}
"""What may say nothing more: no conversions is what is done here anyway."""
_DEEPEST = 8


class Supplied:
    """Marks a parameter that no caller fills: in `Annotated`, or as the default."""


def apply_metadata(
    schema: dict[str, Any], bounded: dict[str, Any], metadata: Iterable[Any]
) -> bool:
    """Write the metadata of a type into its schema; return whether raw keywords were merged in.

    Bounds go to `bounded`, a part of the schema, mostly the same. A `TypeError` says that a bound
    is not a number, a length no whole number, or that JSON Schema does not have the constraint.
    """
    raw = False
    for item in _taken_apart(metadata, 0):
        if isinstance(item, str):
            schema["description"] = item.strip()
        elif isinstance(item, Mapping):
            schema.update(item)
            raw = True
        elif isinstance(item, Supplied):
            raise TypeError("a dependency fills a whole parameter: put Depends(…) outermost")
        elif not isinstance(item, type):
            _apply_object(schema, bounded, item)
    return raw


def _taken_apart(metadata: Iterable[Any], depth: int) -> Iterator[Any]:
    """The metadata one by one: groups give their members, and field objects what they hold."""
    for item in metadata:
        if isinstance(item, str | Mapping | type) or depth == _DEEPEST:
            yield item
        elif getattr(item, "__is_annotated_types_grouped_metadata__", False) is True:
            yield from _taken_apart(item, depth + 1)
        else:
            yield item
            extra = getattr(item, "json_schema_extra", None)
            if isinstance(extra, Mapping):
                yield extra
            held = getattr(item, "metadata", None)
            if isinstance(held, list | tuple):
                yield from _taken_apart(held, depth + 1)


def needs_pydantic(metadata: Iterable[Any]) -> bool:
    """Whether there is a rule of Pydantic's that JSON Schema does not have."""
    return any(_lost(item) for item in _taken_apart(metadata, 0) if _library_of(item) == "pydantic")


def _apply_object(schema: dict[str, Any], bounded: dict[str, Any], item: Any) -> None:
    for name, value in _attributes(item):
        wanted, keyword = _ATTRIBUTES[name]
        if name == "pattern":
            value = getattr(value, "pattern", value)
        if type(value) is bool or not any(isinstance(value, kind) for kind in wanted):
            raise TypeError(
                f"the constraint {name}={value!r} has no JSON Schema counterpart; "
                f"give {' or '.join(kind.__name__ for kind in wanted)}"
            )
        if keyword in _OF_THE_WHOLE:
            schema[keyword] = value.strip() if isinstance(value, str) else value
        elif wanted is not _LENGTH:
            bounded[keyword] = value
        elif name == "max_length" or value > 0:  # nothing is shorter than 0
            what = _LENGTHS.get(str(bounded.get("type")))
            if what is None:
                raise TypeError("a length constrains strings, arrays and objects, nothing else")
            bounded[keyword + what] = value
    lost = _lost(item)
    if lost:
        raise TypeError(
            f"the constraint {lost[:100]} of {_library_of(item)} is not "
            "understood; check the value in the function, or give JSON Schema keywords in a dict"
        )


def _attributes(item: Any) -> Iterator[tuple[str, Any]]:
    for name in _ATTRIBUTES:
        value = getattr(item, name, None)
        if value is not None and not callable(value):
            yield name, value


def _library_of(item: Any) -> str:
    return type(item).__module__.partition(".")[0]


def _lost(item: Any) -> str:
    """What a constraint of a known library says that is not understood here; empty for nothing."""
    kind = type(item)
    if _library_of(item) not in _OF_CONSTRAINTS or kind.__name__ in _HARMLESS:
        return ""
    if kind.__name__ == "FieldInfo":  # whose constraints stand in its metadata
        return "" if item.discriminator is None else f"discriminator={item.discriminator!r}"
    understood = dict(_attributes(item))
    lost = [
        f"{name}={value!r}"
        for name, value in getattr(item, "__dict__", {}).items()
        if name not in understood and name != "strict" and value is not None
    ]
    return ", ".join(lost) if understood else repr(item)
