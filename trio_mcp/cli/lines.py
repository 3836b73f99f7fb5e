"""Reading the lines of a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import trio

from trio_mcp.peer.lines import StreamLines
from trio_mcp.wire.limits import Limits

_LIMIT: Final = Limits().max_message_bytes


async def lines_of(stream: trio.abc.Stream, limit: int = _LIMIT) -> AsyncIterator[bytes]:
    """Read lines until the stream ends or breaks; skip those too long for a message."""
    lines = StreamLines(stream, limit)
    try:
        while frames := await lines.receive():
            for frame in frames:
                if isinstance(frame, bytes):
                    yield frame
    except trio.BrokenResourceError:
        return
