"""The channel between the parent and a worker: JSON objects, a line each.

What is sent is state, and a later value replaces one that was not sent yet. So a process that does
not read makes the other one neither wait nor grow.

From the parent: `settings` first, then `live`, `ask`, `total`, `ending`, `stop`.
From a worker: `ready`, `sum`, `report`.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

import orjson
import trio

from trio_mcp.peer.lines import StreamLines

ENVIRONMENT: Final = "TRIO_MCP_WORKER"
"""Names the descriptor of a worker's end, in its environment."""


class Channel:
    """One end of it."""

    def __init__(self, sock: socket.socket) -> None:
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        self._message: dict[str, Any] = {}
        self._wake = trio.Event()

    def tell(self, **message: Any) -> None:
        """Tell the other end, soon."""
        self._message.update(message)
        self._wake.set()

    async def send_news(self) -> None:
        while True:
            await self._wake.wait()
            await self.flush()

    async def flush(self) -> None:
        self._wake = trio.Event()
        message, self._message = self._message, {}
        if message:
            # That the other process has gone is noticed by who reads.
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._stream.send_all(orjson.dumps(message) + b"\n")

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        """Iterate over what the other end tells, until it is closed."""
        lines = StreamLines(self._stream, sys.maxsize)
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while frames := await lines.receive():
                for line in frames:
                    if isinstance(line, bytes):
                        yield orjson.loads(line)

    async def aclose(self) -> None:
        await self._stream.aclose()
