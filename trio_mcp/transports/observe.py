"""Telling any number of listeners what happens, without ever waiting for one of them."""

from collections import deque
from collections.abc import AsyncIterator
from typing import Final, Generic, TypeVar

import trio

T = TypeVar("T")

_KEPT: Final = 1000


class Broadcast(Generic[T]):
    """A source of events that others can iterate over.

    Each listener sees what is announced from when it starts, and its iteration ends with the
    source. One that is slow misses the oldest events, not the newest: `kept` are kept for it.
    """

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._listeners: list[tuple[deque[T], trio.lowlevel.ParkingLot]] = []
        self._ended = False

    @property
    def wanted(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    def announce(self, event: T) -> None:
        """Give an event to every listener."""
        for events, lot in self._listeners:
            events.append(event)
            lot.unpark_all()

    def end(self) -> None:
        """End every listener's iteration, once it has taken what is there."""
        self._ended = True
        for _, lot in self._listeners:
            lot.unpark_all()

    async def listen(self, *first: T) -> AsyncIterator[T]:
        """Iterate over the events from now on, after those given."""
        listener = (deque(first, maxlen=self._kept), trio.lowlevel.ParkingLot())
        events, lot = listener
        self._listeners.append(listener)
        try:
            while True:
                if events:
                    await trio.lowlevel.checkpoint()
                    yield events.popleft()
                elif self._ended:
                    return
                else:
                    await lot.park()
        finally:
            self._listeners.remove(listener)
