"""What stands beside a type in `Annotated`, as JSON Schema keywords.

A plain string is a description, a mapping is a set of raw keywords, and a constraint object is
recognised by its attributes (`gt`, `min_length`, ...), so that `annotated_types` and whatever
follows its conventions work without being imported. Metadata that says nothing about the value
is somebody else's and is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["apply_metadata"]

_LENGTH_KEYWORDS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


def _plain(keyword: str) -> Callable[[dict[str, Any], Any], None]:
    def set_keyword(schema: dict[str, Any], value: Any) -> None:
        schema[keyword] = value

    return set_keyword


def _length(index: int) -> Callable[[dict[str, Any], Any], None]:
    def set_length(schema: dict[str, Any], value: int) -> None:
        if index == 0 and value == 0:
            return
        kind = schema.get("type")
        pair = _LENGTH_KEYWORDS.get(kind) if isinstance(kind, str) else None
        if pair is None:
            raise TypeError("a length constrains strings, arrays and objects, nothing else")
        schema[pair[index]] = value

    return set_length


_ATTRIBUTES: dict[str, Callable[[dict[str, Any], Any], None]] = {
    "gt": _plain("exclusiveMinimum"),
    "ge": _plain("minimum"),
    "lt": _plain("exclusiveMaximum"),
    "le": _plain("maximum"),
    "multiple_of": _plain("multipleOf"),
    "min_length": _length(0),
    "max_length": _length(1),
    "pattern": _plain("pattern"),
    "description": _plain("description"),
    "documentation": _plain("description"),
}


def apply_metadata(schema: dict[str, Any], metadata: Iterable[Any]) -> bool:
    """Write what `metadata` says into `schema`.

    Args:
        schema: The schema of the annotated type; changed in place.
        metadata: What follows the type in `Annotated`.

    Returns:
        Whether raw keywords were merged in, so that the outcome needs a full check.

    Raises:
        TypeError: A bound is no number, or a length no whole number.
    """
    raw = False
    for item in metadata:
        if isinstance(item, str):
            schema["description"] = item.strip()
        elif isinstance(item, Mapping):
            schema.update(item)
            raw = True
        elif not isinstance(item, type):
            _apply_object(schema, item)
    return raw


def _apply_object(schema: dict[str, Any], item: Any) -> None:
    for name, write in _ATTRIBUTES.items():
        value = getattr(item, name, None)
        if value is None or callable(value):
            continue
        if name == "pattern":
            value = getattr(value, "pattern", value)
        _check(name, value)
        write(schema, value)


def _check(name: str, value: Any) -> None:
    if name in ("pattern", "description", "documentation"):
        wanted: tuple[type, ...] = (str,)
    elif name.endswith("_length"):
        wanted = (int,)
    else:
        wanted = (int, float)
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise TypeError(
            f"the constraint {name}={value!r} has no JSON Schema counterpart; "
            f"give {' or '.join(kind.__name__ for kind in wanted)}"
        )
