"""Arguments as parts of a request: OpenAPI's styles of serialization.

Whatever an argument says, it stays in its place: a path keeps its segments, a query its parameters,
a header its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import quote

from trio_mcp.compose.openapi.operations import VARIABLE, Location, Style
from trio_mcp.errors import ToolError
from trio_mcp.wire.jsonrpc import Json, encode

Pair = tuple[str, str]

# Of the reserved characters, `allowReserved` leaves those that end nothing in a query.
_RESERVED: Final = ":/?@!$'()*,;[]"
_DOTS: Final = re.compile(r"(?:^|[/\\])\.\.?(?:$|[/\\;])")
_LINE: Final = re.compile(r"[\x20-\x7e\t]*")
_DEEPEST: Final = 20


def text_of(value: Json) -> str:
    """Write a value as text: as it is, or as JSON."""
    return value if isinstance(value, str) else json_of(value).decode()


def json_of(value: Json) -> bytes:
    """Write an argument as JSON: it was parsed, so it is finite, with integers of any length."""
    return encode(value, is_finite=True)[:-1]


def path_of(template: str, values: Mapping[str, tuple[Location, Json]]) -> str:
    """Fill in the variables of a path; refuse values that would make it another path."""

    def filled(found: re.Match[str]) -> str:
        if found[1] not in values:  # null, which no path can say
            raise ToolError(f"{found[1]} must not be null: it is part of a path")
        location, value = values[found[1]]
        text = _in_path(location, value, _quoted)
        plain = _in_path(location, value, str)
        # Some servers decode a path before they take it apart.
        if not text or _DOTS.search(plain):
            raise ToolError(
                f"{location.name} must not be empty or have '..' in it: it is part of a path"
            )
        return text

    return VARIABLE.sub(filled, template)


def _in_path(location: Location, value: Json, write: Callable[[str], str]) -> str:
    style = location.style
    if style.name == "json":
        return write(text_of(value))
    parts = _parts(value, style.explode, write)
    if style.name == "label":
        return "." + ("." if style.explode else ",").join(parts)
    if style.name == "matrix":
        name = write(location.name)
        if style.explode and isinstance(value, list):
            return "".join(f";{name}={part}" for part in parts)
        if style.explode and isinstance(value, dict):
            return "".join(f";{part}" for part in parts)
        return f";{name}=" + ",".join(parts)
    return ",".join(parts)


def _parts(value: Json, explode: bool, write: Callable[[str], str]) -> list[str]:
    """List the parts of a value, as the styles of paths and headers have them."""
    if isinstance(value, list):
        return [write(text_of(item)) for item in value]
    if isinstance(value, dict):
        pairs = [(write(key), write(text_of(each))) for key, each in value.items()]
        if explode:
            return [f"{key}={each}" for key, each in pairs]
        return [text for pair in pairs for text in pair]
    return [write(text_of(value))]


def header_of(location: Location, value: Json) -> str:
    """Write a value as that of a header or a cookie; refuse one that no header can hold."""
    if location.style.name == "json":
        text = text_of(value)
    else:
        write = _quoted if location.where == "cookie" and location.style.name != "cookie" else str
        text = ",".join(_parts(value, location.style.explode, write))
    return checked_line(location.name, text)


def checked_line(name: str, text: str) -> str:
    """Return a text that is one line of a header; refuse any other."""
    if _LINE.fullmatch(text) is None:
        raise ToolError(f"{name} has characters in it that the header of a request cannot hold")
    return text


def cookies_of(location: Location, value: Json) -> Iterator[Pair]:
    if location.style.explode and isinstance(value, list | dict):
        items = value.items() if isinstance(value, dict) else [(location.name, x) for x in value]
        for name, each in items:
            yield name, _quoted(text_of(each))
    else:
        yield location.name, header_of(location, value).replace(";", "%3B")


def query_of(name: str, style: Style, value: Json) -> Iterator[Pair]:
    """Yield a value as parameters of a query, or members of a form: names and values, quoted."""
    write = _kept if style.allow_reserved else _quoted
    own = _quoted(name)
    if style.name == "json":
        yield own, write(text_of(value))
    elif style.name == "deepObject" and isinstance(value, dict | list):
        yield from _deep(own, value, write, 0)
    elif not isinstance(value, dict | list):
        yield own, write(text_of(value))
    elif style.explode and style.name not in _SEPARATORS:
        items = value.items() if isinstance(value, dict) else ((name, item) for item in value)
        for key, each in items:
            yield _quoted(key), write(text_of(each))
    elif value:  # an empty array is no parameter
        separator = _SEPARATORS.get(style.name, ",")
        yield own, separator.join(_parts(value, False, write))


_SEPARATORS: Final = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}


def _deep(name: str, value: Json, write: Callable[[str], str], depth: int) -> Iterator[Pair]:
    """Yield all that is in a value, however deep, under names like `filter[author][0]`."""
    if not isinstance(value, dict | list) or depth > _DEEPEST:
        yield name, write(text_of(value))
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in items:
        yield from _deep(f"{name}%5B{_quoted(str(key))}%5D", each, write, depth + 1)


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _kept(text: str) -> str:
    return quote(text, safe=_RESERVED)


def joined(pairs: Iterator[Pair] | list[Pair]) -> str:
    """Write pairs as a query, or as the body of a form."""
    return "&".join(f"{name}={value}" for name, value in pairs)
