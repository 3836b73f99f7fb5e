"""Stopping a server because its process was asked to."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import trio

from trio_mcp.public import public
from trio_mcp.server.lifecycle import ServerHandle, ServerState
from trio_mcp.system.signals import ENDING, end_by


@public
async def stop_at_signals(handle: ServerHandle) -> None:
    """Stop a server gracefully at SIGINT or SIGTERM, and return once it has stopped.

    On Windows, that is SIGINT (Ctrl-C) or SIGBREAK (Ctrl-Break). A second signal ends the process
    at once. Signals are handled only in the main thread, and only if they are not ignored. `serve`
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
    with calling_at_signals(handle.stop):
        await handle.wait_for(ServerState.STOPPED)


@contextmanager
def calling_at_signals(
    stop: Callable[[], None], call_soon: Callable[[Callable[[], None]], object] | None = None
) -> Iterator[None]:
    """Have a function called in the Trio run at the first signal, for the length of a block.

    Args:
        stop: The function.
        call_soon: Has a function called in the Trio run, where that is in another thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    call_soon = call_soon or trio.lowlevel.current_trio_token().run_sync_soon
    seen = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        if seen:  # the default action ends the process, and tells its parent why
            end_by(number)
        seen = True
        call_soon(stop)

    taken = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, on_signal) for number in taken}
    try:
        yield
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)
