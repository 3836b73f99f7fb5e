"""What our own HTTP requests bring back: bodies within bounds, and a log without secrets.

httpx2, which sends them, reads a body through several generators, one in the other, however long it
is, and logs whole URLs.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import trio

if TYPE_CHECKING:  # which is optional
    import httpx2

_AT_ONCE: Final = 16
"""So many pieces of a body are read before others get their turn."""
_CLOSE_TIME: Final = 1.0
"""Seconds to give a connection back, or to close it."""


class Body:
    """The body of a response that was opened as a stream: in pieces, as they are, not unpacked."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        is_read = response.is_stream_consumed  # which a transport may do that has it in memory
        stream: Any = response.stream
        self._pieces: AsyncIterator[bytes] = _whole(response) if is_read else aiter(stream)
        self._read = 0
        self._is_at_end = False

    async def read_some(self) -> bytes:
        """Read a piece as soon as there is one; nothing at the end.

        Raises:
            httpx2.TransportError: The connection broke.
        """
        self._read += 1
        if self._read % _AT_ONCE == 0:  # one read may have brought ten thousand pieces
            await trio.lowlevel.checkpoint()
        async for piece in self._pieces:
            if piece:
                return piece
        self._is_at_end = True
        return b""

    async def read(self, limit: int) -> bytes:
        """Read it to its end, or a little more than `limit` bytes of it."""
        body = bytearray()
        while len(body) <= limit and (piece := await self.read_some()):
            body += piece
        return bytes(body)

    async def aclose(self) -> None:
        """Give the connection back if the body was read to its end, else close it.

        httpx2 closes only the outermost of its generators. An exception from within ends them all:
        here it is `Cancelled`, raised when there is nothing more to read without waiting.
        """
        import httpx2

        if not self._is_at_end:
            with trio.CancelScope(shield=True) as scope:
                scope.cancel()
                try:
                    async for _ in self._pieces:
                        pass
                except httpx2.TransportError:
                    pass
        with trio.move_on_after(_CLOSE_TIME, shield=True):
            # Not the response, which httpx2 may still want to read: `drain`.
            await self._response.stream.aclose()  # type: ignore[union-attr]


async def _whole(response: httpx2.Response) -> AsyncIterator[bytes]:
    yield response.content


_DRAIN_TIME: Final = 1.0
_MOST_DRAINED: Final = 65536


async def drain(response: httpx2.Response) -> None:
    """Discard the body of a response whose request is sent again.

    httpx2 reads such a body to its end, however long it is. This reads a little, so that the
    connection can be reused, and cuts off a longer one.
    """
    import httpx2

    body = Body(response)
    try:
        with trio.move_on_after(_DRAIN_TIME):
            await body.read(_MOST_DRAINED)
    finally:
        await body.aclose()
    response.stream = httpx2.ByteStream(b"")


SHOWN: Final[ContextVar[Callable[[httpx2.URL], object] | None]] = ContextVar(
    "trio_mcp_shown_urls", default=None
)
"""How the log shows the URLs of what this task sends; `None` if it sends no request of ours."""


@contextmanager
def shown_urls() -> Iterator[None]:
    """Have httpx2's log show URLs as `SHOWN` says, for the length of the block."""
    import httpx2

    def show(record: logging.LogRecord) -> bool:
        shown, args = SHOWN.get(), record.args
        if shown is not None and isinstance(args, tuple):
            record.args = tuple(
                shown(value) if isinstance(value, httpx2.URL) else value for value in args
            )
        return True

    log = logging.getLogger("httpx2")
    log.addFilter(show)
    try:
        yield
    finally:
        log.removeFilter(show)
