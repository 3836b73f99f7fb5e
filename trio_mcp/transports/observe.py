"""Telling any number of listeners what happens, without ever waiting for one of them."""

from collections import deque
from collections.abc import AsyncIterator
from typing import Final, Generic, TypeVar
from weakref import WeakSet

import trio

T = TypeVar("T")

_KEPT: Final = 1000


class Listener(AsyncIterator[T], Generic[T]):
    """One listener's view of a `Broadcast`. It is gone once nobody holds it."""

    def __init__(self, events: deque[T], ended: bool) -> None:
        self._events = events
        self._ended = ended
        self._lot = trio.lowlevel.ParkingLot()

    def hear(self, event: T) -> None:
        """Take an event in; if too many wait, the oldest one goes."""
        self._events.append(event)
        self._lot.unpark_all()

    def end(self) -> None:
        """Let the iteration end, once it has taken what is there."""
        self._ended = True
        self._lot.unpark_all()

    async def __anext__(self) -> T:
        """Wait for the next event. Cancelled, it loses none."""
        await trio.lowlevel.checkpoint()
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            await self._lot.park()
        return self._events.popleft()


class Broadcast(Generic[T]):
    """A source of events that others can iterate over.

    Each listener sees what is announced from when it was made, and its iteration ends with the
    source. One that is slow misses the oldest events, not the newest: `kept` are kept for it.
    """

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._listeners: WeakSet[Listener[T]] = WeakSet()
        self._ended = False

    @property
    def wanted(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    def announce(self, event: T) -> None:
        """Give an event to every listener."""
        for each in self._listeners:
            each.hear(event)

    def end(self) -> None:
        """End every listener's iteration, once it has taken what is there."""
        self._ended = True
        for each in self._listeners:
            each.end()

    def listen(self, *first: T) -> AsyncIterator[T]:
        """Iterate over the events from now on, after those given."""
        listener = Listener(deque(first, maxlen=self._kept), self._ended)
        self._listeners.add(listener)
        return listener
