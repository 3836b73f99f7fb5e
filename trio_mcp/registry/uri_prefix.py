"""URIs of a mounted part, and what they are where it is mounted.

The prefix becomes the first segment: `config://app` is `config://prefix/app`, and `notes:today` is
`notes:prefix/today`. The scheme stays what it is, because clients know some schemes, and the way
back only takes the segment out. Templates are treated the same, as the scheme is never a variable.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Final

from trio_mcp.wire.jsonrpc import Json

_WEB: Final = frozenset({"http", "https", "data", "mailto"})
"""Schemes of what is mostly no resource of anybody's, but a link for people."""

Translate = Callable[[str], str]


def add_prefix(prefix: str | None, uri: str) -> str:
    """Return what a URI, or a URI template, is under a prefix."""
    scheme, colon, rest = uri.partition(":")
    if not prefix or not colon:
        return uri
    return f"{scheme}://{prefix}/{rest[2:]}" if rest[:2] == "//" else f"{scheme}:{prefix}/{rest}"


def translator(prefix: str, known: Container[str]) -> Translate:
    """Make what adds a prefix to URIs in results: of web pages, only to those that are known."""

    def translate(uri: str) -> str:
        is_page = uri.partition(":")[0].lower() in _WEB and uri not in known
        return uri if is_page else add_prefix(prefix, uri)

    return translate


def remove_prefix(prefix: str | None, uri: str) -> str | None:
    """Return what a URI was before `add_prefix`; `None` if it is not under the prefix."""
    if not prefix:
        return uri
    scheme, colon, rest = uri.partition(":")
    slashes = "//" if rest[:2] == "//" else ""
    own = rest.removeprefix(f"{slashes}{prefix}/")
    return f"{scheme}:{slashes}{own}" if colon and len(own) < len(rest) else None


# -- where results name resources -----------------------------------------------------------


def translated(result: dict[str, Json], uri: Translate) -> dict[str, Json]:
    """Return a result of any method with other URIs of resources, wherever it names them."""
    for key, translate in _PLACES.items():
        if isinstance(result.get(key), list):
            result = {**result, key: [translate(piece, uri) for piece in result[key]]}
    return result


def _contents(contents: Json, uri: Translate) -> Json:
    own = contents.get("uri") if isinstance(contents, dict) else None
    return {**contents, "uri": uri(own)} if isinstance(own, str) else contents


def _block(block: Json, uri: Translate) -> Json:
    kind = block.get("type") if block.__class__ is dict else None
    if kind == "resource_link":  # there may be very many
        own = block.get("uri")
        return {**block, "uri": uri(own)} if own.__class__ is str else block
    if kind == "resource":
        return {**block, "resource": _contents(block.get("resource"), uri)}
    return block


def _message(message: Json, uri: Translate) -> Json:
    if isinstance(message, dict) and "content" in message:
        return {**message, "content": _block(message["content"], uri)}
    return message


_PLACES: Final[Mapping[str, Callable[[Json, Translate], Json]]] = {
    "content": _block,
    "contents": _contents,
    "messages": _message,
}
