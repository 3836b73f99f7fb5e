"""What the connections of one server share: room, counts, and one task that looks after them.

Two things must happen to a connection while nothing happens on it: a deadline passes, or the client
leaves while its request runs. A cancel scope per deadline and a reading task per request would do,
and would be a quarter of all the work that a short request is. So a connection notes its deadlines
as plain numbers and has one cancel scope for its whole life; and for a request that has ended
before the next look, there is none. The task sleeps until the earliest deadline, and looks about
every `LISTEN_AFTER` seconds while requests run.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterable
from email.utils import formatdate
from math import inf
from typing import Final, Protocol

import trio
from attrs import define, field

from trio_mcp.transports.http.server.asgi import AsgiApp
from trio_mcp.transports.http.server.limits import HttpLimits
from trio_mcp.wire.shares import one_that_goes

LISTEN_AFTER: Final = 0.05
"""Seconds that a request may run before its client's disconnect is watched for."""

_PAUSE: Final = 0.01
"""Seconds between two looks at least, however many deadlines there are."""


class Watched(Protocol):
    """A connection, as far as the whole server has to do with it."""

    @property
    def owner(self) -> str: ...

    @property
    def idle(self) -> bool: ...

    @property
    def busy(self) -> bool: ...

    def end(self) -> None: ...

    def drop(self) -> None: ...

    def look(self, now: float) -> float: ...


class Watch:
    """Looks after connections."""

    def __init__(self, connections: Iterable[Watched]) -> None:
        self._connections = connections
        self._now = trio.lowlevel.current_clock().current_time
        self._sleep = trio.CancelScope()
        self._wakes = inf  # the deadline of its sleep
        self._dozing = True  # it sleeps for longer than LISTEN_AFTER

    def within(self, seconds: float) -> float:
        """Have a look when so many seconds have passed, at the latest; returns when that is."""
        deadline = self._now() + seconds
        if deadline < self._wakes:
            self._wakes = self._sleep.deadline = deadline
        return deadline

    def soon(self) -> None:
        if self._dozing:
            self._dozing = False
            self.within(LISTEN_AFTER)

    async def run(self) -> None:
        while True:
            now = self._now()
            due = min((connection.look(now) for connection in self._connections), default=inf)
            self._dozing = due > now + LISTEN_AFTER
            self._wakes = max(due, now + _PAUSE)
            with trio.CancelScope(deadline=self._wakes) as self._sleep:
                await trio.sleep_forever()


_PART: Final = 8
"""One for so many that there may be is accepted to wait until there is room."""

_FEW: Final = 8
"""As many as that wait at the least, and end at a time where descriptors are short."""

_SHARES: Final = 4
"""One of so many shares of the connections has an owner to itself where descriptors are short."""

_LOOK: Final = 0.05
"""Seconds between two looks for a connection that is idle, where all are busy."""


@define(eq=False)
class HttpCounters:
    """What a server has done so far. The numbers only grow, but for `connections`."""

    connections: int = 0
    accepted: int = 0
    requests: int = 0
    refused: int = 0
    """Requests that never reached the app, or ended in it because of what the client sent."""
    failed: int = 0
    """Requests on which the app raised an exception or broke a rule."""
    bytes_in: int = 0
    """Bytes that were read, without those of TLS."""
    bytes_out: int = 0
    """Bytes that were written, without those of TLS."""


@define(eq=False)
class Service:
    """An app, how it is served, and to whom."""

    app: AsgiApp
    limits: HttpLimits
    max_body_bytes: int
    root_path: str
    always_served: Collection[str] = ()
    """Paths for which a client need not wait until there is room for it."""
    counters: HttpCounters = field(factory=HttpCounters)
    connections: dict[Watched, None] = field(factory=dict)
    watch: Watch = field(init=False)
    waiting: dict[Watched, None] = field(factory=dict)
    """Connections for which there is no room yet."""
    _counts: Counter[str] = field(factory=Counter)  # by owner, without those that wait
    _all_busy_until: float = -inf
    stopping: bool = False
    wanted: int = 0
    """How many requests wait until there is room for their connections."""
    _left: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)
    _second: int = -1
    _date: bytes = b""

    @watch.default
    def _watch_all(self) -> Watch:
        return Watch(self.connections)

    def enter(self, connection: Watched) -> None:
        """Count a connection in. If there are too many, another makes room, or it has to wait."""
        self.counters.accepted += 1
        self.counters.connections += 1
        if self._is_full and not self.make_room(connection.owner):
            if len(self.waiting) >= max(_FEW, self.limits.max_connections // _PART):
                self._drop(next(iter(self.waiting)))
            self.waiting[connection] = None
        else:
            self._count(connection.owner, 1)
        self.connections[connection] = None

    @property
    def _is_full(self) -> bool:
        return len(self.connections) - len(self.waiting) >= self.limits.max_connections

    def make_room(self, newcomer: str, least: int = 0) -> bool:
        """End a connection for that of a newcomer, if any should; returns whether it does.

        Args:
            newcomer: Whose connection it is.
            least: So many may an owner have whatever the newcomer has.
        """
        now = trio.current_time()
        own = max(self._counts[newcomer], least)
        if now < self._all_busy_until and max(self._counts.values(), default=0) <= own + 1:
            return False  # it is a flood, and each look at all of them takes its time
        there = [one for one in self.connections if one not in self.waiting]
        found = one_that_goes(newcomer, there, least)
        if found is None:
            self._all_busy_until = now + _LOOK
            return False
        self._drop(found)
        return True

    def relieve(self) -> None:
        """Have less connections than there may be, as there can be no more of them."""
        for _ in range(_FEW):
            self.make_room("", least=self._counts.total() // _SHARES)

    def _drop(self, connection: Watched) -> None:
        self.counters.refused += 1
        self._forget(connection)
        connection.drop()

    def _forget(self, connection: Watched) -> None:
        if connection in self.connections:
            del self.connections[connection]
            if connection in self.waiting:
                del self.waiting[connection]
            else:
                self._count(connection.owner, -1)

    def _count(self, owner: str, more: int) -> None:
        self._counts[owner] += more
        if not self._counts[owner]:
            del self._counts[owner]

    async def wait_for_room(self, connection: Watched) -> None:
        self.wanted += 1
        try:
            while self._is_full:
                await self._left.park()
        finally:
            self.wanted -= 1
        if connection in self.waiting:
            del self.waiting[connection]
            self._count(connection.owner, 1)

    async def wait_until_left(self) -> None:
        """Wait until any connection has ended."""
        await self._left.park()

    def leave(self, connection: Watched) -> None:
        self._forget(connection)
        self.counters.connections -= 1
        self._left.unpark_all()

    async def wait_until_fewer(self, number: int) -> None:
        """Wait until there are fewer connections. No checkpoint if there are."""
        while len(self.connections) >= number:
            await self._left.park()

    def date_line(self) -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._date = b"date: %b\r\n" % formatdate(second, usegmt=True).encode()
        return self._date
