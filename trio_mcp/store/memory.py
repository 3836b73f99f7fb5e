"""A store in the memory of this process, for the time that it lives."""

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
"""What a store in memory may hold unless told otherwise, in bytes."""

_GROWING: Final = (Put, Add, Append)
_SWEPT_IF_FULL: Final = 2000
_SWEPT: Final = 256
"""Expired entries and logs that a commit removes at most: more than it can add."""

T = TypeVar("T")
_Item = TypeVar("_Item", str, tuple[float, str], tuple[float, str, bool])


@define
class _Folder:
    """What is in a folder, in two orders. Inserting moves memory, but that is a matter of µs."""

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
        """Bytes that are counted now, of what has expired and is not swept as well."""
        self._entries: dict[str, Row] = {}
        self._folders: dict[str, _Folder] = {}
        self._logs: dict[str, _Log] = {}
        self._expiry: list[tuple[float, str, bool]] = []  # the last one says whether it is a log

    # -- entries ------------------------------------------------------------------------------

    def load(self, key: str, now: float) -> Row | None:
        """Return an entry."""
        row = self._entries.get(key)
        return None if row is None or row.expires <= now else row

    def save(self, key: str, row: Row | None) -> None:
        """Write an entry, or remove it."""
        old = self._entries.pop(key, None)
        if old is not None:
            self.size -= len(key) + len(old.value) + _OVERHEAD
            self._live_on(old.expires, key, is_log=False)
        if row is not None:
            self._entries[key] = row
            self.size += len(key) + len(row.value) + _OVERHEAD
            self._expire(row.expires, key, is_log=False)
        if (name := folder_of(key)) is not None:
            self._list(name, key, old, row)

    def _list(self, name: str, key: str, old: Row | None, new: Row | None) -> None:
        folder = self._folders.setdefault(name, _Folder())
        if old is not None and old.due is not None:
            _remove(folder.due, (old.due, key))
        if new is not None and new.due is not None:
            insort(folder.due, (new.due, key))
        if old is None and new is not None:
            insort(folder.keys, key)
        elif old is not None and new is None:
            _remove(folder.keys, key)
        if not folder.keys:
            del self._folders[name]

    def listed(self, folder: str, cursor: str, now: float) -> Iterable[tuple[str, Row]]:
        """Go through a folder, after a key, in the order of keys."""
        keys = self._folders.get(folder, _EMPTY).keys
        for key in islice(keys, bisect_right(keys, cursor), None):
            if (row := self.load(key, now)) is not None:
                yield key, row

    def due(self, folder: str, now: float, most: int) -> list[tuple[float, str]]:
        """Return the times and keys of some entries that are, or will be, due, in their order."""
        due = self._folders.get(folder, _EMPTY).due
        return list(islice((each for each in due if self.load(each[1], now)), most))

    # -- logs ---------------------------------------------------------------------------------

    def append(self, change: Append, now: float) -> int:
        """Append to a log, and forget items that it may not keep. Return the item's position."""
        log = self._log(change.key, now)
        if log is None:
            self._drop(change.key)
            log = self._logs[change.key] = _Log(math.inf)
        self._live_on(log.expires, change.key, is_log=True)
        log.expires = now + change.ttl
        self._expire(log.expires, change.key, is_log=True)
        self._resize(log, len(change.item) + _OVERHEAD)
        log.items.append(change.item)
        log.last += 1
        while len(log.items) > change.most or (
            len(log.items) > 1 and log.size - len(log.items) * _OVERHEAD > change.most_bytes
        ):
            self._resize(log, -len(log.items.popleft()) - _OVERHEAD)
        return log.last

    def _resize(self, log: _Log, size: int) -> None:
        log.size += size
        self.size += size

    def _log(self, name: str, now: float) -> _Log | None:
        log = self._logs.get(name)
        return None if log is None or log.expires <= now else log

    def drop(self, log: str, now: float) -> int:
        """Remove a log. Return the position of its last item."""
        last = self.ends(log, now)[1]
        self._drop(log)
        return last

    def _drop(self, name: str) -> None:
        log = self._logs.pop(name, None)
        if log is not None:
            self.size -= log.size
            self._live_on(log.expires, name, is_log=True)

    def ends(self, log: str, now: float) -> tuple[int, int]:
        """Return the positions of a log's first and last items."""
        found = self._log(log, now)
        return (1, 0) if found is None else (found.last - len(found.items) + 1, found.last)

    def items(self, log: str, after: int) -> Iterable[tuple[int, bytes]]:
        """Go through a log that is there, after a position."""
        found = self._logs[log]
        skipped = found.last - len(found.items)
        begin = max(0, after - skipped)
        return enumerate(islice(found.items, begin, None), skipped + begin + 1)

    # -- expiry -------------------------------------------------------------------------------

    def _expire(self, time: float, name: str, *, is_log: bool) -> None:
        if time < math.inf:
            insort(self._expiry, (time, name, is_log))

    def _live_on(self, time: float, name: str, *, is_log: bool) -> None:
        if time < math.inf:
            _remove(self._expiry, (time, name, is_log))

    def sweep(self, now: float, most: int) -> None:
        """Remove some of what has expired."""
        if not self._expiry or self._expiry[0][0] > now:
            return
        expired = [each for each in self._expiry[:most] if each[0] <= now]
        del self._expiry[: len(expired)]  # at once: each by itself would move all that follow
        for _, name, is_log in expired:
            if is_log:
                self._drop(name)
            else:
                self.save(name, None)


def _remove(items: list[_Item], item: _Item) -> None:
    """Remove an item of a sorted list, if it is there."""
    place = bisect_left(items, item)
    if place < len(items) and items[place] == item:
        del items[place]


class MemoryStore(TablesStore):
    """A store for one process; what it has is gone with it.

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
        self._tables = MemoryTables()
        self._watches = Watches()

    @asynccontextmanager
    async def watch(self, *channels: str) -> AsyncIterator[Watch]:
        """Hear of news."""
        with self._watches.open(check_channels(channels)) as watch:
            yield watch

    async def _read(self, work: Work[T]) -> T:
        # No other task has its turn here, because this is quick; but cancellation strikes.
        await trio.lowlevel.checkpoint_if_cancelled()
        now = self._clock()
        self._tables.sweep(now, _SWEPT)
        return work(self._tables, now)

    async def _write(self, work: Work[T], changes: Sequence[Change] = ()) -> T:
        growing = sum(isinstance(each, _GROWING) for each in changes)
        if growing:
            self._make_room(size_of(changes) + growing * _OVERHEAD)
        result = await self._read(work)
        self._watches.tell(each.key for each in changes if isinstance(each, News))
        return result

    def _make_room(self, size: int) -> None:
        """Make sure that there is room for some more bytes.

        Raises:
            StoreFull: There is none.
        """
        if self._tables.size + size > self._max_bytes:
            self._tables.sweep(self._clock(), _SWEPT_IF_FULL)
        if self._tables.size + size > self._max_bytes:
            raise StoreFull(
                f"the store in memory has its {self._max_bytes} bytes; something has to expire "
                "first, or open it with a higher max_bytes"
            )
