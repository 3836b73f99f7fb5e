"""Running calls in a bounded number of places: nobody waits while a place is free."""

from __future__ import annotations

import trio
from attrs import define, field
from trio.testing import wait_all_tasks_blocked

from trio_mcp.peer.exchange import Cause, Exchange
from trio_mcp.server.running import CallRunner


@define(eq=False)
class Waiting:
    """A call that ends when it is told to."""

    name: str
    go_on: trio.Event = field(factory=trio.Event)
    begun: bool = False
    timeout: float = 60.0
    long_lived: bool = False
    label: str = "Call"

    async def run(self, exchange: Exchange, scope: trio.CancelScope) -> bytes | None:
        with scope:
            self.begun = True
            await self.go_on.wait()
            return self.name.encode()
        return self.unfinished(exchange)

    def unfinished(self, exchange: Exchange) -> bytes | None:
        return None

    def exchange(self) -> Exchange:
        return Exchange(self.name, self, None, 0)


async def test_a_place_that_is_not_wanted_any_more_goes_to_the_next() -> None:
    """Even if its turn came in the very moment in which the one before was cancelled."""
    runner = CallRunner(1)
    calls = [Waiting("first"), Waiting("second"), Waiting("third")]
    exchanges = [each.exchange() for each in calls]
    answers: list[bytes | None] = []

    async def run(number: int) -> None:
        answers.append(await runner.run(exchanges[number]))
        if number == 0:  # its place is free, and nobody has taken it yet
            exchanges[1].cancel(Cause.PEER)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(run, number)
                await wait_all_tasks_blocked()
            assert [each.begun for each in calls] == [True, False, False]
            calls[0].go_on.set()
            await wait_all_tasks_blocked()
            assert [each.begun for each in calls] == [True, False, True]
            calls[2].go_on.set()
    assert answers == [b"first", None, b"third"]
    assert runner.free == 1
