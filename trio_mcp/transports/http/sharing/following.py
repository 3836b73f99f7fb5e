"""Following a log in the store, however often the store is away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio
from attrs import define

from trio_mcp.loggers import logger_of
from trio_mcp.store.errors import Damaged, StoreError
from trio_mcp.store.protocol import Store

logger = logger_of("trio_mcp.http")

_PAUSE: Final = 1.0

Look = Callable[[], Awaitable[object]]


@define
class Place:
    """How far a log has been read."""

    began: int = 0
    """Which of the logs that had its name."""
    position: int = 0

    @property
    def time(self) -> int:
        """Grows with each item, also if the log was lost or has expired, and begins again."""
        return self.began + self.position


async def end_of(store: Store, log: str) -> Place:
    page = await store.read(log, limit=1)
    return Place(page.began, page.last)


async def follow(
    store: Store,
    log: str,
    on_failure: Callable[[StoreError], object],
    *,
    take: Callable[[bytes, int], Awaitable[object]],
    missed: Look,
    idle: Look = trio.lowlevel.checkpoint,
    place: Place | None = None,
) -> None:
    """Take what comes into a log, until cancelled.

    Args:
        store: Where the log is.
        log: Its key.
        on_failure: Called when the store is away; it is tried again a moment later.
        take: Called with each item, and its time (`Place`).
        missed: Called when there were items that are not kept any more, as far as can be known, or
            one that cannot be read.
        idle: Called when there is news but no item: the store may have been away.
        place: The item to begin behind; by default, the last one that there is.
    """
    while True:
        try:
            async with store.watch(log) as news:
                if place is None:
                    place = await end_of(store, log)
                while True:
                    page = await store.read(log, place.position)
                    is_another = place.began not in (0, page.began)
                    if is_another or page.missed(place.position):
                        await missed()
                        place = Place(page.began, page.first - 1)
                        continue
                    place.began = page.began
                    for number, item in page.items:
                        try:
                            await take(item, page.began + number)
                        except Damaged as error:  # so it stays, and all after it are to be read
                            logger.error("%s", error)
                            await missed()
                        place.position = number
                    if place.position >= page.last:
                        if not page.items:
                            await idle()
                        await news.wait()
        except StoreError as error:
            on_failure(error)
            await trio.sleep(_PAUSE)
