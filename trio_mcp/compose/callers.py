"""Connections to a legacy server for callers who can be asked something.

Such a server knows from the handshake on what its client can be asked, and asks on the connection
and not in a call. So a caller who can be asked gets a connection of its own: opened with its first
call or list, with exactly the capabilities that it has declared, and closed when it is idle. For a
server that is a command, this is a process of its own, so there is a bound to how many there are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import ClassVar

import trio
from attrs import Factory, define, field

from trio_mcp.background import background_nursery
from trio_mcp.client.client import Client
from trio_mcp.client.connect import ClientConnection
from trio_mcp.client.state import Disconnected
from trio_mcp.compose.calls import OpenCalls
from trio_mcp.errors import ClientError, ServerUnavailable
from trio_mcp.loggers import logger_of
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.shares import one_that_goes

logger = logger_of("trio_mcp.compose")

CallerKey = tuple[str | None, str | None, bytes]
"""Whose a connection is: the caller's own connection, its principal, and, as JSON, what it can be
asked."""


@define(eq=False)
class CallerConnection:
    """A connection for one caller, or for one after the other."""

    busy: ClassVar = True

    key: CallerKey
    owner: str
    """To whose share it counts."""
    calls: OpenCalls = Factory(OpenCalls)
    users: int = 0
    """Calls that use it, or are about to."""
    client: Client | None = None
    error: Exception | None = None
    """Why there is no client."""
    settled: trio.Event = Factory(trio.Event)
    scope: trio.CancelScope = Factory(trio.CancelScope)
    idle_since: float = 0.0
    tells_of_roots: bool = False
    """Whether a notification that the caller's roots have changed is on its way."""
    _changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)

    @contextmanager
    def used(self) -> Iterator[None]:
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1
            self.idle_since = trio.current_time()
            self._changed.unpark_all()

    async def end_when_idle(self, seconds: float) -> None:
        """End it once it was unused for that many seconds."""
        while self.users or trio.current_time() < self.idle_since + seconds:
            if self.users:
                await self._changed.park()
            else:
                await trio.sleep_until(self.idle_since + seconds)
        self.scope.cancel()

    @property
    def is_ending(self) -> bool:
        return self.error is not None or self.scope.cancel_called


@define(eq=False, repr=False)
class CallerConnections:
    """Opens, shares and closes the connections of the callers of one server.

    Args:
        attend: Run beside each connection.
    """

    _name: str
    _open: Callable[[OpenCalls, CallerKey], ClientConnection] = field(alias="open_")
    _nursery: trio.Nursery
    _attend: Callable[[Client, CallerKey], Awaitable[object]] = field(kw_only=True)
    _limit: int = field(kw_only=True)
    _idle: float = field(kw_only=True)
    _timeout: float = field(kw_only=True)
    _ended: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    open: dict[CallerConnection, None] = field(factory=dict, init=False)
    """Those that there are, the one that was begun first at the beginning."""

    async def connection(self, key: CallerKey, owner: str, *, alone: bool) -> CallerConnection:
        """Return a caller's connection, which may still be opening.

        Where there are as many as there may be, an unused one is closed for it, or else the last
        one of an owner who has more.

        Raises:
            ServerUnavailable: There are too many, and none has become free in time.
        """
        with trio.move_on_after(self._timeout):
            while True:
                found = self._find(key, owner, alone)
                if found is not None:
                    return found
                await self._ended.park()
        why = ClientError(f"all {self._limit} connections for callers are in use")
        raise ServerUnavailable(self._name, why)

    def _find(self, key: CallerKey, owner: str, alone: bool) -> CallerConnection | None:
        for connection in self.open:
            is_free = not (alone and connection.users)
            if connection.key == key and is_free and not connection.is_ending:
                return connection
        if len(self.open) < self._limit:
            connection = CallerConnection(key, owner, idle_since=trio.current_time())
            self.open[connection] = None
            self._nursery.start_soon(self._hold, connection)
            return connection
        # One at a time: it goes on being counted until it has really ended.
        if not any(connection.scope.cancel_called for connection in self.open):
            self._make_room(owner)
        return None

    def _make_room(self, newcomer: str) -> None:
        unused = [connection for connection in self.open if not connection.users]
        if unused:
            min(unused, key=lambda connection: connection.idle_since).scope.cancel()
            return
        latest = one_that_goes(newcomer, reversed(self.open))
        if latest is not None:
            latest.scope.cancel()

    def note_free(self) -> None:
        """Wake the calls that wait for a free connection."""
        self._ended.unpark_all()

    async def _hold(self, connection: CallerConnection) -> None:
        """Hold a connection open until it is idle, or lost."""
        try:
            with connection.scope:
                async with self._open(connection.calls, connection.key) as client:
                    connection.client = client
                    connection.settled.set()
                    async with background_nursery(
                        partial(connection.end_when_idle, self._idle),
                        partial(self._attend, client, connection.key),
                    ):
                        async for state in client.states():
                            if isinstance(state, Disconnected):
                                connection.error = state.error
        except Exception as error:
            connection.error = error
            if not isinstance(error, ClientError | McpError | OSError):
                logger.exception("Server %s could not be connected for a caller", self._name)
        finally:
            if connection.error is None:
                connection.error = ClientError("its connection has been closed")
            connection.settled.set()
            del self.open[connection]
            self._ended.unpark_all()
