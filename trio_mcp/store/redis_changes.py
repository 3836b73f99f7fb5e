"""How changes are written for the scripts that Redis runs, and how their answers are read."""

from __future__ import annotations

import math
from typing import Any, Final

from trio_mcp.store.changes import (
    Add,
    Append,
    Change,
    Check,
    Conflict,
    Delete,
    Drop,
    Entry,
    News,
    Put,
    Touch,
)
from trio_mcp.store.redis_scripts import NEVER
from trio_mcp.store.tables import LARGEST

Argument = str | bytes

GROWING: Final = (Put, Touch, Add, Append)


def time_of(seconds: float | None) -> str:
    """Write a time for a script: in microseconds, rounded up; nothing if there is none."""
    if seconds is None:
        return ""
    return str(NEVER if seconds == math.inf else math.ceil(seconds * 1e6))


def _optional(number: int | None) -> str:
    return "" if number is None else str(number)


def name_of(key: str) -> str:
    """Return what a key is called within its partition."""
    return key.partition(":")[2]


def written(change: Change) -> list[Argument]:
    """Write a change as `redis_scripts.COMMIT` reads it.

    Raises:
        ValueError: It adds more than 64 bits hold.
    """
    c, name = change, name_of(change.key)
    match c:
        case Put():
            expect, delay = _optional(c.expect), time_of(c.delay)
            return ["put", name, c.value, time_of(c.ttl), expect, delay]
        case Touch():
            return ["touch", name, time_of(c.ttl), _optional(c.expect), time_of(c.delay)]
        case Delete():
            return ["delete", name, _optional(c.expect)]
        case Check():
            return ["check", name, str(c.expect)]
        case Add():
            if abs(c.amount) > LARGEST:
                raise refusal(b"large", c)
            return ["add", name, str(c.amount), time_of(c.ttl), _optional(c.most)]
        case Append():
            bounds = str(c.most), str(c.most_bytes)
            return ["append", name, c.item, time_of(c.ttl), *bounds]
        case Drop():
            return ["drop", name]
        case News():
            return ["news", name]


def refusal(outcome: bytes, change: Any) -> Exception:
    """Say why the script refused a change."""
    if outcome == b"conflict":
        return Conflict(change)
    if outcome == b"large":
        return ValueError(f"the sum at {change.key!r} would be beyond 64 bits")
    return ValueError(f"{change.key!r} has no number to add to")


def entry_of(key: str, value: bytes, version: bytes, left: bytes) -> Entry:
    """Read an entry: its value, its version, and the microseconds that it has left."""
    never = int(left) >= NEVER // 2
    return Entry(key, value, int(version), math.inf if never else int(left) / 1e6)
