"""What must never happen, whatever comes in: the judge of every target of the fuzzers.

A target returns what it put on the wire, having let through only errors that somebody decided on.
The judge adds what no target can see of itself: the time, the memory, the log, and the texts.
"""

from __future__ import annotations

import logging
import re
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from attrs import frozen

MOST_SECONDS: Final = 1.0
"""Of processor time, so that a busy machine finds nothing."""
MOST_BYTES: Final = 128 * 1024 * 1024
"""By which the process may grow for one input."""

_INTERNAL: Final = re.compile(
    rb"Traceback|File \"|\.py\b|site-packages| object at 0x|<function|<class"
    rb"|\b(?:Attribute|Key|Index|Type|Name|Lookup|Assertion|Recursion|Unicode\w*)Error\b"
)
"""What only the inside of a program says."""
UNIT: Final = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


class Finding(Exception):
    """Something happened that must never happen."""


@frozen
class Target:
    """An entrance for bytes of a stranger's.

    Args:
        name: Its name, and that of its folder in the corpus.
        run: Takes the bytes, and returns what goes back to the stranger, if anything does. It
            raises nothing but what must never happen.
    """

    name: str
    run: Callable[[bytes], bytes | None]


class _Errors(logging.Handler):
    """Keeps what is logged as an error: nothing that comes in may be one of ours."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record)


@contextmanager
def _errors_in_log() -> Iterator[_Errors]:
    logger, handler = logging.getLogger("trio_mcp"), _Errors()
    propagated, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    def over(_: int, __: Any) -> None:
        raise Finding(f"more than {seconds:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def judge(target: Target, data: bytes, seconds: float = MOST_SECONDS) -> None:
    """Give bytes to a target.

    Raises:
        Exception: What must never happen has happened.
    """
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with _errors_in_log() as errors, _time_limit(seconds):
        sent = target.run(data)
    grown = UNIT * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    if grown > MOST_BYTES:
        raise Finding(f"the process has grown by {grown:,} bytes")
    for record in errors.found:
        cause = record.exc_info[1] if record.exc_info else None
        raise Finding(f"logged as an error: {record.getMessage()}") from cause
    told = _INTERNAL.search(sent or b"")
    if told is not None and told[0] not in data:
        raise Finding(f"{told[0]!r} on the wire")


def smaller(target: Target, data: bytes) -> bytes:
    """Take away what is not needed for a finding of the same kind to happen."""
    kind = kind_of_finding(target, data)
    size = len(data) // 2
    while size:
        start = 0
        while start < len(data):
            less = data[:start] + data[start + size :]
            if kind_of_finding(target, less) == kind:
                data = less
            else:
                start += size
        size //= 2
    return data


def kind_of_finding(target: Target, data: bytes) -> str | None:
    """What kind of thing happens that must never happen; `None` if all is well."""
    try:
        judge(target, data)
    except Exception as error:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]  # type: ignore[assignment]
        return type(error).__name__
    return None
