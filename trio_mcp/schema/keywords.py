"""Where schemas stand within a schema, and which of them look at the same value.

Everything that walks schemas reads this one table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from typing import Any

__all__ = [
    "IN_PLACE",
    "REFERENCES",
    "Path",
    "parts_of",
    "place_in_words",
    "resolve_pointer",
    "walk",
    "with_parts",
]

Path = tuple[str | int, ...]

_SCHEMA = (dict, bool, Mapping)  # in the order of what is asked quickly

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

IN_PLACE = (
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
    *("dependentSchemas", "dependencies"),
)
"""Keywords that hold schemas which look at the very value that the schema does."""

_BY_NAME = {
    *("properties", "patternProperties", "dependentSchemas", "dependencies"),
    *("$defs", "definitions"),
}
"""Keywords that hold a mapping of schemas; all others hold one, or a list of them."""

_HOLDERS = {
    *IN_PLACE,
    *_BY_NAME,
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("items", "prefixItems", "additionalItems", "unevaluatedItems"),
    *("contains", "contentSchema"),
}


def parts_of(schema: Any, keywords: Iterable[str] = ()) -> Iterator[tuple[Path, Any]]:
    """List the schemas that stand directly in `schema`, or at some of its keywords.

    Each comes with its place: the keyword, and the name or index below it. What is no schema is
    passed over.
    """
    if not isinstance(schema, Mapping):
        return
    for keyword in keywords or schema:
        if keyword not in _HOLDERS or keyword not in schema:
            continue
        value = schema[keyword]
        held: Iterable[tuple[Any, Any]] = [(None, value)]
        if keyword in _BY_NAME:
            held = value.items() if isinstance(value, Mapping) else ()
        elif isinstance(value, list):
            held = enumerate(value)
        for step, each in held:
            if isinstance(each, _SCHEMA):
                yield (keyword,) if step is None else (keyword, step), each


def with_parts(schema: Mapping[str, Any], replace: Callable[[Path, Any], Any]) -> dict[str, Any]:
    """A copy of a schema, with others in the place of those that stand directly in it."""
    whole = {keyword: copy(value) for keyword, value in schema.items()}
    for (*within, last), part in list(parts_of(whole)):
        holder: Any = whole[str(within[0])] if within else whole
        holder[last] = replace((*within, last), part)
    return whole


def walk(schema: Any) -> Iterator[tuple[Path, Any]]:
    """All the schemas in a schema, itself first, with where they stand."""
    waiting: list[tuple[Path, Any]] = [((), schema)]
    while waiting:
        path, each = waiting.pop()
        yield path, each
        waiting.extend((path + within, part) for within, part in parts_of(each))


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
