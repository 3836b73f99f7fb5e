"""Entries and logs in dictionaries.

What expires, or is due, is in a heap by that time as well. If the time changes, the old one stays
in the heap and is passed over, until there are too many of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import islice
from math import inf
from typing import Final

from attrs import define, field

from trio_mcp.store.changes import Append, folder_of
from trio_mcp.store.tables import Row, Tables

_ENTRY, _LOG, _ITEM = 640, 1280, 48
"""Bytes that an entry, a log and an item of it take up besides key and value, as measured."""

_SWEPT: Final = 256
"""Expired entries that a transaction removes, which is more than it can add."""

_STALE: Final = 64
"""Old times that a heap has at most, besides two for each of its names."""


@define(eq=False)
class _Times:
    """A heap of names by the time that each has."""

    _time_of: Callable[[str], float | None]
    _heap: list[tuple[float, str]] = field(factory=list, init=False)

    def add(self, time: float, name: str, names: int) -> None:
        """Note the time that a name has from now on. There are so many names at most."""
        heappush(self._heap, (time, name))
        if len(self._heap) > 2 * names + _STALE:
            self._heap = sorted(set(filter(self._holds, self._heap)))  # which is a heap, too

    @property
    def earliest(self) -> float:
        """No name has an earlier time."""
        return self._heap[0][0] if self._heap else inf

    def first(self, limit: int, until: float = inf) -> list[tuple[float, str]]:
        """Return the earliest times with their names, in order: so many, and none after `until`."""
        heap = self._heap
        found: list[tuple[float, str]] = []
        while heap and heap[0][0] <= until and len(found) < limit:
            pair = heappop(heap)
            if self._holds(pair) and pair not in found[-1:]:
                found.append(pair)
        for pair in found:
            heappush(heap, pair)
        return found

    def _holds(self, pair: tuple[float, str]) -> bool:
        time, name = pair
        return self._time_of(name) == time


@define(eq=False)
class _Folder:
    """What is in a folder: when it is due, and the keys."""

    due: _Times
    keys: dict[str, None] = field(factory=dict, init=False)
    _ordered: list[str] | None = field(default=None, init=False)
    """The same in order, once that was asked for."""

    def add(self, key: str) -> None:
        self.keys[key] = None
        if self._ordered is not None:
            insort(self._ordered, key)

    def remove(self, key: str) -> None:
        del self.keys[key]
        if self._ordered is not None:
            del self._ordered[bisect_left(self._ordered, key)]

    def after(self, cursor: str) -> Iterable[str]:
        """Return the keys that come after a key, in order."""
        if self._ordered is None:
            self._ordered = sorted(self.keys)
        return islice(self._ordered, bisect_right(self._ordered, cursor), None)


@define(eq=False)
class _Log:
    id: int
    first: int = 1
    last: int = 0
    size: int = 0
    """Bytes of its items."""
    expires: float = inf
    items: deque[bytes] = field(factory=deque)

    def append(self, change: Append) -> None:
        """Append an item, and remove those beyond the bounds."""
        self.items.append(change.item)
        self.last += 1
        self.size += len(change.item)
        while self.last - self.first >= change.limit or (
            self.size > change.max_bytes and self.first < self.last
        ):
            self.size -= len(self.items.popleft())
            self.first += 1

    @property
    def weight(self) -> int:
        return _LOG + self.size + _ITEM * len(self.items)


class MemoryTables(Tables):
    """Entries and logs in the memory of this process."""

    def __init__(self) -> None:
        self.entries: Final[dict[str, Row]] = {}
        self.logs: Final[dict[str, _Log]] = {}
        self.size = 0  # bytes in use, including what has expired and is not swept yet
        self._folders: Final[dict[str, _Folder]] = {}
        self._expiring: Final = _Times(self._expires)
        self._expiring_logs: Final = _Times(self._log_expires)

    # -- entries ------------------------------------------------------------------------------

    def load(self, key: str, now: float) -> Row | None:
        row = self.entries.get(key)
        return None if row is None or row.expires <= now else row

    def save(self, key: str, row: Row | None) -> None:
        old = self.entries.get(key)
        if row is None:
            if old is not None:
                self._remove(key, old)
            return
        self.entries[key] = row
        self.size += len(row.value) - (-len(key) - _ENTRY if old is None else len(old.value))
        name = folder_of(key)
        if name is not None:
            folder = self._folders.get(name) or self._new_folder(name)
            if old is None:
                folder.add(key)
            if row.due is not None and (old is None or row.due != old.due):
                folder.due.add(row.due, key, len(folder.keys))
        if row.expires < inf and (old is None or row.expires != old.expires):
            self._expiring.add(row.expires, key, len(self.entries))

    def _new_folder(self, name: str) -> _Folder:
        folder = self._folders[name] = _Folder(_Times(self._due))
        return folder

    def _remove(self, key: str, row: Row) -> None:
        del self.entries[key]
        self.size -= _ENTRY + len(key) + len(row.value)
        name = folder_of(key)
        if name is not None:
            folder = self._folders[name]
            folder.remove(key)
            if not folder.keys:
                del self._folders[name]

    def set_value(self, key: str, version: int, value: bytes) -> None:
        old = self.entries[key]
        self.entries[key] = Row(value, version, old.expires, old.due)
        self.size += len(value) - len(old.value)

    def set_times(self, key: str, version: int, expires: float, due: float | None) -> None:
        self.save(key, Row(self.entries[key].value, version, expires, due))

    def listed(self, folder: str, cursor: str, now: float) -> Iterable[tuple[str, Row]]:
        if folder in self._folders:
            for key in self._folders[folder].after(cursor):
                if (row := self.load(key, now)) is not None:
                    yield key, row

    def due(self, folder: str, now: float, limit: int) -> list[tuple[float, str]]:
        while folder in self._folders:
            found = self._folders[folder].due.first(limit)
            expired = [key for _, key in found if self.load(key, now) is None]
            if not expired:
                return found
            for key in expired:
                self._remove(key, self.entries[key])
        return []

    def _due(self, key: str) -> float | None:
        row = self.entries.get(key)
        return None if row is None else row.due

    # -- logs ---------------------------------------------------------------------------------

    def append(self, change: Append, now: float) -> int:
        name = change.key
        log = self.logs.get(name)
        if log is None or log.expires <= now:
            self.drop(name, now)
            log = self.logs[name] = _Log(self.id_of_log(now))
            self.size += log.weight
        self.size -= log.weight
        log.append(change)
        self.size += log.weight
        log.expires = now + change.ttl
        if log.expires < inf:
            self._expiring_logs.add(log.expires, name, len(self.logs))
        return log.last

    def drop(self, log: str, now: float) -> int:
        _, last, _ = self.ends(log, now)
        if log in self.logs:
            self.size -= self.logs.pop(log).weight
        return last

    def ends(self, log: str, now: float) -> tuple[int, int, int]:
        found = self.logs.get(log)
        if found is None or found.expires <= now:
            return 1, 0, 0
        return found.first, found.last, found.id

    def items(self, log: str, after: int) -> Iterable[tuple[int, bytes]]:
        found = self.logs[log]
        start = max(after + 1, found.first)
        return enumerate(islice(found.items, start - found.first, None), start)

    # -- expiry -------------------------------------------------------------------------------

    def sweep(self, now: float, limit: int = _SWEPT) -> None:
        """Remove so many entries that have expired, and one log."""
        if self._expiring.earliest <= now:
            for _, key in self._expiring.first(limit, now):
                self._remove(key, self.entries[key])
        if self._expiring_logs.earliest <= now:
            for _, log in self._expiring_logs.first(1, now):
                self.drop(log, now)

    def _expires(self, key: str) -> float | None:
        row = self.entries.get(key)
        return None if row is None else row.expires

    def _log_expires(self, log: str) -> float | None:
        found = self.logs.get(log)
        return None if found is None else found.expires
