"""What can be written to a store, and what is read from it.

A **change** is a value; `Store.commit` makes several of them at once, or none. Keys look like
`tasks:queue/17`:

- Up to the colon, the **partition**. All that is written at once is in one partition, so a store
  may spread partitions over machines.
- Up to the last slash, if there is one, the **folder**. What is in a folder can be listed, and
  claimed when it is due.

Logs and channels for news have names of the same form. An entry, a log and a channel may share one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, Final

from attrs import Attribute, field, frozen, validators

from trio_mcp.store.errors import StoreFull

ABSENT: Final = 0
"""As `expect`: there must be no such entry. No entry has this version."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all values in one commit."""

READ_BYTES: Final = 1024 * 1024
"""Bytes of a log that are read at once, unless told otherwise."""

MAX_CHANGES: Final = 128
"""Changes in one commit."""

_KEY: Final = re.compile(r"[^:{}]+:(.*[^/])")
_LONGEST_KEY: Final = 512


def check_key(key: str) -> str:
    """Return a key, a folder, or the name of a log or a channel.

    Raises:
        ValueError: It is none.
    """
    if len(key) > _LONGEST_KEY or not key.isprintable() or not _KEY.fullmatch(key):
        raise ValueError(
            f"a key is like 'partition:name', with no braces before the colon, no slash at the "
            f"end, and at most {_LONGEST_KEY} printable characters, unlike {key[:80]!r}"
        )
    return key


def check_channels(channels: tuple[str, ...]) -> frozenset[str]:
    """Return channels that are to be watched.

    Raises:
        ValueError: There is none, or one has no such name.
    """
    if not channels:
        raise ValueError("name at least one channel to watch")
    return frozenset(map(check_key, channels))


def partition_of(key: str) -> str:
    """Return what stands before the colon."""
    return key.partition(":")[0]


def folder_of(key: str) -> str | None:
    """Return what stands before the last slash, if there is one."""
    return key.rpartition("/")[0] or None


def _is_key(_: object, __: Attribute[str], value: str) -> None:
    check_key(value)


