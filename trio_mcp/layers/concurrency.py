"""How many calls of one tool run at the same time.

A slot is given back when the work has ended, not when its caller has. A worker thread cannot be
cancelled, so one that was abandoned keeps its slot until the function returns, as it keeps its
slot among all threads: both are held by one limiter, which Trio asks before it starts a thread,
and tells when the thread is done.

While the caller is asked something, which may take a person minutes, others have the slot.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import trio

from trio_mcp.background import of_this_run
from trio_mcp.layers.call import Call, Handler


class Slots:
    """The slots of one tool.

    Each run of Trio has its own: the end of what was abandoned in one that is over goes unnoticed.

    Args:
        limit: How many there are.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("slots")

    def of_calls(self) -> Slots:
        """Return as many slots for the calls of a plain function, whose threads have these."""
        return Slots(self._limit)

    def around(self, inner: Handler) -> Handler:
        """Have each call wait for a slot (a layer)."""

        async def run(call: Call) -> Any:
            slot = HeldSlots(self.limiter)
            await slot.acquire_on_behalf_of(slot)
            call.exchange.lends(slot)
            try:
                return await inner(call)
            finally:
                slot.release_on_behalf_of(slot)

        return run

    @property
    def limiter(self) -> trio.CapacityLimiter:
        """That of this run of Trio."""
        return of_this_run(self._limiter, partial(trio.CapacityLimiter, self._limit))


class HeldSlots:
    """What one call holds of some limiters, and lends to others while its caller is asked.

    It is a limiter itself, for `trio.to_thread.run_sync`.
    """

    __slots__ = ("_borrower", "_lent", "_limiters")

    def __init__(self, *limiters: trio.CapacityLimiter) -> None:
        self._limiters = limiters
        self._borrower: object = None
        self._lent = False

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Wait for a slot of each. Cancelled, it has none."""
        self._borrower = borrower
        for number, limiter in enumerate(self._limiters):
            try:
                await limiter.acquire_on_behalf_of(borrower)
            except BaseException:  # cancellation, too: the first must not be lost with the second
                self._release(self._limiters[:number])
                raise

    def release_on_behalf_of(self, borrower: object) -> None:
        """Give back what is not lent."""
        if not self._lent:
            self._release(self._limiters)
        self._borrower = None

    def _release(self, limiters: tuple[trio.CapacityLimiter, ...]) -> None:
        for limiter in reversed(limiters):
            limiter.release_on_behalf_of(self._borrower)

    def lend(self) -> None:
        """Let others have the slots."""
        if self._borrower is not None and not self._lent:
            self._lent = True
            self._release(self._limiters)

    async def take_back(self) -> None:
        """Wait for slots in place of those that are lent."""
        if self._borrower is not None and self._lent:
            await self.acquire_on_behalf_of(self._borrower)
            self._lent = False
