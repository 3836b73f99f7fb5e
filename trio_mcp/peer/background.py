"""A task that runs beside a block, and ends with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def background_task(task: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Run a task while the block lasts, and cancel it at its end.

    What the block raises comes out as it is, not inside of an exception group.
    """
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(task)
        try:
            yield
        except BaseException as error:  # raised again below
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
