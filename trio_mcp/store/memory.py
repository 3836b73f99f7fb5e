"""A store in the memory of this process: the tables of a file, in a database without one."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import trio

from trio_mcp.store.changes import Add, Append, Change, News, Put, check_channels, size_of
from trio_mcp.store.errors import StoreFull
from trio_mcp.store.sqlite_tables import prepare
from trio_mcp.store.tables import Tables, TablesStore, Work
from trio_mcp.store.watching import Watch, Watches

MAX_MEMORY: Final = 256 * 1024 * 1024
"""Bytes that a store in memory may hold, by default."""

_SWEPT_IF_FULL: Final = 2000

_GROWTH: Final = 128 * 1024
"""Bytes by which a change makes the database larger at most, beside twice its value.

Its row and those of the indexes can split a page of each level.
"""

T = TypeVar("T")


class MemoryStore(TablesStore):
    """A store for one process, which ends with it.

    Args:
        max_bytes: What it may hold, counted in pages of 4 KiB. Beyond that, nothing can be added
            until something is removed or expires.
        clock: Tells the time, in seconds.
    """

    def __init__(
        self, *, max_bytes: int = MAX_MEMORY, clock: Callable[[], float] = trio.current_time
    ) -> None:
        self._max_bytes = max_bytes
        self._room = 0  # there is at least so much: to ask for the size takes longer than to write
        self._clock = clock
        self.connection: Final = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        weakref.finalize(self, self.connection.close)
        prepare(self.connection)
        self.tables = Tables(self.connection)
        self.watches = Watches()

    @property
    def size(self) -> int:
        """Bytes in use, including what has expired and is not swept yet."""
        names = ("page_count", "freelist_count", "page_size")
        pages, free, each = (
            self.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names
        )
        return int((pages - free) * each)

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
        if any(isinstance(change, Put | Add | Append) for change in changes):
            self._make_room(size_of(changes), len(changes))
        result = self._transact(work)
        self.watches.notify(change.key for change in changes if isinstance(change, News))
        return result

    def _transact(self, work: Work[T]) -> T:
        now = self._clock()
        self.connection.execute("BEGIN")
        with self.connection:
            self.tables.sweep(now, 1)
            return work(self.tables, now)

    def _make_room(self, size: int, changes: int) -> None:
        """Raise `StoreFull` if there is no room for some more bytes, in so many changes."""
        growth = 2 * size + _GROWTH * changes
        if growth > self._room:
            self._look_for_room(size)
            self._room = self._max_bytes - self.size
        self._room -= growth

    def _look_for_room(self, size: int) -> None:
        if self.size + size > self._max_bytes:
            self._transact(lambda tables, now: tables.remove_expired(now, _SWEPT_IF_FULL))
        if self.size + size > self._max_bytes:
            raise StoreFull(
                f"the store in memory has its {self._max_bytes} bytes; something has to expire "
                "first, or open it with a higher max_bytes"
            )
