"""URIs of a mounted part, and what they are where it is mounted.

The prefix becomes the first segment: `config://app` is `config://prefix/app`, and `notes:today` is
`notes:prefix/today`. The scheme stays what it is, because clients know some schemes, and the way
back only takes the segment out. Templates are treated the same, as the scheme is never a variable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from trio_mcp.wire.jsonrpc import Json

_PARTS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:(?://)?)(.*)", re.DOTALL)

Translate = Callable[[Json], Json]


def scheme_of(uri: str) -> str:
    """Return what stands before the colon, in lower case; nothing for what is no URI."""
    return uri.partition(":")[0].lower() if _PARTS.match(uri) else ""


def add_prefix(prefix: str | None, uri: str) -> str:
    """Return what a URI, or a URI template, is under a prefix."""
    parts = _PARTS.match(uri) if prefix else None
    return uri if parts is None else f"{parts[1]}{prefix}/{parts[2]}"


def remove_prefix(prefix: str | None, uri: str) -> str | None:
    """Return what a URI was before `add_prefix`; `None` if it is not under the prefix."""
    if not prefix:
        return uri
    parts = _PARTS.match(uri)
    if parts is None or not parts[2].startswith(f"{prefix}/"):
        return None
    return parts[1] + parts[2][len(prefix) + 1 :]


# -- where results name resources -----------------------------------------------------------


def translated(result: dict[str, Json], uri: Translate) -> dict[str, Json]:
    """Return a result with other URIs of resources, wherever it names them.

    Args:
        result: The members of a result of any method.
        uri: Makes a URI of a URI.
    """
    for key, translate in _PLACES.items():
        if isinstance(result.get(key), list):
            result = {**result, key: [translate(each, uri) for each in result[key]]}
    return result


def _contents(contents: Json, uri: Translate) -> Json:
    if isinstance(contents, dict) and isinstance(contents.get("uri"), str):
        return {**contents, "uri": uri(contents["uri"])}
    return contents


def _block(block: Json, uri: Translate) -> Json:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "resource_link":
        return _contents(block, uri)
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
