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

import hashlib
import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from attrs import Attribute, field, frozen, validators

from trio_mcp.store.errors import StoreFull

ABSENT: Final = 0
"""As `expect`: there must be no such entry. No entry has this version."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all values in one commit."""

READ_BYTES: Final = 1024 * 1024
"""Bytes of a log that are read at once, by default."""

MAX_CHANGES: Final = 128
"""Changes in one commit."""

PAGE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of all values in one page of a folder, unless the first one has more."""

LARGEST: Final = 2**63 - 1
"""The largest number that `Add` makes."""

_KEY: Final = re.compile(r"[^:{}]+:(.*[^/])")
_LONGEST_KEY: Final = 512


@lru_cache(maxsize=256)  # most keys are used several times while they are new
def check_key(key: str) -> str:
    """Return a key, a folder, or the name of a log or a channel; raise `ValueError` if invalid."""
    if len(key) > _LONGEST_KEY or not key.isprintable() or not _KEY.fullmatch(key):
        raise ValueError(
            f"a key is like 'partition:name', with no braces before the colon, no slash at the "
            f"end, and at most {_LONGEST_KEY} printable characters, unlike {key[:80]!r}"
        )
    return key


def check_channels(channels: tuple[str, ...]) -> frozenset[str]:
    """Return the channels to watch; raise `ValueError` if there is none, or a name is invalid."""
    if not channels:
        raise ValueError("name at least one channel to watch")
    return frozenset(map(check_key, channels))


def check_more_than_0(what: str, *numbers: float) -> None:
    """Raise `ValueError` if a number is not more than 0."""
    if not all(number > 0 for number in numbers):
        raise ValueError(f"of {what!r} more than 0 has to be asked for, not {min(numbers)}")


def key_part(text: str) -> str:
    """Return a part of a key that stands for any text."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


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
_whole: Final[Any] = validators.optional(validators.instance_of(int))
_at_least_one: Final[Any] = validators.ge(1)


# -- what is written -------------------------------------------------------------------------------


