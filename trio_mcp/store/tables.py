"""What commits and claims do, in a file and in memory.

`Tables` is given the time and never waits. Entries and logs are kept by its subclasses, in
`sqlite_tables` and `memory_tables`. Redis does the same in its own language (`redis_scripts`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from attrs import define

from trio_mcp.store.changes import (
    ABSENT,
    LARGEST,
    PAGE_BYTES,
    READ_BYTES,
    Add,
    Append,
    Change,
    Check,
    Claimed,
    Conflict,
    Delete,
    Drop,
    Entry,
    LogPage,
    News,
    Page,
    Put,
    Touch,
    check_commit,
    check_key,
    check_more_than_0,
)
from trio_mcp.store.protocol import Store

T = TypeVar("T")

_LATEST: Final = 2**62


@define(eq=False)
class Row:
    """An entry as it is kept, with times by the store's clock, in seconds. It does not change."""

    value: bytes
    version: int
    expires: float
    due: float | None


class Tables(ABC):
    """What commits and claims do with entries and logs. What has expired by `now` is absent."""

    version: int = 0
    """The last one that was given to an entry or a log."""

    # -- where they are kept ------------------------------------------------------------------

    @abstractmethod
    def load(self, key: str, now: float) -> Row | None:
        """Return an entry, unless it has expired."""

    @abstractmethod
    def save(self, key: str, row: Row | None) -> None:
        """Write an entry, or remove it."""

    @abstractmethod
    def set_value(self, key: str, version: int, value: bytes) -> None:
        """Change the value of an entry that exists, and nothing else but its version."""

    @abstractmethod
    def set_times(self, key: str, version: int, expires: float, due: float | None) -> None:
        """Change when an entry that exists expires, and when it is due; its value stays."""

    @abstractmethod
    def listed(self, folder: str, cursor: str, now: float) -> Iterable[tuple[str, Row]]:
        """Return the entries of a folder after a key, in the order of their keys."""

    @abstractmethod
    def due(self, folder: str, now: float, limit: int) -> list[tuple[float, str]]:
        """Return the entries of a folder that are due first, now or later: when, and the key."""

    @abstractmethod
    def append(self, change: Append, now: float) -> int:
        """Append an item to a log, and return its position."""

    @abstractmethod
    def drop(self, log: str, now: float) -> int:
        """Remove a log, and return the position of its last item."""

    @abstractmethod
    def ends(self, log: str, now: float) -> tuple[int, int, int]:
        """Return where a log begins and ends, and its id; 1, 0 and 0 if there is none."""

    @abstractmethod
    def items(self, log: str, after: int) -> Iterable[tuple[int, bytes]]:
        """Return the items of a log that exists, with their positions, after a position."""

    def id_of_log(self, now: float) -> int:
        """Return the id of a new log: it is above those of all that had its name before.

        It is by more than they had items, so that positions in one are none in the other.
        """
        self.version = max(self.version + 1, min(int(now * 1_000_000), _LATEST))
        return self.version

    # -- what is done with them ---------------------------------------------------------------

    def commit(self, changes: Sequence[Change], now: float) -> list[int]:
        found = [(change, self._look(change, now)) for change in changes]  # raises before any
        self.version += any(change.__class__ in _VERSIONED for change in changes)
        return [_MAKERS[change.__class__](self, change, row, now) for change, row in found]

    def _look(self, change: Change, now: float) -> Row | None:
        """Return the entry that a change is about, or raise `Conflict` if it must not be made."""
        match change:
            case Put(expect=None) | News() | Append() | Drop():
                return None
            case Add():
                row = self.load(change.key, now)
                total = _sum(change, row)
                holds = change.limit is None or total <= change.limit
            case _:
                row = self.load(change.key, now)
                holds = change.expect in (None, ABSENT if row is None else row.version)
                holds &= row is not None or not isinstance(change, Touch)
        if not holds:
            raise Conflict(change)
        return row

    def _put(self, change: Put, row: Row | None, now: float) -> int:
        due = None if change.delay is None else now + change.delay
        self.save(change.key, Row(change.value, self.version, now + change.ttl, due))
        return self.version

    def _touch(self, change: Touch, row: Row, now: float) -> int:
        expires = row.expires if change.ttl is None else now + change.ttl
        due = row.due if change.delay is None else now + change.delay
        self.set_times(change.key, row.version, expires, due)
        return row.version

    def _delete(self, change: Delete, row: Row | None, now: float) -> int:
        self.save(change.key, None)
        return _version(row)

    def _add(self, change: Add, row: Row | None, now: float) -> int:
        total = _sum(change, row)
        value = b"%d" % total
        if total == 0:  # as if there was none, so nothing is left of what ended
            self.save(change.key, None)
        elif row is not None and row.due is None:
            self.set_value(change.key, self.version, value)
        else:
            expires = now + change.ttl if row is None else row.expires
            self.save(change.key, Row(value, self.version, expires, None))
        return total

    def get(self, key: str, now: float) -> Entry | None:
        row = self.load(key, now)
        return None if row is None else _entry(key, row, now)

    def claim(self, folder: str, lease: float, limit: int, now: float) -> Claimed:
        keys = [key for time, key in self.due(folder, now, limit) if time <= now]
        self.version += bool(keys)
        entries = []
        for key in keys:
            row = self.load(key, now)
            assert row is not None
            self.set_times(key, self.version, row.expires, now + lease)
            entries.append(Entry(key, row.value, self.version, row.expires - now))
        ahead = self.due(folder, now, 1)
        return Claimed(entries, max(0.0, ahead[0][0] - now) if ahead else math.inf)

    def scan(self, folder: str, cursor: str, limit: int, now: float) -> Page:
        entries: list[Entry] = []
        size = 0
        for key, row in self.listed(folder, cursor, now):
            size += len(row.value)
            if len(entries) == limit or (entries and size > PAGE_BYTES):
                return Page(entries, entries[-1].key)
            entries.append(_entry(key, row, now))
        return Page(entries, None)

    def read(self, log: str, after: int, limit: int, max_bytes: int, now: float) -> LogPage:
        first, last, began = self.ends(log, now)
        items: list[tuple[int, bytes]] = []
        size = 0
        if after < last:
            for position, item in self.items(log, after):
                size += len(item)
                if len(items) == limit or (items and size > max_bytes):
                    break
                items.append((position, item))
        return LogPage(items, first, last, began)


