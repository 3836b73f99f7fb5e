"""Telling any number of listeners what happens, without ever waiting for one of them."""

from collections import deque
from collections.abc import AsyncIterator, Callable
from math import inf
from threading import Lock
from typing import Final, Generic, TypeVar
from weakref import ref

import trio

T = TypeVar("T")

_KEPT: Final = 1000


def _size(event: object) -> int:
    return len(event) if isinstance(event, bytes) else 0


class Listener(AsyncIterator[T], Generic[T]):
    """One listener's view of a `Broadcast`. It is gone once nothing holds it.

    Another thread may take from it (`take_nowait`), if it says how it is to be woken (`on_change`).
    """

    def __init__(self, events: deque[T], ended: bool, kept: int, kept_bytes: float) -> None:
        self._events = events
        self._ended = ended
        self._kept = kept
        self._kept_bytes = kept_bytes
        self._bytes = sum(map(_size, events))
        self._lock = Lock()
        self._lot = trio.lowlevel.ParkingLot()
        self.on_change: Callable[[], object] = self._lot.unpark_all

    def put(self, event: T) -> None:
        """Take an event in; if too many wait, or too much, the oldest ones go."""
        with self._lock:
            self._events.append(event)
            self._bytes += _size(event)
            while (count := len(self._events)) > self._kept or (
                count > 1 and self._bytes > self._kept_bytes
            ):
                self._take()
        self.on_change()

    def _take(self) -> T:
        event = self._events.popleft()
        self._bytes -= _size(event)
        return event

    def end(self) -> None:
        self._ended = True
        self.on_change()

    def take_nowait(self) -> T:
        """Take the next event.

        Raises:
            trio.WouldBlock: It has not come yet.
            StopAsyncIteration: There will be no more.
        """
        ended = self._ended  # looked at first: what comes last comes before the end
        with self._lock:
            if self._events:
                return self._take()
        if ended:
            raise StopAsyncIteration
        raise trio.WouldBlock

    async def __anext__(self) -> T:
        """Wait for the next event. Cancelled, it loses none."""
        await trio.lowlevel.checkpoint()
        while True:
            try:
                return self.take_nowait()
            except trio.WouldBlock:
                # No await between the look and the parking, so none is missed.
                await self._lot.park()


class Broadcast(Generic[T]):
    """A source of events that others can iterate over.

    Each listener sees what is announced from when it was made, and its iteration ends with the
    source. One that is slow misses the oldest events, not the newest.

    Args:
        kept: How many are kept for a listener.
        kept_bytes: How long these may be together, where they are bytes; one may be longer.
    """

    def __init__(self, kept: int = _KEPT, kept_bytes: float = inf) -> None:
        self._kept = kept
        self._kept_bytes = kept_bytes
        # Weak: an iteration that is given up says nothing, so a listener ends by being forgotten.
        # Copied before each round, because it may end in another thread.
        self._listeners: set[ref[Listener[T]]] = set()
        self._ended = False

    def is_heard(self) -> bool:
        """Whether there is a listener."""
        return bool(self._listeners)

    def announce(self, event: T) -> None:
        if self._listeners:
            for listener in self._present():
                listener.put(event)

    def end(self) -> None:
        """End every listener's iteration, once it has taken all events."""
        self._ended = True
        for listener in self._present():
            listener.end()

    def _present(self) -> list[Listener[T]]:
        return [found for listener in tuple(self._listeners) if (found := listener()) is not None]

    def listen(self, *first: T) -> AsyncIterator[T]:
        """Iterate over the events from now on, after those given."""
        listener = Listener(deque(first), self._ended, self._kept, self._kept_bytes)
        self._listeners.add(ref(listener, self._listeners.discard))
        return listener
