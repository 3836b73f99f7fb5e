"""Where schemas stand within a schema, and which of them look at the same value.

Everything that walks schemas reads this one table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

__all__ = ["REFERENCES", "Part", "Path", "parts_of", "place_in_words", "resolve_pointer", "walk"]

Path = tuple[str | int, ...]

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

# How a keyword holds schemas: itself, in a list, in a mapping by name, or one of those.
_ONE, _LIST, _BY_NAME, _ONE_OR_LIST = range(4)

# Keyword: (how it holds schemas, whether those look at the very value that the schema does).
_HOLDERS: dict[str, tuple[int, bool]] = {
    "allOf": (_LIST, True),
    "anyOf": (_LIST, True),
    "oneOf": (_LIST, True),
    "not": (_ONE, True),
    "if": (_ONE, True),
    "then": (_ONE, True),
    "else": (_ONE, True),
    "dependentSchemas": (_BY_NAME, True),
    "dependencies": (_BY_NAME, True),
    "properties": (_BY_NAME, False),
    "patternProperties": (_BY_NAME, False),
    "additionalProperties": (_ONE, False),
    "propertyNames": (_ONE, False),
    "unevaluatedProperties": (_ONE, False),
    "items": (_ONE_OR_LIST, False),
    "prefixItems": (_LIST, False),
    "additionalItems": (_ONE, False),
    "unevaluatedItems": (_ONE, False),
    "contains": (_ONE, False),
    "contentSchema": (_ONE, False),
    "$defs": (_BY_NAME, False),
    "definitions": (_BY_NAME, False),
}


@frozen
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
        how, in_place = _HOLDERS.get(keyword, (None, False))
        if how is None:
            continue
        if how == _BY_NAME and isinstance(value, Mapping):
            for name, each in value.items():
                if isinstance(each, Mapping | bool):
                    yield Part((keyword, name), each, in_place)
        elif how in (_LIST, _ONE_OR_LIST) and isinstance(value, list):
            for index, each in enumerate(value):
                yield Part((keyword, index), each, in_place)
        elif how in (_ONE, _ONE_OR_LIST) and isinstance(value, Mapping | bool):
            yield Part((keyword,), value, in_place)


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
