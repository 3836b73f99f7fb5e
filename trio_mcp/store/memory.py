"""A store in the memory of this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import trio

from trio_mcp.store.changes import Add, Append, Change, News, Put, check_channels, size_of
from trio_mcp.store.errors import StoreFull
from trio_mcp.store.memory_tables import MemoryTables
from trio_mcp.store.tables import TablesStore, Work
from trio_mcp.store.watching import Watch, Watches

MAX_MEMORY: Final = 256 * 1024 * 1024
"""Bytes that a store in memory may hold, by default."""

_SWEPT_IF_FULL: Final = 2000
_GROWING: Final = (Put, Add, Append)

T = TypeVar("T")


class MemoryStore(TablesStore):
    """A store for one process, which ends with it.

    Args:
        max_bytes: What it may hold, by an estimate of what keys, values and what leads to them take
            up. Beyond that, nothing can be added until something is removed or expires.
        clock: Tells the time, in seconds.
    """

    def __init__(
        self, *, max_bytes: int = MAX_MEMORY, clock: Callable[[], float] = trio.current_time
    ) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self.tables = MemoryTables()
        self.watches = Watches()

    @asynccontextmanager
    async def watch(self, *channels: str) -> AsyncIterator[Watch]:
        with self.watches.open(check_channels(channels)) as watch:
            yield watch

    async def _read(self, work: Work[T]) -> T:
        # No other task runs meanwhile, because this is quick; but cancellation is noticed.
        await trio.lowlevel.checkpoint_if_cancelled()
        return work(self.tables, self._clock())

    async def _write(self, work: Work[T], changes: Sequence[Change] = ()) -> T:
        await trio.lowlevel.checkpoint_if_cancelled()
        result = self._transact(work, changes)
        self.watches.notify([change.key for change in changes if isinstance(change, News)])
        return result

    @trio.lowlevel.enable_ki_protection  # Ctrl+C must not leave half of the changes
    def _transact(self, work: Work[T], changes: Sequence[Change]) -> T:
        now = self._clock()
        self.tables.sweep(now)
        size = size_of(changes)
        if self.tables.size + size > self._max_bytes:
            self.tables.sweep(now, _SWEPT_IF_FULL)
            self._check_room(size, changes)
        return work(self.tables, now)

    def _check_room(self, size: int, changes: Sequence[Change]) -> None:
        """Raise `StoreFull` if there is no room for changes whose values have so many bytes."""
        grows = any(isinstance(change, _GROWING) for change in changes)
        if grows and self.tables.size + size > self._max_bytes:
            raise StoreFull(
                f"the store in memory has its {self._max_bytes} bytes; something has to expire "
                "first, or open it with a higher max_bytes"
            )
