"""Where schemas stand within a schema, and which of them look at the same value.

Everything that walks schemas reads this one table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import frozen

__all__ = ["REFERENCES", "Part", "Path", "parts_of", "place_in_words", "resolve_pointer", "walk"]

Path = tuple[str | int, ...]

_SCHEMA = (dict, bool, Mapping)  # in the order of what is asked quickly

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

_IN_PLACE = {
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
    *("dependentSchemas", "dependencies"),
}
"""Keywords that hold schemas which look at the very value that the schema does."""

_BY_NAME = {
    *("properties", "patternProperties", "dependentSchemas", "dependencies"),
    *("$defs", "definitions"),
}
"""Keywords that hold a mapping of schemas; all others hold one, or a list of them."""

_HOLDERS = {
    *_IN_PLACE,
    *_BY_NAME,
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("items", "prefixItems", "additionalItems", "unevaluatedItems"),
    *("contains", "contentSchema"),
}


@frozen(eq=False, repr=False)
class Part:
    """A schema within a schema."""

    path: Path
    """The keyword, and the name or index below it."""

    schema: Any

    in_place: bool
    """Whether it looks at the same value as the schema that it stands in."""


def parts_of(schema: Any) -> Iterator[Part]:
    """List the schemas that stand directly in `schema`; what is no schema is passed over."""
    if not isinstance(schema, Mapping):
        return
    for keyword, value in schema.items():
        if keyword not in _HOLDERS:
            continue
        held: Iterable[tuple[Any, Any]] = [(None, value)]
        if keyword in _BY_NAME:
            held = value.items() if isinstance(value, Mapping) else ()
        elif isinstance(value, list):
            held = enumerate(value)
        for step, each in held:
            if isinstance(each, _SCHEMA):
                path = (keyword,) if step is None else (keyword, step)
                yield Part(path, each, keyword in _IN_PLACE)


def walk(schema: Any) -> Iterator[tuple[Path, Any]]:
    """All the schemas in a schema, itself first, with where they stand."""
    waiting: list[tuple[Path, Any]] = [((), schema)]
    while waiting:
        path, each = waiting.pop()
        yield path, each
        waiting.extend((path + part.path, part.schema) for part in parts_of(each))


def place_in_words(path: Path) -> str:
    """Where a schema stands, as it is told in errors: `#/properties/a`."""
    return "/".join(["#", *map(str, path)])


def resolve_pointer(root: Any, reference: str) -> tuple[Path, Any]:
    """Follow a local reference, `#` or `#/...`, to where it leads and what is there.

    Raises:
        LookupError: It is not local, or it leads nowhere.
    """
    from urllib.parse import unquote

    if reference != "#" and not reference.startswith("#/"):
        raise LookupError(reference)
    place, path = root, []
    for step in unquote(reference).split("/")[1:]:
        name: str | int = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and step.isdecimal():
            name = int(step)
        elif not isinstance(place, Mapping):
            raise LookupError(reference)
        place = place[name]
        path.append(name)
    return tuple(path), place
