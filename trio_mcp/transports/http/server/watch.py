"""One task that looks after all the connections of a server, whenever something may be due.

Two things must happen to a connection while nothing happens on it: a deadline passes, or the
client leaves while its request runs. A cancel scope per deadline and a reading task per request
would do, and would be a quarter of all the work that a short request is. So a connection notes
its deadlines as plain numbers and has one cancel scope for its whole life; and for a request that
has ended before the next look, there is none. This task sleeps until the earliest deadline,
and looks about every `LISTEN_AFTER` seconds while requests run.
"""

from collections.abc import Iterable
from math import inf
from typing import Final, Protocol

import trio

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
