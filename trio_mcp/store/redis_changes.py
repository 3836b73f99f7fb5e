"""How changes are written for the scripts that Redis runs, and how their answers are read."""

from __future__ import annotations

import math
from typing import Any, Final

from attrs import fields

from trio_mcp.store.changes import (
    LARGEST,
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

Argument = str | bytes

GROWING: Final = (Put, Touch, Add, Append)

_NAMES: Final[dict[type[Any], tuple[str, ...]]] = {
    kind: tuple(field.name for field in fields(kind) if field.name != "key")
    for kind in (Put, Touch, Delete, Check, Add, Append, Drop, News)
}
"""By the kind of a change, what is written after its key, in the order in which it is read."""


def time_of(seconds: float | None) -> str:
    """Write a time for a script: in microseconds, rounded up; empty for None."""
    if seconds is None:
        return ""
    return str(NEVER if seconds * 1e6 >= NEVER else math.ceil(seconds * 1e6))


def name_of(key: str) -> str:
    """Return the name of a key within its partition."""
    return key.partition(":")[2]


def written(change: Change) -> list[Argument]:
    """Write a change as `redis_scripts.COMMIT` reads it.

    Raises:
        ValueError: It adds more than 64 bits hold.
    """
    if isinstance(change, Add) and abs(change.amount) > LARGEST:
        raise refusal(b"large", change)
    kind = type(change)
    values = (_written(name, getattr(change, name)) for name in _NAMES[kind])
    return [kind.__name__.lower(), name_of(change.key), *values]


def _written(name: str, value: Any) -> Argument:
    if name in ("ttl", "delay"):
        return time_of(value)
    if value is None:
        return ""
    return value if isinstance(value, bytes) else str(value)


def refusal(outcome: bytes, change: Any) -> Exception:
    """Make the exception for a change that the script refused."""
    if outcome == b"conflict":
        return Conflict(change)
    if outcome == b"large":
        return ValueError(f"the sum at {change.key!r} would be beyond 64 bits")
    return ValueError(f"{change.key!r} has no number to add to")


def entry_of(key: str, value: bytes, version: bytes, left: bytes) -> Entry:
    """Read an entry from its value, its version, and the microseconds until it expires."""
    never = int(left) >= NEVER // 2
    return Entry(key, value, int(version), math.inf if never else int(left) / 1e6)
