"""Whether other tasks get their turn while something is done."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from attrs import define


@define
class Turns:
    """How many turns another task has had."""

    count: int = 0


@asynccontextmanager
async def turns_of_another_task() -> AsyncIterator[Turns]:
    """Have a task beside the block that wants a turn whenever there is one to be had."""
    turns = Turns()

    async def take_turns() -> None:
        while True:
            await trio.lowlevel.checkpoint()
            turns.count += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_turns)
        await trio.lowlevel.checkpoint()  # so that it has begun
        turns.count = 0
        yield turns
        nursery.cancel_scope.cancel()
