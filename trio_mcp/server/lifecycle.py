"""The states of a server, and the handle by which others see and end it."""

from collections.abc import Callable
from enum import Enum

import trio

from trio_mcp.public import public


@public
class ServerState(Enum):
    """The state of a server. It only ever moves forward."""

    STARTING = "starting"
    """It is opening its lifespan."""
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
        self._stop_wanted = False

    @property
    def state(self) -> ServerState:
        """The state of the server."""
        return self._state

    def stop(self) -> None:
        """Shut down gracefully: no new requests, and `Limits.shutdown_grace` for old ones.

        Returns at once; further calls change nothing.
        """
        self._stop_wanted = True
        if self._stop is not None:
            self._stop()

    async def wait_for(self, state: ServerState) -> None:
        """Wait until the server has reached a state, or a later one."""
        while _ORDER.index(self._state) < _ORDER.index(state):
            await self._changed.park()


class Lifecycle(ServerHandle):
    """The handle, seen from inside: the server moves it on."""

    def reach(self, state: ServerState) -> None:
        """Move on to a state; one that was passed already is left behind."""
        if _ORDER.index(state) > _ORDER.index(self._state):
            self._state = state
            self._changed.unpark_all()

    def running(self, stop: Callable[[], None]) -> None:
        """Requests are being taken, and `stop` ends that."""
        self._stop = stop
        self.reach(ServerState.RUNNING)
        if self._stop_wanted:
            stop()
