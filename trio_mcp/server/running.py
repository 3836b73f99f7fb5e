"""Running calls where there is no connection: in the task of whoever waits for the answer.

How many run at a time is bounded for each `CallRunner`; past the bound they wait for a place.

A call that goes on although it was cancelled keeps its task. Where somebody else can send its
answer (`Exchange.on_overdue`), `watch` has that done.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

import trio

from trio_mcp.peer.exchange import Cause, Exchange

logger = logging.getLogger("trio_mcp")


class CallRunner:
    """A number of places for calls.

    Args:
        places: How many calls may run at the same time.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._freed = trio.lowlevel.ParkingLot()
        self._running: set[Exchange] = set()
        self._patience = inf  # seconds; nobody watches
        self._wakes = -inf  # when the watch looks again
        self._watch = trio.lowlevel.ParkingLot()

    @property
    def free(self) -> int:
        """Places that are free."""
        return self._free

    def look_again(self) -> None:
        """Have calls that wait for a place see whether they were cancelled."""
        self._freed.unpark_all()

    async def run(self, exchange: Exchange, deadline: float = inf) -> bytes | None:
        """Run a call and return the line that answers it.

        Args:
            exchange: The call, and the way back.
            deadline: When the caller loses interest, by Trio's clock.

        Returns:
            The line; `None` if the call was cancelled, or the caller's deadline has passed.

        Cancelled, the call is cancelled.
        """
        if exchange.on_overdue is None:
            return await self._run(exchange, deadline)
        self._running.add(exchange)
        exchange.on_deadline = self._look
        try:
            return await self._run(exchange, deadline)
        finally:
            self._running.discard(exchange)

    async def _run(self, exchange: Exchange, deadline: float) -> bytes | None:
        call = exchange.call
        if not self._free and not call.long_lived:
            with trio.CancelScope(deadline=deadline):
                while not self._free and exchange.cause is None:
                    await self._freed.park()
            if exchange.cause is not None:
                self._pass_on()
                return call.unfinished(exchange)
            if not self._free:
                return None  # the deadline passed
        places = 0 if call.long_lived else 1
        self._free -= places
        try:
            exchange.started = trio.current_time()
            limit = exchange.started + call.timeout
            exchange.impatient = deadline < limit
            exchange.scope = scope = trio.CancelScope(deadline=min(limit, deadline))
            if exchange.cause is not None:
                scope.cancel()
            due = scope.deadline + self._patience
            if due < self._wakes:  # it stays so, or each short call would wake the watch
                self._wakes = due
                self._watch.unpark_all()
            return await call.run(exchange, scope)
        finally:
            self._free += places
            self._pass_on()

    async def wait_for_place(self) -> None:
        """Wait until a place is free, for `place`. No checkpoint if one is."""
        while not self._free:
            await self._freed.park()

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take a place, which must be free, for the length of the block."""
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1
            self._pass_on()

    def _pass_on(self) -> None:
        """Let the next one have a place, if there is one."""
        if self._free and self._freed:
            self._freed.unpark()

    # -- calls that do not end ------------------------------------------------------------

    def cancel_all(self) -> None:
        """Cancel all calls, because of a shutdown. They are answered."""
        for exchange in list(self._running):
            exchange.cancel(Cause.SHUTDOWN)
            exchange.move_deadline(trio.current_time())
        self.look_again()

    async def watch(self, patience: float) -> None:
        """Have calls answered that go on after their end, until cancelled.

        Args:
            patience: Seconds that a call has to end after its cancellation.
        """
        self._patience, self._wakes = patience, inf
        async with trio.open_nursery() as nursery:
            while True:
                with trio.move_on_at(self._wakes) as sleep:
                    await self._watch.park()
                if not sleep.cancelled_caught:
                    continue
                now = trio.current_time()
                for exchange in list(self._running):
                    if _deadline_of(exchange) + patience <= now:
                        self._answer(exchange, nursery)
                self._wakes = min(map(_deadline_of, self._running), default=inf) + patience

    def _look(self) -> None:
        """Have the watch look at all deadlines."""
        if self._wakes > -inf:  # somebody watches
            self._wakes = 0.0
            self._watch.unpark_all()

    def _answer(self, exchange: Exchange, nursery: trio.Nursery) -> None:
        logger.error("%s goes on after its time limit", exchange.call.label)
        line = exchange.call.unfinished(exchange)
        exchange.answered = True
        assert exchange.on_overdue is not None
        nursery.start_soon(exchange.on_overdue, line)


def _deadline_of(exchange: Exchange) -> float:
    """When somebody waits in vain for the answer, but for the patience."""
    if exchange.answered or exchange.scope is None or exchange.reason is Cause.PEER:
        return inf
    return exchange.scope.deadline
