"""The states of a server, and what sees and ends it: a handle, and signals of its process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import FrameType
from typing import Final

import trio

from trio_mcp.public import public
from trio_mcp.system.signals import ENDING, end_by, end_soon


@public
class ServerState(Enum):
    """The state of a server. It only ever moves forward."""

    STARTING = "starting"
    """It is opening its lifespan, and can be stopped at any time."""
    RUNNING = "running"
    """It takes requests."""
    DRAINING = "draining"
    """It takes no new requests; running ones have some time to finish."""
    STOPPED = "stopped"
    """It has ended."""


_ORDER = list(ServerState)


@public
class ServerHandle:
    """A handle of a running server. `nursery.start(serve, registry)` returns one.

    Example:
        >>> async def main(nursery, registry, stream):
        ...     handle = await nursery.start(serve_stream, registry, stream)
        ...     handle.stop()
        ...     await handle.wait_for(ServerState.STOPPED)
    """

    def __init__(self) -> None:
        self._state = ServerState.STARTING
        self._changed = trio.lowlevel.ParkingLot()
        self._stop: Callable[[], None] | None = None
        self._scope = trio.CancelScope()

    @property
    def state(self) -> ServerState:
        """The state of the server."""
        return self._state

    def stop(self) -> None:
        """Shut down gracefully: no new requests, and `Limits.shutdown_grace` for old ones.

        A server that still starts gives that up. Returns at once; further calls change nothing.
        """
        if self._stop is None:
            self._scope.cancel()
        else:
            self._stop()

    def _abort(self) -> None:
        """Cancel all that it does, without any grace."""
        self._scope.cancel()

    async def wait_for(self, state: ServerState) -> None:
        """Wait until the server has reached a state, or a later one."""
        while _ORDER.index(self._state) < _ORDER.index(state):
            await self._changed.park()


class Lifecycle(ServerHandle):
    """The handle, seen from inside: the server moves it on."""

    @property
    def scope(self) -> trio.CancelScope:
        """What a server starts and runs in, but for what answers its clients meanwhile."""
        return self._scope

    def reach(self, state: ServerState) -> None:
        """Move on to a state; one that was passed already is left behind."""
        if _ORDER.index(state) > _ORDER.index(self._state):
            if self._state is ServerState.STARTING and state is not ServerState.RUNNING:
                self._scope.cancel()
            self._state = state
            if state is ServerState.STOPPED:
                self._stop = None  # what it stopped knows this handle, and can be freed now
            self._changed.unpark_all()

    def stopped_by(self, stop: Callable[[], None]) -> None:
        """Have a function called to stop the server, in place of a cancellation."""
        self._stop = stop
        if self._scope.cancel_called:
            stop()

    def running(self, stop: Callable[[], None]) -> None:
        """Requests are being taken, and `stop` ends that."""
        self.stopped_by(stop)
        self.reach(ServerState.RUNNING)


@public
async def stop_at_signals(handle: ServerHandle) -> None:
    """Stop a server gracefully at SIGINT, SIGTERM or SIGHUP, and return once it has stopped.

    On Windows, that is SIGINT (Ctrl-C) or SIGBREAK (Ctrl-Break). A second signal cancels all that
    the server does, and ends the process, by that signal, after a second at most (on Windows, at
    once). Signals are handled only in the main thread, and only if they are not ignored; SIGHUP
    only if it has no handler yet. `serve` does this by itself, because the process is its own. So
    does `serve_http(own_process=True)`, before it reports that it listens.

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


_HANGUP: Final[signal.Signals | None] = getattr(signal, "SIGHUP", None)
"""Its terminal has closed, or its configuration has changed: it would end the process at once."""
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
    if _HANGUP is not None and signal.getsignal(_HANGUP) is signal.SIG_DFL:
        taken.append(_HANGUP)
    previous = {number: signal.signal(number, on_signal) for number in taken}
    try:
        yield
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)
