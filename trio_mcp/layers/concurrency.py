"""How many calls of one tool run at the same time.

A slot is given back when the work has ended, not when its caller has. A worker thread cannot be
cancelled, so one that was abandoned keeps its slot until the function returns, as it keeps its
slot among all threads: both are held by one limiter, which Trio asks before it starts a thread,
and tells when the thread is done.
"""

from __future__ import annotations

from typing import Any

import trio
from attrs import frozen

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

    def around(self, inner: Handler) -> Handler:
        """Have each call of an async function wait for a slot (a layer)."""

        async def run(call: Call) -> Any:
            async with self._limiter_of_run():
                return await inner(call)

        return run

    def with_threads(self, threads: trio.CapacityLimiter | None) -> ThreadSlots:
        """A limiter for a worker thread that needs a slot here, too.

        Args:
            threads: Bounds all threads; `None` for Trio's own limiter.
        """
        others = threads or trio.to_thread.current_default_thread_limiter()
        return ThreadSlots(self._limiter_of_run(), others)

    def _limiter_of_run(self) -> trio.CapacityLimiter:
        try:  # no await between look and set, so two calls cannot make two limiters
            return self._limiter.get()
        except LookupError:
            limiter = trio.CapacityLimiter(self._limit)
            self._limiter.set(limiter)
            return limiter


@frozen(eq=False, repr=False)
class ThreadSlots:
    """Two limiters as one, for `trio.to_thread.run_sync`."""

    _first: trio.CapacityLimiter
    _second: trio.CapacityLimiter

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        await self._first.acquire_on_behalf_of(borrower)
        try:
            await self._second.acquire_on_behalf_of(borrower)
        except BaseException:  # cancellation, too: the first slot must not be lost with the second
            self._first.release_on_behalf_of(borrower)
            raise

    def release_on_behalf_of(self, borrower: object) -> None:
        self._second.release_on_behalf_of(borrower)
        self._first.release_on_behalf_of(borrower)
