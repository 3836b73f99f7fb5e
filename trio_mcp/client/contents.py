"""Resources and other payloads of results, as values."""

from __future__ import annotations

import base64
import binascii
from typing import TypeVar

from attrs import frozen

from trio_mcp.errors import ProtocolError
from trio_mcp.public import public
from trio_mcp.wire.conversion import from_wire
from trio_mcp.wire.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND, McpError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.offers import ReadResourceResult
from trio_mcp.wire.payloads import BlobResourceContents, ResourceContents, TextResourceContents

T = TypeVar("T")


@public
@frozen
class ReadResult:
    """The result of `Client.read_resource`.

    Args:
        contents: Its pieces; most resources have one.
        ttl: Seconds for which it can be considered fresh.
        cache_scope: Whether it may be kept for everybody (`public`) or for this caller alone.
        meta: The result's `_meta`.
    """

    contents: list[ResourceContents]
    ttl: float = 0.0
    cache_scope: str = "private"
    meta: dict[str, Json] | None = None

    @property
    def text(self) -> str:
        """The text of all pieces that are text, joined."""
        return "".join(
            piece.text for piece in self.contents if isinstance(piece, TextResourceContents)
        )

    @property
    def data(self) -> bytes:
        """The bytes of all pieces, joined.

        Raises:
            ProtocolError: One of them is not base64.
        """
        return b"".join(_bytes_of(piece) for piece in self.contents)


def _bytes_of(piece: ResourceContents) -> bytes:
    if not isinstance(piece, BlobResourceContents):
        return piece.text.encode()
    try:
        return base64.b64decode(piece.blob, validate=True)
    except binascii.Error as error:
        raise ProtocolError(f"the resource {piece.uri} is not base64: {error}") from None


def read_result(wire: dict[str, Json]) -> ReadResult:
    """Convert the result of `resources/read`.

    Raises:
        ProtocolError: It is none.
    """
    result, ttl = payload(ReadResourceResult, "resources/read", wire), wire.get("ttlMs")
    return ReadResult(
        result.contents,
        ttl=max(ttl, 0) / 1000 if isinstance(ttl, int | float) else 0.0,
        cache_scope="public" if result.cache_scope == "public" else "private",
        meta=result.meta,
    )


def is_not_found(error: McpError, uri: str) -> bool:
    """Whether an error says that there is no such resource, in any revision's way.

    The modern way is that of any bad parameter, but it names the URI, or the beginning of a long
    one.
    """
    if error.code == RESOURCE_NOT_FOUND:
        return True
    about = error.data.get("uri") if isinstance(error.data, dict) else None
    is_named = isinstance(about, str) and about != "" and uri.startswith(about)
    return error.code == INVALID_PARAMS and is_named


def payload(kind: type[T], method: str, wire: Json) -> T:
    """Convert a part of a result to its class.

    Raises:
        ProtocolError: It does not fit.
    """
    try:
        return from_wire(wire, kind)
    except ValueError as error:
        raise ProtocolError(f"the result of {method} is not MCP: {error}") from None
