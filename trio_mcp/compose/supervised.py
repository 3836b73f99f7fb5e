"""A connection that is opened again whenever it is lost, by the one task that owns it.

The whole life of each connection, its nurseries and scopes included, is in that one task. Others
only borrow the client that is open just now.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from math import inf
from typing import Final

import trio
from attrs import define, field, frozen
from trio.lowlevel import ParkingLot

from trio_mcp.background import run_all
from trio_mcp.backoff import backoff
from trio_mcp.client.client import Client
from trio_mcp.client.connect import ClientConnection
from trio_mcp.client.state import ClientState, Connected, Connecting, Disconnected
from trio_mcp.errors import (
    CallTimeout,
    CannotReach,
    ClientError,
    ConnectionLost,
    ServerUnavailable,
    SessionExpired,
)
from trio_mcp.loggers import logger_of
from trio_mcp.public import public_in
from trio_mcp.wire.bounds import bound
from trio_mcp.wire.errors import McpError

logger = logger_of("trio_mcp.compose")

WAIT: Final = 1.0
"""Seconds that what is opened waits for servers that are slow to start, unless told otherwise."""
_SUSPICIOUS: Final = (CallTimeout, CannotReach, ConnectionLost, SessionExpired)
"""Failures after which it is worth looking whether a server is still there."""


@public_in("trio_mcp.compose")
@frozen(kw_only=True)
class Backoff:
    """How soon a server that was lost is tried again.

    The time doubles with each failure. A random part of up to half of it is left out, so that many
    clients do not come back at the same moment.

    Args:
        first: Seconds before the first attempt.
        longest: Seconds before any attempt, at most.
        stable: Seconds that a connection has to last to count as a success. Then the next loss
            begins with `first` again.

    Raises:
        ValueError: A number is not more than 0.
    """

    first: float = field(default=0.5, validator=bound())
    longest: float = field(default=30.0, validator=bound())
    stable: float = field(default=10.0, validator=bound())

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after so many failures in a row."""
        return backoff(failures, self.first, self.longest)


@define(eq=False, repr=False)
class SupervisedConnection:
    """A connection to one server that is opened again whenever it is lost.

    Args:
        timeout: Seconds that a caller waits for a client; and that a server has to answer, when a
            call has failed in a way that looks as if it were gone.
        adopt: Called with each new client, before any caller gets it.
        attend: Run beside each connection. What it raises ends the connection.
    """

    name: str
    _open: Callable[[], ClientConnection]
    _backoff: Backoff = field(kw_only=True)
    timeout: float = field(kw_only=True)
    _on_state: Callable[[ClientState], object] = field(default=lambda state: None, kw_only=True)
    _adopt: Callable[[Client], object] = field(default=lambda client: None, kw_only=True)
    _attend: Callable[[Client], Awaitable[object]] = field(kw_only=True)
    current: Client | None = field(default=None, init=False)
    """The open client; `None` while there is none."""
    # Those who wait for a client, and who looks whether the server is there.
    _changed: ParkingLot = field(factory=ParkingLot, init=False)
    _suspected: ParkingLot = field(factory=ParkingLot, init=False)
    state: ClientState = field(factory=Connecting, init=False)
    """How it stands."""
    was_lost: bool = field(default=False, init=False)
    """Whether it has ever failed."""
    settled: trio.Event = field(factory=trio.Event, init=False)
    """Set when it is known for the first time whether the server is there."""

    # -- its life -------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep it open, until cancelled."""
        failures = 0
        try:
            while True:
                self._move(Connecting())
                error, lasted = await self._hold()
                failures = 1 if lasted >= self._backoff.stable else failures + 1
                delay = self._backoff.delay(failures)
                self.was_lost = True
                self._move(Disconnected(error))
                told = "Server %s is not there; the next attempt is in %.1f s: %s"
                logger.warning(told, self.name, delay, error)
                await trio.sleep(delay)
        finally:
            self._move(Disconnected(None))

    async def _hold(self) -> tuple[Exception, float]:
        """Hold one connection as long as it lasts; return how it ended, and its seconds."""
        since = inf
        try:
            async with self._open() as client:
                since = trio.current_time()
                self._adopt(client)
                self.current = client
                self._move(Connected())
                tasks = (self._attend, self._examine, _ended)
                try:
                    await run_all([partial(task, client) for task in tasks])
                finally:
                    self.current = None
        except Exception as failure:  # whatever it is: the next attempt may do better
            error = failure
            if not isinstance(failure, ClientError | McpError | OSError):
                logger.exception("Server %s could not be connected", self.name)
        return error, max(trio.current_time() - since, 0.0)

    def _move(self, state: ClientState) -> None:
        self.state = state
        if not isinstance(state, Connecting):
            self.settled.set()
        self._changed.unpark_all()
        try:
            self._on_state(state)
        except Exception:  # a callback's mistake must not end the connection, nor all beside it
            logger.exception("The callback for states failed")

    async def _examine(self, client: Client) -> None:
        """Ping the server whenever it is suspected to be gone, until it does not answer."""
        while True:
            await self._suspected.park()
            with suppress(McpError):  # it does not know that, but it is there
                await client.ping(timeout=self.timeout)

    # -- for callers ----------------------------------------------------------------------

    async def client(self) -> Client:
        """Return the open client, or wait for one.

        Raises:
            ServerUnavailable: There is none within the time that callers have.
        """
        if self.current is None:
            with trio.move_on_after(self.timeout):
                while self.current is None:
                    await self._changed.park()
        if self.current is None:
            error = self.state.error if isinstance(self.state, Disconnected) else None
            raise ServerUnavailable(self.name, error)
        return self.current

    def note_failure(self, error: Exception) -> None:
        """Have the server pinged if a failure looks as if it were gone."""
        if isinstance(error, _SUSPICIOUS):
            self._suspected.unpark_all()


async def _ended(client: Client) -> None:
    """Wait for the end of a connection, and raise why it ended."""
    error: Exception | None = None
    async for state in client.states():
        if isinstance(state, Disconnected):
            error = state.error
    raise error or ConnectionLost("the connection ended")
