"""The channel between the parent and a worker: JSON objects, a line each.

What is sent is state, and a later value replaces one that was not sent yet. So a process that does
not read makes the other one neither wait nor grow.

From the parent: `settings` first, then `live`, `ask`, `total`, `ending`, `stop`.
From a worker: `ready`, `sum`, `report`. What they report is added up, and no count ever falls: what
a worker counted before it ended is kept, as far as it had reported.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final, TypedDict

import trio

from trio_mcp.peer.lines import IO_ERRORS, StreamLines
from trio_mcp.wire import codec

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
            with suppress(*IO_ERRORS):
                await self._stream.send_all(codec.dumps(message) + b"\n")

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        """Iterate over what the other end tells, until it is closed."""
        lines = StreamLines(self._stream, sys.maxsize)
        with suppress(*IO_ERRORS):
            while frames := await lines.receive():
                for line in frames:
                    if isinstance(line, bytes):
                        yield codec.loads(line)

    async def aclose(self) -> None:
        await self._stream.aclose()


Snapshot = dict[str, Any]
"""Families by name: their kind, their help, and values by name of sample and by labels (JSON)."""

_STATES: Final = ("connected", "connecting", "disconnected")


class Report(TypedDict):
    """What a worker reports, or what is reported of all."""

    metrics: Snapshot
    servers: dict[str, str]
    """How servers elsewhere stand, by name."""


def note_servers(total: dict[str, str], servers: dict[str, str]) -> None:
    """Take note of how servers elsewhere stand for a worker: of each, the worst counts."""
    for name, state in servers.items():
        total[name] = max(total.get(name, state), state, key=_STATES.index)


def add(total: Snapshot, snapshot: Snapshot, *, ended: bool = False) -> None:
    """Add a worker's metrics to the total: if it has ended, what it counted, but not its gauges."""
    for family, (kind, help_text, samples) in snapshot.items():
        if ended and kind in ("gauge", "untyped"):
            continue
        into = total.setdefault(family, [kind, help_text, {}])[2]
        for name, values in samples.items():
            known = into.setdefault(name, {})
            for labels, value in values.items():
                known[labels] = known.get(labels, 0.0) + value
