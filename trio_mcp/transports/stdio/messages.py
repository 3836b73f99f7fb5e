"""What a server says on stderr, written without ever waiting until it is read.

A host may not read a server's stderr. Once that is full, whatever writes to it waits, be it a log
record or a `print`, and with it all that the server does. So while a server runs, Python's streams
for stderr, and for a stdout that leads there, write what fits at once. The rest is kept, up to a
bound, and written when there is room; what is beyond that is dropped, and counted. There is no
thread in between where the system can tell what fits: a message is mostly out when the call
returns, so a process that crashes has said what it had to say.

It concerns pipes and sockets. What does not write by these streams still waits: C libraries, child
processes, and code that has kept ``sys.stderr`` from before. Handlers of the log are seen to.
"""

import io
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any, Final

import trio

from trio_mcp.background import background_nursery
from trio_mcp.loggers import all_handlers
from trio_mcp.system.capabilities import POLLS
from trio_mcp.transports.stdio.descriptors import Kind, is_open, kind_of
from trio_mcp.transports.stdio.writers import Writer, open_writer

MOST_BYTES: Final = 256 * 1024
"""So much is kept while nothing is read."""
LAST_MOMENT: Final = 1.0
"""Seconds that what is kept has at the end."""

_DROPPED: Final = "trio-mcp: %d messages were dropped here, because nothing read stderr\n"


class Backlog:
    """What was said and not written yet. It may be added to in any thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._kept = bytearray()
        self._dropped = 0  # messages
        self._is_sending = False
        self._is_over = self._is_stuck = False
        self._lock = threading.RLock()  # a signal's handler may say something, too
        self._token = trio.lowlevel.current_trio_token()
        self._changed = trio.lowlevel.ParkingLot()

    def write(self, data: bytes) -> bool:
        """Write something, now or later, or drop it. Returns false when all of this is over."""
        with self._lock:
            if self._is_over:
                return False
            if self._is_stuck:
                self._writer.send_nowait(data)
                return True
            if not (self._kept or self._is_sending):
                data = data[self._writer.send_nowait(data) :]
            if self._kept and len(self._kept) + len(data) > MOST_BYTES:
                self._dropped += 1
            elif data:
                self._kept += data
                with suppress(trio.RunFinishedError):
                    self._token.run_sync_soon(self._changed.unpark_all, idempotent=True)
        return True

    async def send(self) -> None:
        """Write what is kept whenever there is room, until cancelled."""
        try:
            while True:
                while data := self._take():
                    await self._writer.send_all(data)
                self._changed.unpark_all()
                await self._changed.park()
        except trio.BrokenResourceError:
            self._is_over = True
            self._changed.unpark_all()

    def _take(self) -> bytes:
        with self._lock:
            data = bytes(self._kept)
            self._kept.clear()
            if self._dropped:
                data += (_DROPPED % self._dropped).encode()
                self._dropped = 0
            self._is_sending = bool(data)
            return data

    async def wait_empty(self) -> None:
        """Wait until all is written, or nothing can be."""
        while (self._kept or self._is_sending) and not self._is_over:
            await self._changed.park()

    def close(self) -> bool:
        """Keep nothing any more. Returns whether all was written, or nothing can be.

        If so, what is said from now on is written as if this did not exist. Otherwise what does not
        fit is dropped for good: the process would wait forever to say its last words.
        """
        with self._lock:
            self._is_stuck = not self._is_over and bool(self._kept or self._is_sending)
            self._is_over = not self._is_stuck
            return self._is_over


class _Raw(io.RawIOBase):
    """Puts what is written into a backlog; when that is over, it writes to a descriptor."""

    def __init__(self, backlog: Backlog, fd: int) -> None:
        super().__init__()
        self._backlog = backlog
        self._fd = fd

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def write(self, data: Any) -> int:
        copy = bytes(data)
        return len(copy) if self._backlog.write(copy) else os.write(self._fd, copy)


@asynccontextmanager
async def said_without_waiting(
    stderr_fd: int = 2, stdout_fd: int | None = None
) -> AsyncIterator[None]:
    """Have Python's streams for stderr write without waiting, until the block ends.

    At the end, what is kept has a second to be written. If nothing reads it, these streams stay
    what they are.

    Args:
        stderr_fd: The descriptor.
        stdout_fd: That of stdout, if it leads to stderr.
    """
    if not _may_block(stderr_fd):
        yield
        return
    writer = open_writer(stderr_fd)
    backlog = Backlog(writer)
    with ExitStack() as undo:
        undo.callback(writer.close)
        for name, fd in (("stderr", stderr_fd), ("stdout", stdout_fd)):
            _replace(undo, name, fd, backlog)
        try:
            async with background_nursery(backlog.send):
                try:
                    yield
                finally:
                    with trio.move_on_after(LAST_MOMENT, shield=True):
                        await backlog.wait_empty()
        finally:
            if not backlog.close():
                undo.pop_all()


def _may_block(fd: int) -> bool:
    """Whether writing may wait for a reader, and can do without a thread."""
    return POLLS and is_open(fd) and kind_of(fd) in (Kind.PIPE, Kind.SOCKET)


def _replace(undo: ExitStack, name: str, fd: int | None, backlog: Backlog) -> None:
    """Put another stream in place of one of Python's, also in handlers of the log."""
    before = getattr(sys, name)
    if not isinstance(before, io.TextIOWrapper) or _fileno(before) != fd:
        return  # a test has put something else there, say
    before.flush()
    buffer = io.BufferedWriter(_Raw(backlog, before.fileno()))
    mine = io.TextIOWrapper(buffer, before.encoding, before.errors, line_buffering=True)
    setattr(sys, name, mine)
    _hand_over(before, mine)
    undo.callback(_give_back, name, mine, before)


def _give_back(name: str, mine: io.TextIOWrapper, before: io.TextIOWrapper) -> None:
    with suppress(OSError, ValueError):  # it was closed, or stderr is broken
        mine.flush()
    if getattr(sys, name) is mine:
        setattr(sys, name, before)
    _hand_over(mine, before)


def _fileno(stream: io.TextIOWrapper) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError):  # it has none, or is closed
        return None


def _hand_over(old: io.TextIOWrapper, new: io.TextIOWrapper) -> None:
    """Have the handlers of the log that use a stream use another one."""
    for handler in all_handlers():
        if isinstance(handler, logging.StreamHandler) and handler.stream is old:
            handler.setStream(new)
