"""Decoding messages without holding the event loop, however much is in them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

from trio_mcp.wire.jsonrpc import Message, decode
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.weight import is_long

T = TypeVar("T")

SHORT: Final = 64 * 1024
"""Bytes of a line that is decoded on the spot, whatever is in it."""
_THREAD: Final = trio.lowlevel.RunVar[trio.CapacityLimiter]("decoding")


def decoded(line: bytes, limits: Limits) -> Awaitable[Message | None]:
    """Turn a line into a message, as `decode` does; in a worker thread if that takes long.

    No checkpoint if it does not. Cancelled, it leaves the thread behind, which ends by itself.
    """
    return in_turn(decode, line, limits.max_batch, limits.max_message_values)


async def in_turn(work: Callable[..., T], text: bytes, *args: int) -> T:
    """Do work on a JSON text; in a worker thread if the text is such that it takes long."""
    if len(text) < SHORT or not is_long(text):
        return work(text, *args)
    return await trio.to_thread.run_sync(
        work, text, *args, abandon_on_cancel=True, limiter=_thread()
    )


def _thread() -> trio.CapacityLimiter:
    """Allow one at a time: each holds the interpreter for a while, and others have to get a turn.

    It is apart from the usual threads, which may all be taken by calls that only a message ends.
    """
    try:
        return _THREAD.get()
    except LookupError:
        _THREAD.set(trio.CapacityLimiter(1))
        return _THREAD.get()
