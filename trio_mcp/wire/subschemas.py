"""Where schemas stand within a schema, and which of them look at the same value.

Everything that walks schemas (JSON Schema, all drafts) reads this one table.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from typing import Any, Final

Path = tuple[str | int, ...]

_SCHEMA = (dict, bool, Mapping)  # in the order of what is asked quickly

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

IN_PLACE = (
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
    *("dependentSchemas", "dependencies"),
)
"""Keywords that hold schemas which look at the very value that the schema does."""

DEFINITIONS: Final = ("$defs", "definitions")
"""Keywords that hold schemas to refer to."""

ANCHORED: Final = frozenset(
    {"$dynamicRef", "$recursiveRef", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"}
)
"""Keywords by which a reference may mean something else elsewhere."""

NOTES: Final = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
    | {"$comment"}
)
"""Keywords that ask for nothing."""

WORDS: Final = NOTES | {"format", "contentEncoding", "contentMediaType", "$schema", *DEFINITIONS}
"""Keywords by which nothing is refused."""

_BY_NAME = {
    *("properties", "patternProperties", "dependentSchemas", "dependencies"),
    *DEFINITIONS,
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
    """List the schemas directly in `schema`, or at some of its keywords, each with its place."""
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
    """Copy a schema, with others in place of those that stand directly in it."""
    whole = {keyword: copy(value) for keyword, value in schema.items()}
    for (*within, last), part in list(parts_of(whole)):
        holder: Any = whole[str(within[0])] if within else whole
        holder[last] = replace((*within, last), part)
    return whole


def walk(schema: Any) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """All the schemas in a schema that are objects, itself first, with where they stand."""
    waiting: list[tuple[Path, Any]] = [((), schema)]
    while waiting:
        path, each = waiting.pop()
        if isinstance(each, Mapping):
            yield path, each
            waiting.extend((path + within, part) for within, part in parts_of(each))


def references_in(schema: Any) -> Iterator[str]:
    """What a schema, and all in it, refer to by `$ref`."""
    found = (part.get("$ref") for _, part in walk(schema))
    return (reference for reference in found if isinstance(reference, str))


def refers_by(schema: Any, is_known: Callable[[str], bool]) -> bool:
    """Whether all references in a schema are known, and none means something else elsewhere."""
    for _, part in walk(schema):
        reference = part.get("$ref")
        is_other = reference is not None and not (
            isinstance(reference, str) and is_known(reference)
        )
        if is_other or any(isinstance(part.get(keyword), str) for keyword in ANCHORED):
            return False
    return True


def place_in_words(path: Path) -> str:
    """A place in a schema, as errors write it: `#/properties/a`."""
    return "/".join(["#", *map(str, path)])


def resolve_pointer(root: Any, reference: str) -> tuple[Path, Any]:
    """Follow `#` or `#/...` to a place and its value; raise `LookupError` if it leads nowhere."""
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
