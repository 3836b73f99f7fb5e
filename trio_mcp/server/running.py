"""Running calls where there is no connection: in the task of whoever waits for the answer.

How many run at a time is bounded for each `CallRunner`; past the bound they wait for a place.
"""

from __future__ import annotations

from math import inf

import trio

from trio_mcp.peer.exchange import Exchange


class CallRunner:
    """A number of places for calls.

    Args:
        places: How many calls may run at the same time.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._freed = trio.lowlevel.ParkingLot()

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
            exchange.scope = scope = trio.CancelScope(deadline=min(limit, deadline))
            if exchange.cause is not None:
                scope.cancel()
            line = await call.run(exchange, scope)
            return None if scope.cancelled_caught and _gave_up(exchange, deadline) else line
        finally:
            self._free += places
            self._pass_on()

    def _pass_on(self) -> None:
        """Let the next one have a place, if there is one."""
        if self._free:
            self._freed.unpark()


def _gave_up(exchange: Exchange, deadline: float) -> bool:
    """Whether it was the caller's deadline that passed."""
    return exchange.cause is None and deadline <= trio.current_time()