def _is_time(_: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not value > 0:  # so NaN is none, but infinity is
        raise ValueError(f"{attribute.name} must be more than 0 seconds, not {value!r}")


def _is_delay(_: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not 0 <= value < math.inf:
        raise ValueError(f"{attribute.name} must be 0 seconds or more, not {value!r}")


_bytes: Final[Any] = validators.instance_of(bytes)
_at_least_one: Final[Any] = validators.ge(1)


# -- what is written -------------------------------------------------------------------------------


@frozen
class Put:
    """Write an entry, in place of what it was. Its result is the new version.

    Args:
        key: Where.
        value: What.
        ttl: Seconds until it is gone; `math.inf` for never.
        expect: Only if this is the entry's version now (`ABSENT`: only if there is none).
        delay: Seconds until it is due, so that `Store.claim` finds it. Without, it never is.
    """

    key: str = field(validator=_is_key)
    value: bytes = field(validator=_bytes)
    ttl: float = field(kw_only=True, validator=_is_time)
    expect: int | None = field(default=None, kw_only=True)
    delay: float | None = field(default=None, kw_only=True, validator=_is_delay)


@frozen
class Touch:
    """Change the times of an entry that is there, and nothing else. Its result is its version.

    Args:
        key: Which.
        ttl: Seconds until it is gone, counted from now.
        expect: Only if this is its version now.
        delay: Seconds until it is due, counted from now.
    """

    key: str = field(validator=_is_key)
    ttl: float | None = field(default=None, kw_only=True, validator=_is_time)
    expect: int | None = field(default=None, kw_only=True)
    delay: float | None = field(default=None, kw_only=True, validator=_is_delay)


@frozen
class Delete:
    """Remove an entry, if it is there. Its result is the version that it had, or `ABSENT`.

    Args:
        key: Which.
        expect: Only if this is its version now.
    """

    key: str = field(validator=_is_key)
    expect: int | None = field(default=None, kw_only=True)


@frozen
class Check:
    """Change nothing, but make all other changes depend on an entry. Its result is its version.

    Args:
        key: Which.
        expect: What its version has to be (`ABSENT`: there must be none).
    """

    key: str = field(validator=_is_key)
    expect: int = field(kw_only=True)


@frozen
class Add:
    """Add to a number, which is 0 at first. Its result is the sum.

    The number is an entry; its value is written in decimal digits.

    Args:
        key: Where.
        amount: What to add; below 0, to subtract.
        ttl: Seconds until it is gone, counted from when it was 0: adding does not prolong it.
        most: Only if the sum is not above this.
    """

    key: str = field(validator=_is_key)
    amount: int = field(default=1, validator=validators.instance_of(int))
    ttl: float = field(kw_only=True, validator=_is_time)
    most: int | None = field(default=None, kw_only=True)


@frozen
class Append:
    """Add an item to the end of a log. Its result is the item's position.

    Positions count from 1. A log that is gone, and is appended to again, begins anew.

    Args:
        key: Which log. It is made if there is none.
        item: What.
        ttl: Seconds until the whole log is gone, counted from now.
        most: Items that are kept: the last ones.
        most_bytes: Bytes of items that are kept; the last item is kept however long it is.
    """

    key: str = field(validator=_is_key)
    item: bytes = field(validator=_bytes)
    ttl: float = field(kw_only=True, validator=_is_time)
    most: int = field(kw_only=True, validator=_at_least_one)
    most_bytes: int = field(default=MAX_BYTES, kw_only=True, validator=_at_least_one)


@frozen
class Drop:
    """Remove a log. Its result is the position of the last item that it had, or 0.

    Args:
        key: Which log.
    """

    key: str = field(validator=_is_key)


@frozen
class News:
    """Wake whoever watches a channel. Its result is 0.

    Args:
        key: Which channel.
    """

    key: str = field(validator=_is_key)


Conditional = Put | Touch | Delete | Check | Add
Change = Conditional | Append | Drop | News


class Conflict(Exception):
    """What a change depends on is not so. None of the changes of the commit was made.

    Attributes:
        change: Which change it was.
    """

    def __init__(self, change: Conditional) -> None:
        super().__init__(change)
        self.change = change

    def __str__(self) -> str:
        return f"{type(self.change).__name__} of {self.change.key!r}: it is not as expected"


def size_of(changes: Iterable[Change]) -> int:
    """Return how many bytes the values of some changes have together."""
    size = 0
    for change in changes:
        if isinstance(change, Put):
            size += len(change.value)
        elif isinstance(change, Append):
            size += len(change.item)
    return size


def check_commit(changes: tuple[Change, ...]) -> None:
    """Make sure that changes can be made at once.

    Raises:
        ValueError: There are too many, two of the same entry or log, or more than one partition.
        StoreFull: Their values are too long.
    """
    if len(changes) > 1:
        _check_together(changes)
    if (size := size_of(changes)) > MAX_BYTES:
        raise StoreFull(f"{size} bytes were to be written at once; the most is {MAX_BYTES}")


def _check_together(changes: tuple[Change, ...]) -> None:
    if len(changes) > MAX_CHANGES:
        raise ValueError(f"a commit has at most {MAX_CHANGES} changes, not {len(changes)}")
    partitions = {partition_of(each.key) for each in changes}
    if len(partitions) > 1:
        raise ValueError(f"a commit is within one partition, not in {sorted(partitions)}")
    logs = [each.key for each in changes if isinstance(each, (Append, Drop))]
    entries = [each.key for each in changes if not isinstance(each, (Append, Drop, News))]
    if len(logs) + len(entries) > len(set(logs)) + len(set(entries)):
        raise ValueError("a commit changes an entry or a log once, not twice")


# -- what is read ----------------------------------------------------------------------------------


@frozen
class Entry:
    """An entry as it was when it was read.

    Attributes:
        key: Where it is.
        value: What it has.
        version: Changes whenever the entry is written and whenever it is claimed. The versions of
            a key grow, and none comes twice, even if the entry was deleted in between.
        ttl: Seconds that were left to it.
    """

    key: str
    value: bytes
    version: int
    ttl: float


@frozen
class Page:
    """A part of a folder.

    Attributes:
        entries: In the order of their keys.
        cursor: Where the next page begins, or None if there is nothing more.
    """

    entries: list[Entry]
    cursor: str | None


@frozen
class Claimed:
    """What was claimed.

    Attributes:
        entries: Those that were due first come first.
        wait: Seconds until the next entry of the folder is due: 0 if one is due now, `math.inf` if
            there is none.
    """

    entries: list[Entry]
    wait: float


@frozen
class LogPage:
    """A part of a log.

    Attributes:
        items: With their positions, in their order.
        first: The position of the oldest item that the log keeps; 1 if there is no log.
        last: The position of its newest item; 0 if there is no log.
    """

    items: list[tuple[int, bytes]]
    first: int
    last: int

    def missed(self, after: int) -> bool:
        """Whether items after a position are not kept any more, or the log has begun anew."""
        return after + 1 < self.first or after > self.last
