"""What a JSON Schema demands of a value beyond its type, worded to follow "must be"."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

from trio_mcp.cli.schemas import Field, Schema
from trio_mcp.schema.sentences import expectation
from trio_mcp.wire.jsonrpc import Json

_MAX_DEPTH: Final = 3


def constraints_of(field: Field) -> str:
    found = [said for part in field.parts for said in _demands(part)]
    if field.depth <= _MAX_DEPTH:
        items = constraints_of(field.items)
        found += [f"each {items}"] if items else []
    return "; ".join(dict.fromkeys(found))


def _demands(schema: Schema) -> Iterator[str]:
    yield from _range(schema, "minimum", "maximum", "")
    for keyword, words in (("exclusiveMinimum", "more than"), ("exclusiveMaximum", "less than")):
        if _is_number(schema.get(keyword)):
            yield f"{words} {json.dumps(schema[keyword])}"
    yield from _range(schema, "minLength", "maxLength", "character")
    yield from _range(schema, "minItems", "maxItems", "item")
    yield from _range(schema, "minProperties", "maxProperties", "entry", "entries")
    for keyword, (is_meant, say) in _OTHERS.items():
        value = schema.get(keyword)
        if is_meant(value):
            yield say(value)


def _range(
    schema: Schema, lowest: str, highest: str, noun: str, plural: str | None = None
) -> Iterator[str]:
    """Describe two bounds together: `1 to 5 items`."""
    low, high = (
        bound if _is_number(bound) else None for bound in map(schema.get, (lowest, highest))
    )
    if low is None and high is None:
        return
    if low is None:
        words = f"at most {json.dumps(high)}"
    elif high is None:
        words = f"at least {json.dumps(low)}"
    else:
        words = json.dumps(low) if low == high else f"{json.dumps(low)} to {json.dumps(high)}"
    last = low if high is None else high
    named = noun if last == 1 or not noun else plural or f"{noun}s"
    yield f"{words} {named}".rstrip()


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _format(name: str) -> str:
    """Describe a format with an example, or name one that is not well known."""
    words = expectation({"type": "string", "format": name})
    return f"of format {name}" if words == expectation({"type": "string"}) else words


_OTHERS: Final[dict[str, tuple[Callable[[Json], bool], Callable[[Json], str]]]] = {
    "multipleOf": (_is_number, lambda value: f"a multiple of {json.dumps(value)}"),
    "format": (_is_text, _format),
    "pattern": (_is_text, lambda value: f"matching {value}"),
    "contentEncoding": (_is_text, lambda value: f"encoded as {value}"),
    "uniqueItems": (lambda value: value is True, lambda value: "all different"),
}
"""By keyword, whether its value is understood, and what it demands."""
