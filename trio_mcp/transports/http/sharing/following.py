"""Following a log in the store, however often the store is away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from trio_mcp.store.errors import StoreError
from trio_mcp.store.protocol import Store

_PAUSE: Final = 1.0

Look = Callable[[], Awaitable[object]]


async def end_of(store: Store, log: str) -> int:
    return (await store.read(log, limit=1)).last


async def follow(
    store: Store,
    log: str,
    on_failure: Callable[[StoreError], object],
    *,
    take: Callable[[bytes, int], Awaitable[object]],
    missed: Look,
    idle: Look = trio.lowlevel.checkpoint,
    position: int = -1,
) -> None:
    """Take what comes into a log, until cancelled.

    Args:
        store: Where the log is.
        log: Its key.
        on_failure: Called when the store is away; it is tried again a moment later.
        take: Called with each item, and its position.
        missed: Called when there were items that are not kept any more.
        idle: Called when there is news but no item: the store may have been away.
        position: The item to begin behind; by default, the last one that there is.
    """
    while True:
        try:
            async with store.watch(log) as news:
                if position < 0:
                    position = await end_of(store, log)
                while True:
                    page = await store.read(log, position)
                    if page.missed(position):
                        await missed()
                        position = page.first - 1
                        continue
                    for number, item in page.items:
                        await take(item, number)
                        position = number
                    if position >= page.last:
                        if not page.items:
                            await idle()
                        await news.wait()
        except StoreError as error:
            on_failure(error)
            await trio.sleep(_PAUSE)
