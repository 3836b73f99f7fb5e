"""Entries and logs in dictionaries.

What expires, or is due, is in lists in the order of that time as well. A heap would keep old times,
and to look for those of 100,000 entries takes too long at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable
from itertools import chain, islice, takewhile
from math import inf
from typing import Final

from attrs import define, field

from trio_mcp.store.changes import Append, folder_of
from trio_mcp.store.tables import Row, Tables

_ENTRY, _LOG, _ITEM = 640, 1280, 48
"""Bytes that an entry, a log and an item of it take up besides key and value, as measured."""

_SWEPT: Final = 256
"""Expired entries that a transaction removes, which is more than it can add."""

_LONGEST: Final = 1000
"""Times in one list."""

_Time = tuple[float, str]
"""A time, and the name that has it."""


@define(eq=False)
class _Times:
    """Names in the order of the times that they have. Infinity is none."""

    _runs: list[list[_Time]] = field(factory=list, init=False)
    """The times in order, some in each list. In one long list, a change would move many."""

    def change(self, name: str, old: float, new: float) -> None:
        """Note that a name has a time in place of another."""
        if old == new:
            return
        if old < inf:
            self._remove((old, name))
        if new < inf:
            self._add((new, name))

    def first(self, limit: int, until: float = inf) -> list[_Time]:
        """Return the earliest times with their names, in order: so many, and none after `until`."""
        if not self._runs or self._runs[0][0][0] > until:
            return []
        earliest = islice(chain.from_iterable(self._runs), limit)
        return [*takewhile(lambda time: time[0] <= until, earliest)]

    def _add(self, time: _Time) -> None:
        place = bisect_left(self._runs, time, key=_last)
        if place == len(self._runs):  # it is later than all
            if place == 0:
                self._runs.append([])
            place = len(self._runs) - 1
        run = self._runs[place]
        insort(run, time)
        if len(run) > _LONGEST:
            half = len(run) // 2
            self._runs.insert(place + 1, run[half:])
            del run[half:]

    def _remove(self, time: _Time) -> None:
        place = bisect_left(self._runs, time, key=_last)
        run = self._runs[place]
        del run[bisect_left(run, time)]
        if not run:
            del self._runs[place]


def _last(run: list[_Time]) -> _Time:
    return run[-1]


@define(eq=False)
class _Folder:
    """What is in a folder: when it is due, and the keys."""

    due: _Times = field(factory=_Times, init=False)
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
        self._expiring: Final = _Times()
        self._expiring_logs: Final = _Times()

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
        self._expiring.change(key, inf if old is None else old.expires, row.expires)
        self.entries[key] = row
        self.size += len(row.value) - (-len(key) - _ENTRY if old is None else len(old.value))
        name = folder_of(key)
        if name is not None:
            folder = self._folders.get(name) or self._folders.setdefault(name, _Folder())
            if old is None:
                folder.add(key)
            folder.due.change(key, _due(old), _due(row))

    def _remove(self, key: str, row: Row) -> None:
        del self.entries[key]
        self._expiring.change(key, row.expires, inf)
        self.size -= _ENTRY + len(key) + len(row.value)
        name = folder_of(key)
        if name is not None:
            folder = self._folders[name]
            folder.remove(key)
            folder.due.change(key, _due(row), inf)
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
        self._expiring_logs.change(name, log.expires, now + change.ttl)
        log.expires = now + change.ttl
        return log.last

    def drop(self, log: str, now: float) -> int:
        _, last, _ = self.ends(log, now)
        if log in self.logs:
            self._expiring_logs.change(log, self.logs[log].expires, inf)
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
        for _, key in self._expiring.first(limit, now):
            self._remove(key, self.entries[key])
        for _, log in self._expiring_logs.first(1, now):
            self.drop(log, now)


def _due(row: Row | None) -> float:
    return inf if row is None or row.due is None else row.due
