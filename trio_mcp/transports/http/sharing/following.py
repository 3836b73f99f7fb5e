"""Following a log in the store, however often the store is away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from trio_mcp.store.errors import StoreError
from trio_mcp.store.protocol import Store

_PAUSE: Final = 1.0
"""Seconds before a store that was away is tried again."""

Look = Callable[[], Awaitable[object]]


class LogFollower:
    """Takes what comes into a log.

    Args:
        store: Where the log is.
        log: Its key.
        take: Called with each item.
        missed: Called when there were items that are not kept any more.
        idle: Called when there is news but no item: the store may have been away.
    """

    def __init__(
        self,
        store: Store,
        log: str,
        *,
        take: Callable[[bytes], Awaitable[object]],
        missed: Look,
        idle: Look = trio.lowlevel.checkpoint,
    ) -> None:
        self._store = store
        self._log = log
        self._take = take
        self._missed = missed
        self._idle = idle
        self._position = -1

    async def begin(self) -> None:
        """Leave out what is in the log now.

        Raises:
            StoreError: The store is away.
        """
        self._position = (await self._store.read(self._log, most=1)).last

    async def run(self, on_failure: Callable[[StoreError], object]) -> None:
        """Take what comes, until cancelled.

        Args:
            on_failure: Called when the store is away; it is tried again a moment later.
        """
        while True:
            try:
                async with self._store.watch(self._log) as news:
                    if self._position < 0:
                        await self.begin()
                    while True:
                        before = self._position
                        await self._read()
                        if before == self._position:
                            await self._idle()
                        await news.wait()
            except StoreError as error:
                on_failure(error)
                await trio.sleep(_PAUSE)

    async def _read(self) -> None:
        while True:
            page = await self._store.read(self._log, self._position)
            if page.missed(self._position):
                await self._missed()
                self._position = page.first - 1
                continue
            for position, item in page.items:
                await self._take(item)
                self._position = position
            if self._position >= page.last:
                return
