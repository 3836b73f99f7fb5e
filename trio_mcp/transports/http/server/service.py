"""What the connections of one server share."""

import time
from email.utils import formatdate

import trio
from attrs import define, field

from trio_mcp.transports.http.server.asgi import AsgiApp
from trio_mcp.transports.http.server.limits import HttpLimits
from trio_mcp.transports.http.server.watch import Watched


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
    counters: HttpCounters = field(factory=HttpCounters)
    connections: set[Watched] = field(factory=set)
    stopping: bool = False
    _left: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)
    _second: int = -1
    _date: bytes = b""

    def enter(self, connection: Watched) -> None:
        self.connections.add(connection)
        self.counters.accepted += 1
        self.counters.connections += 1

    def leave(self, connection: Watched) -> None:
        self.connections.discard(connection)
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
