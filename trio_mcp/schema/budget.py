"""What bounds the work of a check: the size of the value, and a budget of processor time.

jsonschema-rs cannot be interrupted, and lets no other thread run. So where a check may take long,
every schema has a keyword written in Python: there other threads get their turn, and the check ends
once its budget is spent. What would take long in a single keyword is refused before.
"""

import threading
import time
from typing import Any, Final

from attrs import define

from trio_mcp.schema.patterns import LARGEST, encoded_length, matching_time, pattern_test

PLACE: Final = "x-trio-mcp-place"
"""The keyword that is added to schemas, with the place where each stands."""

MOST_MATCHING: Final = 70e6  # nanoseconds in which nothing else runs
_DEEPEST: Final = 200
"""So deep a value may be nested. Far beyond it, jsonschema-rs overruns the stack and crashes."""
_MOST_VALUES: Final = 10_000_000
_SMALL: Final = (2000, 1_000_000)  # values and characters that are checked on an event loop
_SECONDS: Final = (0.05, 5.0)  # of processor time, for small values and for large ones
_LOOKS: Final = 64  # between two looks at the clock
_PLAIN: Final = frozenset({float, bool, type(None)})


class Refused(Exception):
    """A value is not held against its schema; the text says what it is instead."""


TOO_MUCH: Final = Refused(
    "too much work to check against the schema; send less, or nest it less deeply"
)
TOO_DEEP: Final = Refused("nested too deeply to be checked")
OUT_OF_RANGE: Final = Refused("not valid: a number is out of range")
NO_JSON: Final = Refused("not JSON: something in it is of another type, or no Unicode")


@define
class Size:
    """How large a value is."""

    values: int = 0
    characters: int = 0
    properties: int = 0
    names: int = 0
    """The characters of the names in objects."""
    bits: int = 0
    """Those of the largest integer."""

    @property
    def is_small(self) -> bool:
        """Whether an event loop may wait for its check."""
        return self.values <= _SMALL[0] and self.characters <= _SMALL[1]


def measure(value: Any) -> Size:
    """Count a value; raise `Refused` beyond 200 levels, or more values than can be checked."""
    size = Size()
    levels = [iter((value,))]
    while levels:
        for part in levels[-1]:
            kind = part.__class__
            if kind is str:
                size.characters += len(part)
            elif kind in _PLAIN:
                continue
            elif kind is int:
                if not -(2**63) < part < 2**63:
                    size.bits = max(size.bits, part.bit_length())
            elif isinstance(part, dict | list | tuple):
                if len(levels) > _DEEPEST:
                    raise TOO_DEEP
                size.values += len(part)
                if size.values > _MOST_VALUES:
                    raise TOO_MUCH
                if isinstance(part, dict):
                    size.properties += len(part)
                    size.names += sum(len(name) for name in part if isinstance(name, str))
                    part = part.values()
                levels.append(iter(part))
                break
        else:
            levels.pop()
    return size


class _Budget(threading.local):
    """The processor time that is left for the check that a thread makes."""

    _end = 0.0
    _looks = 0
    is_spent = False

    def begin(self, size: Size) -> None:
        self._end = time.thread_time() + _SECONDS[not size.is_small]
        self._looks = _LOOKS
        self.is_spent = False

    def look(self, looks: int = 1) -> None:
        """Give other threads a turn now and then; raise `ValueError` once the budget is spent."""
        self._looks -= looks
        if self._looks < 0:
            self._looks = _LOOKS
            self.is_spent = self.is_spent or time.thread_time() > self._end
        if self.is_spent:
            raise ValueError


budget: Final = _Budget()


class _Turn:
    """The keyword that demands nothing, at which others get their turn."""

    def __init__(self, parent: dict[str, Any], wanted: Any, path: list[Any]) -> None:
        pass

    def validate(self, value: Any) -> None:
        budget.look()


class _Large:
    """The keyword `pattern` where patterns are large."""

    def __init__(self, parent: dict[str, Any], pattern: str, path: list[Any]) -> None:
        self._fits = pattern_test(pattern, LARGEST)
        self._time = matching_time(pattern)

    def validate(self, value: Any) -> None:
        if not isinstance(value, str):
            return
        budget.look(_LOOKS)
        if encoded_length(value) * self._time > MOST_MATCHING:
            budget.is_spent = True
            raise ValueError
        if not (self._fits and self._fits(value)):
            raise ValueError


LARGE_PATTERNS: Final[dict[str, Any]] = {"pattern": _Large}
TURNS: Final[dict[str, Any]] = {PLACE: _Turn}
"""The keywords of a check that may take long."""
