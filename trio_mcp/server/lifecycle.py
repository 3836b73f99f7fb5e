"""The states of a server, and the handle by which others see and end it."""

from collections.abc import Callable
from enum import Enum

import trio

from trio_mcp.public import public


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
