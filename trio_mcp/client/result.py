"""Results as values: of a tool call, converted to a type of the caller's choice, and others."""

from __future__ import annotations

import base64
import binascii
from functools import cache
from math import inf
from typing import Any, Final, TypeVar

from attrs import evolve, field, frozen

from trio_mcp.client.cache import ttl_of
from trio_mcp.errors import ProtocolError, ToolFailed
from trio_mcp.public import public
from trio_mcp.schema import ArgumentError, compile_validator, schema_of
from trio_mcp.schema.structuring import structure_arguments
from trio_mcp.threads import offload
from trio_mcp.wire import codec
from trio_mcp.wire.content import (
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    ResourceContents,
    TextContent,
    TextResourceContents,
)
from trio_mcp.wire.conversion import from_wire
from trio_mcp.wire.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND, McpError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.offers import ReadResourceResult

T = TypeVar("T")

_FEW: Final = 100
"""So many blocks of text are converted at once."""


@public
@frozen(kw_only=True)
class CallResult:
    """The result of `Client.call_tool`."""

    content: list[ContentBlock]
    """Blocks for a model to read."""
    structured_content: Json = None
    """The same as a JSON value; `None` if the tool gives none."""
    error: str | None = None
    """The tool's text if it failed; otherwise `None`."""
    duration: float = 0.0
    """Seconds from sending the call to receiving its result."""
    meta: dict[str, Json] | None = field(default=None)
    """The result's `_meta`."""

    @classmethod
    def from_wire(cls, wire: dict[str, Json]) -> CallResult:
        """Make one of the members of a result, such as `Client.request` returns.

        Raises:
            ValueError: It is not a result of a tool call.
        """
        return call_result(wire, 0.0)

    @property
    def success(self) -> bool:
        """Whether the tool succeeded."""
        return self.error is None

    @property
    def text(self) -> str:
        """The text of all text blocks, line by line."""
        # Of a list, as each call's text is looked at: a generator takes twice as long.
        return "\n".join([block.text for block in self.content if isinstance(block, TextContent)])

    def value(self, kind: type[T]) -> T:
        """Convert the result into a type: the structured content, or else the text as JSON.

        Many servers wrap values that are not objects as `{"result": value}`. If so, that value is
        converted, unless the object itself fits the type.

        Args:
            kind: A type such as `float`, `list[str]`, or an attrs class or dataclass.

        Raises:
            ToolFailed: The tool failed.
            ProtocolError: The result does not fit the type.
        """
        if self.error is not None:
            raise ToolFailed(self.error)
        wire = self._wire(kind)
        hashable: Any = kind
        validate, structure = _converter(hashable)
        problem = validate(wire)
        if problem is not None and _is_wrapped(wire) and validate(wire["result"]) is None:
            wire, problem = wire["result"], None
        if problem is not None:
            raise ProtocolError(f"the result is not {kind!r}: {problem}")
        try:
            value: T = structure({"result": wire})["result"]
        except ArgumentError as error:
            raise ProtocolError(f"the result is not {kind!r}: {error}") from None
        return value

    def _wire(self, kind: Any) -> Json:
        if self.structured_content is not None:
            return self.structured_content
        if kind is str:
            return self.text
        if not self.content:
            return None
        try:
            return codec.loads(self.text)
        except ValueError:
            return self.text


async def convert_result(result: CallResult, kind: type[T]) -> T:
    """Do what `CallResult.value` does, in a worker thread if the result is large."""
    measured = result.structured_content
    if measured is None:
        measured = result.text.encode("utf-8", "replace")
    return await offload(lambda _: result.value(kind), measured)


def _is_wrapped(wire: Json) -> bool:
    """Whether a value may be wrapped in an object, as legacy revisions demand."""
    return isinstance(wire, dict) and wire.keys() == {"result"}


def unwrapped(result: CallResult) -> CallResult:
    """Return the same result, with the value that stands in `{"result": value}`."""
    if result.success and _is_wrapped(result.structured_content):
        return evolve(result, structured_content=result.structured_content["result"])
    return result


@cache
def _converter(kind: Any) -> tuple[Any, Any]:
    return (
        compile_validator(schema_of(kind), inferred=True, noun="result"),
        structure_arguments({"result": kind}, None),
    )


def call_result(wire: dict[str, Json], duration: float) -> CallResult:
    """Convert the result of `tools/call`, or raise `ValueError` if it is none."""
    plain = plain_result(wire, duration, inf)
    if plain is not None:
        return plain
    payload = from_wire(wire, CallToolResult)
    error = None
    if payload.is_error:
        said = "\n".join(block.text for block in payload.content if isinstance(block, TextContent))
        error = said or "the tool failed without saying why"
    return CallResult(
        content=payload.content,
        structured_content=payload.structured_content,
        error=error,
        duration=duration,
        meta=payload.meta,
    )


_NO_META: Final[dict[str, Json]] = {}


def plain_result(wire: dict[str, Json], duration: float, limit: float = _FEW) -> CallResult | None:
    """Convert a success that is a few plain texts, as most are; return `None` for any other."""
    blocks, meta = wire.get("content"), wire.get("_meta", _NO_META)
    if wire.get("isError", False) is not False or type(blocks) is not list or len(blocks) > limit:
        return None
    if type(meta) is not dict:
        return None
    texts: list[Any] = []
    for block in blocks:
        if type(block) is not dict or len(block) != 2 or block.get("type") != "text":
            return None
        text = block.get("text")
        if type(text) is not str:
            return None
        texts.append(TextContent(text))
    return CallResult(
        content=texts,
        structured_content=wire.get("structuredContent"),
        duration=duration,
        meta=None if meta is _NO_META else meta,
    )


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
    """Convert the result of `resources/read`, or raise `ProtocolError` if it is none."""
    result = payload(ReadResourceResult, "resources/read", wire)
    return ReadResult(
        result.contents,
        ttl=ttl_of(wire) / 1000,
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
    """Convert a part of a result to its class, or raise `ProtocolError`."""
    try:
        return from_wire(wire, kind)
    except ValueError as error:
        raise ProtocolError(f"the result of {method} is not MCP: {error}") from None
