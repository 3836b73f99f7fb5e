"""Words for values, types and schemas, as they stand in error sentences."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trio_mcp.schema.texts import WORDS
from trio_mcp.wire.jsonrpc import json_type

_LONGEST = 60
_CONSTANTS = {None: "null", True: "true", False: "false"}
_WITH_ARTICLE = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "null": "null",
    "array": "an array",
    "object": "an object",
}


def describe(value: Any, *, is_shown: bool = True) -> str:
    """What came: its type as JSON has it, and the value itself if it may be shown."""
    return f"{json_type(value)} came" + (f" ({shorten(value)})" if is_shown else "")


def shorten(value: Any) -> str:
    """A value in few words, at no more cost than the little that is shown.

    Constants are those of JSON, because so are the values of most readers; quotes are Python's.
    """
    if isinstance(value, str):
        text = repr(value[: _LONGEST + 1])
    elif isinstance(value, list | tuple) and len(value) > _LONGEST:
        return f"{len(value)} items"
    elif isinstance(value, Mapping) and len(value) > _LONGEST:
        return f"{len(value)} properties"
    elif isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return f"{value.bit_length()} bits long"
    elif isinstance(value, list | tuple):
        inner = ", ".join(_leaf(item) for item in value[:8])
        text = f"[{inner}{', ...' if len(value) > 8 else ''}]"
    elif isinstance(value, Mapping):
        shown = list(value.items())[:8]
        inner = ", ".join(f"{_leaf(key)}: {_leaf(each)}" for key, each in shown)
        text = f"{{{inner}{', ...' if len(value) > 8 else ''}}}"
    else:
        text = _CONSTANTS[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _leaf(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[...]" if value else "[]"
    if isinstance(value, Mapping):
        return "{...}" if value else "{}"
    return shorten(value)


def join_words(texts: Iterable[str], last: str = "or", limit: int = 8) -> str:
    """'a, b or c', with the tail of a long list left out."""
    words = list(texts)
    if len(words) > limit:
        words = [*words[: limit - 1], f"{len(words) - limit + 1} more"]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def join_path(path: Iterable[str | int]) -> str:
    """Where a value is: `user.address[0].zip`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text if len(text) <= 3 * _LONGEST else text[: 3 * _LONGEST - 3] + "..."


_WHOLES = {"argument": "arguments", "field": "form"}


def named(noun: str, told: Sequence[str]) -> str:
    """'argument a', or 'arguments a and b'."""
    return f"{noun}{'' if len(told) == 1 else 's'} {join_words(told, 'and')}"


def subject(noun: str, place: str = "") -> str:
    """What a sentence is about: an 'argument', or whatever else values are called, at a place."""
    return f"{noun.capitalize()} {place!r}" if place else f"The {_WHOLES.get(noun, noun)}"


def expectation(schema: Any) -> str:
    """What a schema asks for, in a few words: 'a string', 'an integer or null'."""
    if not isinstance(schema, Mapping):
        return "anything" if schema else "absent"
    if "const" in schema:
        return shorten(schema["const"])
    if isinstance(schema.get("enum"), list):
        return f"one of {join_words(map(shorten, schema['enum']))}"
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            members = list(dict.fromkeys(expectation(member) for member in schema[keyword]))
            return join_words(members)
    if schema.get("type") == "string" and schema.get("format") in WORDS:
        return WORDS[schema["format"]]
    if schema.get("contentEncoding") == "base64":
        return "base64 text"
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return join_words(_WITH_ARTICLE.get(kind, "a value") for kind in kinds) or "a value"
