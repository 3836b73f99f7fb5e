"""Work that is done once, however many wait for what comes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

import trio
from attrs import define, field

_MOST: Final = 64
"""Works that are under way at a time. Whoever guesses thousands of tokens has most of them wait."""
_AT_ONCE: Final = 16
"""Of those who waited, how many go on in one round of the loop."""

T = TypeVar("T")


@define(eq=False)
class _Flight(Generic[T]):
    done: trio.Event = field(factory=trio.Event)
    results: list[T] = field(factory=list)


class SingleFlight(Generic[T]):
    """Does work in a nursery of its own, so that nobody who waits takes it along when he leaves.

    Args:
        nursery: Where it is done.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._flights: dict[Hashable, _Flight[T]] = {}
        self._working = trio.Semaphore(_MOST)
        self._turns = trio.Semaphore(_AT_ONCE)

    async def run(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """Wait for the work of that key, which is begun unless it is under way.

        Args:
            key: What it is about.
            work: Does it. It raises nothing: what goes wrong is a result.

        Cancelled, the work goes on for the others.
        """
        flight = self.begin(key, work)
        await flight.done.wait()
        async with self._turns:  # a thousand who go on at once would hold the loop together
            pass
        return flight.results[0]

    def begin(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> _Flight[T]:
        """Begin the work of that key, unless it is under way, and wait for nothing."""
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight()
            self._nursery.start_soon(self._fly, key, flight, work)
        return flight

    async def _fly(
        self, key: Hashable, flight: _Flight[T], work: Callable[[], Awaitable[T]]
    ) -> None:
        try:
            async with self._working:
                flight.results.append(await work())
        finally:
            del self._flights[key]
        flight.done.set()
