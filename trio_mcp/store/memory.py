"""A store in the memory of this process."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Final, TypeVar

import trio
from attrs import define, field

from trio_mcp.store.changes import (
    Add,
    Append,
    Change,
    News,
    Put,
    check_channels,
    folder_of,
    size_of,
)
from trio_mcp.store.errors import StoreFull
from trio_mcp.store.tables import Row, Tables, TablesStore, Work
from trio_mcp.store.watching import Watch, Watches

_OVERHEAD: Final = 512
"""Bytes that an entry or an item counts beside its key and value: more than it takes."""

MAX_MEMORY: Final = 256 * 1024 * 1024
"""Bytes that a store in memory may hold, by default."""


_SWEPT_IF_FULL: Final = 2000
_SWEPT: Final = 256
"""Expired entries and logs that an operation removes at most: more than a commit can add."""

T = TypeVar("T")
_Item = TypeVar("_Item", str, tuple[float, str], tuple[float, str, bool])


@define
class _Folder:
    """The keys of a folder, in two orders. Inserting moves memory, which takes microseconds."""

    keys: list[str] = field(factory=list)
    due: list[tuple[float, str]] = field(factory=list)


_EMPTY: Final = _Folder()


@define
class _Log:
    expires: float
    last: int = 0
    size: int = 0
    items: deque[bytes] = field(factory=deque)


class MemoryTables(Tables):
    """Entries and logs in dictionaries, with sorted lists beside them."""

    def __init__(self) -> None:
        self.version = 0
        self.size = 0
        """Bytes in use, including what has expired and is not swept yet."""
        self.entries: dict[str, Row] = {}
        self.folders: dict[str, _Folder] = {}
        self.logs: dict[str, _Log] = {}
        self.expiry: list[tuple[float, str, bool]] = []  # the last one says whether it is a log

    # -- entries ------------------------------------------------------------------------------

    def load(self, key: str, now: float) -> Row | None:
        row = self.entries.get(key)
        return None if row is None or row.expires <= now else row

    def save(self, key: str, row: Row | None) -> None:
        old = self.entries.pop(key, None)
        if old is not None:
            self.size -= len(key) + len(old.value) + _OVERHEAD
            self._unschedule(old.expires, key, is_log=False)
        if row is not None:
            self.entries[key] = row
            self.size += len(key) + len(row.value) + _OVERHEAD
            self._schedule(row.expires, key, is_log=False)
        if (name := folder_of(key)) is not None:
            self._list(name, key, old, row)

    def _list(self, name: str, key: str, old: Row | None, new: Row | None) -> None:
        folder = self.folders.setdefault(name, _Folder())
        if old is not None and old.due is not None:
            _remove(folder.due, (old.due, key))
        if new is not None and new.due is not None:
            insort(folder.due, (new.due, key))
        if old is None and new is not None:
            insort(folder.keys, key)
        elif old is not None and new is None:
            _remove(folder.keys, key)
        if not folder.keys:
            del self.folders[name]

    def listed(self, folder: str, cursor: str, now: float) -> Iterable[tuple[str, Row]]:
        keys = self.folders.get(folder, _EMPTY).keys
        for key in islice(keys, bisect_right(keys, cursor), None):
            if (row := self.load(key, now)) is not None:
                yield key, row

    def due(self, folder: str, now: float, limit: int) -> list[tuple[float, str]]:
        due = self.folders.get(folder, _EMPTY).due
        return list(islice((pair for pair in due if self.load(pair[1], now)), limit))

    # -- logs ---------------------------------------------------------------------------------

    def append(self, change: Append, now: float) -> int:
        log = self._log(change.key, now)
        if log is None:
            self._drop(change.key)
            log = self.logs[change.key] = _Log(math.inf)
        self._unschedule(log.expires, change.key, is_log=True)
        log.expires = now + change.ttl
        self._schedule(log.expires, change.key, is_log=True)
        self._resize(log, len(change.item) + _OVERHEAD)
        log.items.append(change.item)
        log.last += 1
        while len(log.items) > change.limit or (
            len(log.items) > 1 and log.size - len(log.items) * _OVERHEAD > change.max_bytes
        ):
            self._resize(log, -len(log.items.popleft()) - _OVERHEAD)
        return log.last

    def _resize(self, log: _Log, size: int) -> None:
        log.size += size
        self.size += size

    def _log(self, name: str, now: float) -> _Log | None:
        log = self.logs.get(name)
        return None if log is None or log.expires <= now else log

    def drop(self, log: str, now: float) -> int:
        last = self.ends(log, now)[1]
        self._drop(log)
        return last

    def _drop(self, name: str) -> None:
        log = self.logs.pop(name, None)
        if log is not None:
            self.size -= log.size
            self._unschedule(log.expires, name, is_log=True)

    def ends(self, log: str, now: float) -> tuple[int, int]:
        found = self._log(log, now)
        return (1, 0) if found is None else (found.last - len(found.items) + 1, found.last)

    def items(self, log: str, after: int) -> Iterable[tuple[int, bytes]]:
        found = self.logs[log]
        skipped = found.last - len(found.items)
        begin = max(0, after - skipped)
        return enumerate(islice(found.items, begin, None), skipped + begin + 1)

    # -- expiry -------------------------------------------------------------------------------

    def _schedule(self, time: float, name: str, *, is_log: bool) -> None:
        if time < math.inf:
            insort(self.expiry, (time, name, is_log))

    def _unschedule(self, time: float, name: str, *, is_log: bool) -> None:
        if time < math.inf:
            _remove(self.expiry, (time, name, is_log))

    def sweep(self, now: float, limit: int) -> None:
        if not self.expiry or self.expiry[0][0] > now:
            return
        expired = [row for row in self.expiry[:limit] if row[0] <= now]
        del self.expiry[: len(expired)]  # at once: one by one would move all that follow
        for _, name, is_log in expired:
            if is_log:
                self._drop(name)
            else:
                self.save(name, None)


def _remove(items: list[_Item], item: _Item) -> None:
    place = bisect_left(items, item)
    if place < len(items) and items[place] == item:
        del items[place]


class MemoryStore(TablesStore):
    """A store for one process, which ends with it.

    Args:
        max_bytes: What it may hold; each entry and each item counts 512 bytes more than it has.
            Beyond that, nothing can be added until something is removed or expires.
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
        now = self._clock()
        self.tables.sweep(now, _SWEPT)
        return work(self.tables, now)

    async def _write(self, work: Work[T], changes: Sequence[Change] = ()) -> T:
        growing = sum(isinstance(change, Put | Add | Append) for change in changes)
        if growing:
            self._make_room(size_of(changes) + growing * _OVERHEAD)
        result = await self._read(work)
        self.watches.notify(change.key for change in changes if isinstance(change, News))
        return result

    def _make_room(self, size: int) -> None:
        """Raise `StoreFull` if there is no room for some more bytes."""
        if self.tables.size + size > self._max_bytes:
            self.tables.sweep(self._clock(), _SWEPT_IF_FULL)
        if self.tables.size + size > self._max_bytes:
            raise StoreFull(
                f"the store in memory has its {self._max_bytes} bytes; something has to expire "
                "first, or open it with a higher max_bytes"
            )
