"""Stdin and stdout, borrowed from the rest of the process for a while.

Strategy: the protocol moves to private copies of the two descriptors.  In their place
stdin becomes empty and stdout becomes stderr, at the level of descriptors, so that
``print``, ``os.write(1, ...)``, C libraries and child processes are all kept off the
wire.  Every step registers its own undoing first, so that whatever happens afterwards
the process gets its descriptors back.
"""

import contextlib
import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple, TextIO

from trio_mcp.system.descriptors import duplicate
from trio_mcp.transports.stdio.descriptors import is_open

# Python sets these to None when the descriptor was closed at its start.  The number may
# since have been given to an unrelated file, such as the event loop's own.
STARTED_WITH = {0: "__stdin__", 1: "__stdout__", 2: "__stderr__"}

# Descriptors belong to the process, so what is diverted is known per process too.
_diverted: set[int] = set()
_lock = threading.Lock()


class Originals(NamedTuple):
    """Private copies of what stdin and stdout were; None where they were closed."""

    stdin: int | None
    stdout: int | None


@contextmanager
def divert(stdin_fd: int, stdout_fd: int, stderr_fd: int) -> Iterator[Originals]:
    """Point *stdin_fd* at nothing and *stdout_fd* at *stderr_fd* until the block ends.

    Raises:
        RuntimeError: Either descriptor is diverted already.
    """
    with ExitStack() as undo:
        _claim(undo, {stdin_fd, stdout_fd})
        _flush()
        nowhere = _open_nowhere(undo)
        elsewhere = stderr_fd if _is_ours(stderr_fd) else nowhere
        stdin = _redirect(undo, stdin_fd, nowhere)
        stdout = _redirect(undo, stdout_fd, elsewhere)
        _show_lines_at_once(undo, stdout_fd)
        undo.callback(_drain, stdout_fd, nowhere)
        yield Originals(stdin, stdout)


def _claim(undo: ExitStack, descriptors: set[int]) -> None:
    with _lock:
        if _diverted & descriptors:
            raise RuntimeError("stdin and stdout are already being served in this process")
        _diverted.update(descriptors)
    undo.callback(_diverted.difference_update, descriptors)


def _open_nowhere(undo: ExitStack) -> int:
    opened = os.open(os.devnull, os.O_RDWR)
    try:
        nowhere = duplicate(opened)  # a number that is not a standard descriptor's
    finally:
        os.close(opened)
    undo.callback(os.close, nowhere)
    return nowhere


def _is_ours(fd: int) -> bool:
    return not _was_closed_at_start(fd) and is_open(fd)


def _was_closed_at_start(fd: int) -> bool:
    return fd in STARTED_WITH and getattr(sys, STARTED_WITH[fd]) is None


def _redirect(undo: ExitStack, fd: int, target: int) -> int | None:
    """Point *fd* at *target*; return a private copy of what it was, if it was open."""
    if not is_open(fd):
        undo.callback(_close, fd)
        os.dup2(target, fd)
        return None
    if _was_closed_at_start(fd):
        return None  # the number is another file's by now
    original = duplicate(fd)
    undo.callback(os.close, original)
    undo.callback(os.dup2, original, fd, os.get_inheritable(fd))
    os.dup2(target, fd)
    return original


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):  # the program may have closed it meanwhile
        os.close(fd)


def _flush() -> bool:
    """Empty Python's own buffers for stdout; tell whether all of it went out."""
    complete = True
    for stream in (sys.stdout, sys.__stdout__):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):  # it is broken, or closed
            complete = False
    return complete


def _drain(stdout_fd: int, nowhere: int) -> None:
    """See to it that nothing printed while diverted comes out of stdout later."""
    if not _flush():  # stderr is broken: what is still buffered is lost, not moved
        os.dup2(nowhere, stdout_fd)
        _flush()


def _show_lines_at_once(undo: ExitStack, stdout_fd: int) -> None:
    """Make ``print`` as prompt as stderr is, while that is where it goes."""
    stream: TextIO | None = sys.stdout
    if not isinstance(stream, io.TextIOWrapper) or stream.line_buffering:
        return
    with contextlib.suppress(OSError, ValueError):
        if stream.fileno() == stdout_fd:
            stream.reconfigure(line_buffering=True)
            undo.callback(_restore_buffering, stream)


def _restore_buffering(stream: io.TextIOWrapper) -> None:
    with contextlib.suppress(OSError, ValueError):
        stream.reconfigure(line_buffering=False)
