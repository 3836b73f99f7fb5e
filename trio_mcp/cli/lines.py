"""The lines of a stream, one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import trio

from trio_mcp.peer.lines import StreamLines
from trio_mcp.wire.limits import Limits


async def lines_of(stream: trio.abc.Stream) -> AsyncIterator[bytes]:
    """Read lines until there are no more; one that is too long for any message is left out.

    Args:
        stream: Where they come from. One that breaks has ended.
    """
    lines = StreamLines(stream, Limits().max_message_bytes)
    try:
        while frames := await lines.receive():
            for frame in frames:
                if isinstance(frame, bytes):
                    yield frame
    except trio.BrokenResourceError:
        return