@frozen
class Put:
    """Write an entry, replacing any that is there. The result is the new version.

    Args:
        key: Its key.
        value: Its value.
        ttl: Seconds until it expires; `math.inf` for never.
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
    """Change the times of an existing entry, and nothing else. The result is its version.

    Args:
        key: Its key.
        ttl: Seconds until it expires, counted from now.
        expect: Only if this is its version now.
        delay: Seconds until it is due, counted from now.
    """

    key: str = field(validator=_is_key)
    ttl: float | None = field(default=None, kw_only=True, validator=_is_time)
    expect: int | None = field(default=None, kw_only=True)
    delay: float | None = field(default=None, kw_only=True, validator=_is_delay)


@frozen
class Delete:
    """Remove an entry, if it exists. The result is the version that it had, or `ABSENT`.

    Args:
        key: Its key.
        expect: Only if this is its version now.
    """

    key: str = field(validator=_is_key)
    expect: int | None = field(default=None, kw_only=True)


@frozen
class Check:
    """Change nothing, but make all other changes depend on an entry. The result is its version.

    Args:
        key: Its key.
        expect: What its version has to be (`ABSENT`: there must be none).
    """

    key: str = field(validator=_is_key)
    expect: int = field(kw_only=True)


@frozen
class Add:
    """Add to a number, which is 0 at first. The result is the sum.

    The number is an entry, unless it is 0; its value is written in decimal digits.

    Args:
        key: The key of that entry.
        amount: What to add; below 0, to subtract.
        ttl: Seconds until it expires, counted from when it was 0: adding does not prolong it.
        limit: Only if the sum is not above this.
    """

    key: str = field(validator=_is_key)
    amount: int = field(default=1, validator=validators.instance_of(int))
    ttl: float = field(kw_only=True, validator=_is_time)
    limit: int | None = field(default=None, kw_only=True, validator=_whole)


@frozen
class Append:
    """Append an item to a log. The result is the item's position.

    Positions count from 1, again so in a log that has expired or was dropped (`LogPage.began`).

    Args:
        key: The log, which is created if it does not exist.
        item: What to append.
        ttl: Seconds until the whole log expires, counted from now.
        limit: Items that are kept: the last ones.
        max_bytes: Bytes of items that are kept; the last item is kept however long it is.
    """

    key: str = field(validator=_is_key)
    item: bytes = field(validator=_bytes)
    ttl: float = field(kw_only=True, validator=_is_time)
    limit: int = field(kw_only=True, validator=_at_least_one)
    max_bytes: int = field(default=MAX_BYTES, kw_only=True, validator=_at_least_one)


@frozen
class Drop:
    """Remove a log. The result is the position of its last item, or 0."""

    key: str = field(validator=_is_key)


@frozen
class News:
    """Wake all who watch a channel. The result is 0."""

    key: str = field(validator=_is_key)


Conditional = Put | Touch | Delete | Check | Add
Change = Conditional | Append | Drop | News


class Conflict(Exception):
    """The condition of `change` does not hold, so no change of the commit was made."""

    def __init__(self, change: Conditional) -> None:
        super().__init__(change)
        self.change = change

    def __str__(self) -> str:
        return f"{type(self.change).__name__} of {self.change.key!r}: it is not as expected"


_OF_LOGS: Final = (Append, Drop)


def size_of(changes: Sequence[Change]) -> int:
    """Return how many bytes the values of some changes have together."""
    size = 0
    for change in changes:
        if isinstance(change, Put):
            size += len(change.value)
        elif isinstance(change, Append):
            size += len(change.item)
    return size


def check_commit(changes: tuple[Change, ...]) -> None:
    """Refuse changes that cannot be made at once.

    Raises:
        ValueError: There are too many, two of the same entry or log, or more than one partition.
        StoreFull: Their values are too long.
    """
    if len(changes) > MAX_CHANGES:
        raise ValueError(f"a commit has at most {MAX_CHANGES} changes, not {len(changes)}")
    if len(changes) > 1:  # most commits have one, which goes with itself
        keys = {change.key for change in changes}
        partitions = set(map(partition_of, keys))
        if len(partitions) > 1:
            raise ValueError(f"a commit is within one partition, not in {sorted(partitions)}")
        if len(keys) < len(changes):
            kept = [change for change in changes if not isinstance(change, News)]
            if len(kept) > len({(change.key, isinstance(change, _OF_LOGS)) for change in kept}):
                raise ValueError("a commit changes an entry or a log once, not twice")
    if (size := size_of(changes)) > MAX_BYTES:
        raise StoreFull(f"{size} bytes were to be written at once; the most is {MAX_BYTES}")


# -- what is read ----------------------------------------------------------------------------------


@frozen
class Entry:
    """An entry as it was when it was read.

    Attributes:
        key: Its key.
        value: Its value.
        version: Changes whenever the entry is written and whenever it is claimed. The versions of
            a key grow and never repeat, even if the entry was deleted in between.
        ttl: Seconds until it expires.
    """

    key: str
    value: bytes
    version: int
    ttl: float


@frozen
class Page:
    """Entries of a folder, in the order of their keys.

    Attributes:
        entries: Those of this page.
        cursor: Where the next page begins, or None if this is the last one.
    """

    entries: list[Entry]
    cursor: str | None


@frozen
class Claimed:
    """Entries that were claimed.

    Attributes:
        entries: By the time at which they were due.
        wait: Seconds until the next entry of the folder is due: 0 if one is due now, `math.inf` if
            there is none.
    """

    entries: list[Entry]
    wait: float


@frozen
class LogPage:
    """A part of a log.

    Attributes:
        items: Positions and items, in order.
        first: The position of the oldest item that the log keeps; 1 if there is no log.
        last: The position of its newest item; 0 if there is no log.
        began: Another number for each log of that name, larger than that of the one before by more
            than that has items; 0 if there is no log.
    """

    items: list[tuple[int, bytes]]
    first: int
    last: int
    began: int = 0

    def missed(self, after: int) -> bool:
        """Whether items after a position are no longer kept.

        So it is if the log was replaced by one that has fewer items. Whether it was, `began` says.
        """
        return after + 1 < self.first or after > self.last
