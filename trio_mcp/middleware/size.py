"""A limit for the size of results."""

from __future__ import annotations

from typing import ClassVar, Final

from attrs import define, field

from trio_mcp.checks import is_a
from trio_mcp.errors import ResponseTooLarge
from trio_mcp.public import public_in
from trio_mcp.registry.middleware import Around, McpRequest, RequestNext
from trio_mcp.store.exact import dumps
from trio_mcp.threads import offload
from trio_mcp.wire.bounds import COUNT
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError, ToolError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.methods import CALL_TOOL

_ROOM: Final = 1000


async def size_of(value: Json) -> int:
    """Return how many bytes a value takes as JSON, counted in a thread if it is large."""
    return await offload(lambda plain: len(dumps(plain).lstrip()), value)


def _bytes_in(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


@public_in("trio_mcp.middleware")
@define(eq=False)
class ResultSize:
    """Limits the size of results (around requests, and in a client).

    It counts the bytes of a result's JSON. What is too large is refused: a tool's caller is asked
    to ask for less, any other gets -32603. In a client, it raises `ResponseTooLarge`.

    Args:
        max_bytes: The limit.
        truncate: Whether to cut text instead, with a note at its end. Results that have structured
            content, and what is not text, are refused all the same.

    Example:
        >>> registry = Registry("logs", middleware=[ResultSize(100_000, truncate=True)])
    """

    around: ClassVar[Around] = "requests"
    max_bytes: int = field(validator=COUNT)
    truncate: bool = field(default=False, kw_only=True, validator=is_a(bool))

    async def __call__(self, request: McpRequest, call_next: RequestNext) -> dict[str, Json]:
        """Let results pass that are not too large.

        Raises:
            ToolError: A tool's result is.
            McpError: Another result is (-32603).
            ResponseTooLarge: In a client.
        """
        result = await call_next(request)
        if await size_of(result) <= self.max_bytes:
            return result
        if self.truncate:
            shortened = self._shorten(result)
            limit = 2 * self.max_bytes + _ROOM  # for the note, and all that is not text
            if shortened is not None and await size_of(shortened) <= limit:
                return shortened
        raise self._refusal(request)

    def _refusal(self, request: McpRequest) -> Exception:
        what = f"The result has more than {self.max_bytes:,} bytes"
        if request.context is None:
            return ResponseTooLarge(f"{request.method}: {what[0].lower()}{what[1:]}")
        text = f"{what}, which is the limit. Ask for less."
        if request.method == CALL_TOOL.name:
            return ToolError(text)
        return McpError(INTERNAL_ERROR, text)

    def _shorten(self, result: dict[str, Json]) -> dict[str, Json] | None:
        """Cut the text in a result; `None` if it has anything that cannot be cut."""
        key = next((name for name in ("content", "contents") if name in result), None)
        if key is None or "structuredContent" in result or not isinstance(result[key], list):
            return None
        room = self.max_bytes
        kept: list[Json] = []
        for block in result[key]:
            if not (isinstance(block, dict) and isinstance(block.get("text"), str)):
                return None
            text = block["text"]
            if len(text) <= room and _bytes_in(text) <= room:
                room -= _bytes_in(text)
                kept.append(block)
                continue
            # A character has a byte at least, so no more of them are looked at than can stay.
            start = text[:room].encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
            note = f"\n[Cut here: the result has more than {self.max_bytes:,} bytes.]"
            kept.append({**block, "text": start + note})
            break
        return {**result, key: kept}
