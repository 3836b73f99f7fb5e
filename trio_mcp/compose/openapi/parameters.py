"""Arguments as parts of a request: OpenAPI's styles of serialization.

Whatever an argument says, it stays in its place: a path keeps its segments, a query its parameters,
a header its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final
from urllib.parse import quote

from trio_mcp.compose.openapi.arguments import Location
from trio_mcp.compose.openapi.operations import VARIABLE
from trio_mcp.errors import ToolError
from trio_mcp.wire.jsonrpc import Json, encode

Pair = tuple[str, str]

# Of the reserved characters, `allowReserved` leaves those that end nothing in a query.
_RESERVED: Final = ":/?@!$'()*,;[]"
# What else a cookie may hold (RFC 6265, section 4.1.1), which no server takes for its end.
_IN_COOKIES: Final = "!#$&'()*+-./:<=>?@[]^_`{|}~"
_DOTS: Final = re.compile(r"(?:^|[/\\])\.\.?(?:$|[/\\;])")
_MATRIX: Final = re.compile(r";([^;=]+)=")
_LINE: Final = re.compile(r"[\x20-\x7e\t]*")
_DEEPEST: Final = 20


def text_of(value: Json) -> str:
    """Write a value as text: as it is, or as JSON."""
    return value if isinstance(value, str) else json_of(value).decode()


def json_of(value: Json) -> bytes:
    """Write an argument as JSON, with integers of any length."""
    return encode(value)[:-1]


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
        for name in _MATRIX.findall(plain):
            location.names.checked(name, location.name)
        return text

    return VARIABLE.sub(filled, template)


def _in_path(location: Location, value: Json, write: Callable[[str], str]) -> str:
    style = location.style
    if style.name == "json":
        return write(text_of(value))
    if style.name == "matrix" and style.explode and isinstance(value, dict | list):
        pairs = _spread(location, value)
        return "".join(f";{write(name)}={write(text)}" for name, text in pairs)
    parts = _parts(value, style.explode, write)
    if style.name == "label":
        return "." + ("." if style.explode else ",").join(parts)
    return (f";{write(location.name)}=" if style.name == "matrix" else "") + ",".join(parts)


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
    """Write a value as that of a header; refuse one that no header can hold."""
    is_json = location.style.name == "json"
    text = text_of(value) if is_json else ",".join(_parts(value, location.style.explode, str))
    if _LINE.fullmatch(text) is None:
        raise ToolError(
            f"{location.name} has characters in it that the header of a request cannot hold"
        )
    return text


def cookies_of(location: Location, value: Json) -> Iterator[Pair]:
    """Yield a value as cookies; what ends one, by the reading of any server, is quoted."""
    style = location.style
    write = _as_cookie if style.name == "cookie" else _quoted
    if style.name == "json":
        yield location.name, quote(text_of(value), safe=_IN_COOKIES)
    elif style.explode and isinstance(value, dict | list):
        for name, text in _spread(location, value):
            yield name if name == location.name else _quoted(name), write(text)
    else:
        yield location.name, ",".join(_parts(value, False, write))


def query_of(location: Location, value: Json) -> Iterator[Pair]:
    """Yield a value as parameters of a query, or members of a form: names and values, quoted."""
    style, own = location.style, _quoted(location.name)
    write = _kept if style.allow_reserved else _quoted
    if style.name == "json" or not isinstance(value, dict | list):
        yield own, write(text_of(value))
    elif style.name == "deepObject":
        yield from _deep(location, location.name, value, write)
    elif style.explode and style.name not in _SEPARATORS:
        yield from ((_quoted(name), write(text)) for name, text in _spread(location, value))
    elif value:  # an empty array is not a parameter
        separator = _SEPARATORS.get(style.name, ",")
        yield own, separator.join(_parts(value, False, write))


_SEPARATORS: Final = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}


def _spread(location: Location, value: Json) -> Iterator[Pair]:
    """Yield the items of an array under its own name, or those of an object under their keys."""
    if isinstance(value, list):
        yield from ((location.name, text_of(item)) for item in value)
    else:
        for key, each in value.items():
            yield location.names.checked(key, location.name), text_of(each)


def _deep(
    location: Location, name: str, value: Json, write: Callable[[str], str], depth: int = 0
) -> Iterator[Pair]:
    """Yield all that is in a value, however deep, under names like `filter[author][0]`."""
    if not isinstance(value, dict | list) or depth > _DEEPEST:
        yield _quoted(location.names.checked(name, location.name)), write(text_of(value))
        return
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _deep(location, f"{name}[{key}]", each, write, depth + 1)


_quoted: Final[Callable[[str], str]] = partial(quote, safe="")
_kept: Final[Callable[[str], str]] = partial(quote, safe=_RESERVED)
_as_cookie: Final[Callable[[str], str]] = partial(quote, safe=_IN_COOKIES + "%")


def joined(pairs: Iterator[Pair] | list[Pair]) -> str:
    """Write pairs as a query, or as the body of a form."""
    return "&".join(f"{name}={value}" for name, value in pairs)