_VERSIONED: Final = (Put, Add)

_MAKERS: Final[dict[type[Change], Callable[[Tables, Any, Any, float], int]]] = {
    Put: Tables._put,
    Touch: Tables._touch,
    Delete: Tables._delete,
    Check: lambda tables, change, row, now: _version(row),
    Add: Tables._add,
    Append: lambda tables, change, row, now: tables.append(change, now),
    Drop: lambda tables, change, row, now: tables.drop(change.key, now),
    News: lambda tables, change, row, now: ABSENT,
}
"""By the kind of change, what makes it, given the entry as it was found, and returns its result."""


def _version(row: Row | None) -> int:
    return ABSENT if row is None else row.version


def _entry(key: str, row: Row, now: float) -> Entry:
    return Entry(key, row.value, row.version, row.expires - now)


def _sum(change: Add, row: Row | None) -> int:
    value = b"0" if row is None else row.value
    try:
        total = int(value) + change.amount
    except ValueError:
        raise ValueError(f"{change.key!r} has no number to add to") from None
    if abs(total) > LARGEST:
        raise ValueError(f"the sum at {change.key!r} would be beyond 64 bits")
    return total


Work = Callable[[Tables, float], T]
"""An operation on tables, at a given time."""


class TablesStore(Store):
    """A store in `Tables`, whose subclasses decide when and in which thread operations run."""

    @abstractmethod
    async def _read(self, work: Work[T]) -> T:
        """Run an operation that changes nothing."""

    @abstractmethod
    async def _write(self, work: Work[T], changes: Sequence[Change] = ()) -> T:
        """Run an operation that makes these changes, or that claims."""

    async def commit(self, *changes: Change) -> list[int]:
        check_commit(changes)
        return await self._write(lambda tables, now: tables.commit(changes, now), changes)

    async def get(self, key: str) -> Entry | None:
        check_key(key)
        return await self._read(lambda tables, now: tables.get(key, now))

    async def scan(self, folder: str, cursor: str = "", *, limit: int = 100) -> Page:
        check_more_than_0(check_key(folder), limit)
        return await self._read(lambda tables, now: tables.scan(folder, cursor, limit, now))

    async def claim(self, folder: str, lease: float, *, limit: int = 1) -> Claimed:
        check_more_than_0(check_key(folder), limit, lease)
        return await self._write(lambda tables, now: tables.claim(folder, lease, limit, now))

    async def read(
        self, log: str, after: int = 0, *, limit: int = 100, max_bytes: int = READ_BYTES
    ) -> LogPage:
        check_more_than_0(check_key(log), limit, max_bytes)
        return await self._read(lambda tables, now: tables.read(log, after, limit, max_bytes, now))
