"""Stopping a server because its process was asked to."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import trio

from trio_mcp.public import public
from trio_mcp.server.lifecycle import ServerHandle, ServerState
from trio_mcp.system.signals import ENDING, end_by, end_soon


@public
async def stop_at_signals(handle: ServerHandle) -> None:
    """Stop a server gracefully at SIGINT or SIGTERM, and return once it has stopped.

    On Windows, that is SIGINT (Ctrl-C) or SIGBREAK (Ctrl-Break). A second signal cancels all that
    the server does, and ends the process, by that signal, after a second at most (on Windows, at
    once). Signals are handled only in the main thread, and only if they are not ignored. `serve`
    does this by itself, because the process is its own. So does `serve_http(own_process=True)`,
    before it reports that it listens.

    Args:
        handle: The server, as `nursery.start` returns it.

    If cancelled, it restores the handling of signals and leaves the server as it is.

    Example:
        >>> async def main(registry: Registry) -> None:
        ...     async with trio.open_nursery() as nursery:
        ...         handle = await nursery.start(serve_http, registry)
        ...         await stop_at_signals(handle)
    """
    with stopping_at_signals(handle):
        await handle.wait_for(ServerState.STOPPED)


_MOMENT: Final = 1.0
"""Seconds that what can be finished has after the second signal."""


@contextmanager
def stopping_at_signals(
    handle: ServerHandle, call_soon: Callable[[Callable[[], None]], object] | None = None
) -> Iterator[None]:
    """Stop a server at the first signal, and end the process at the second, after a moment.

    Args:
        handle: The server, which ends within the block.
        call_soon: Has a function called in the Trio run, where that is in another thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    call_soon = call_soon or trio.lowlevel.current_trio_token().run_sync_soon
    signals = 0

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal signals
        signals += 1
        if signals == 1:
            call_soon(handle.stop)
        elif signals == 2:  # its parent learns why it ends, whatever holds it up
            end_soon(number, _MOMENT)
            call_soon(handle._abort)
        else:
            end_by(number)

    taken = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, on_signal) for number in taken}
    try:
        yield
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)
