"""Work that runs once, however many tasks wait for its result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

import trio
from attrs import define, field

MAX_FLIGHTS: Final = 64
"""Works that run at a time. Of thousands of guessed tokens, most wait."""
_AT_ONCE: Final = 16
"""Tasks that go on in one round of the loop, of those that have waited."""

T = TypeVar("T")


@define(eq=False)
class _Flight(Generic[T]):
    done: trio.Event = field(factory=trio.Event)
    results: list[T] = field(factory=list)


@define(eq=False)
class SingleFlight(Generic[T]):
    """Runs work in a nursery, so that it goes on if a task that waits for it is cancelled."""

    _nursery: trio.Nursery
    _flights: dict[Hashable, _Flight[T]] = field(factory=dict)
    _working: trio.Semaphore = field(factory=lambda: trio.Semaphore(MAX_FLIGHTS))
    _turns: trio.Semaphore = field(factory=lambda: trio.Semaphore(_AT_ONCE))

    async def run(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """Wait for the result of a key's work, which is started unless it is running.

        The work raises nothing: failures are results. If this is cancelled, it goes on for the
        others.
        """
        flight = self.begin(key, work)
        await flight.done.wait()
        async with self._turns:  # a thousand tasks that go on at once would hold up the loop
            pass
        return flight.results[0]

    def begin(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> _Flight[T]:
        """Start the work of a key, unless it is running, without waiting for it."""
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
