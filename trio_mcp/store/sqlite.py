"""A store in a file, which all processes of a machine share.

The standard library's SQLite runs in worker threads, through two connections: one writes, one
reads. In WAL mode (write-ahead log) readers and a writer do not wait for each other, and what was
not committed when a process died has no effect.

Every commit is flushed to the disk before it is acknowledged (`synchronous=FULL`): the file would
stay consistent without, but acknowledged commits might be lost with the power. The flush is what
a commit costs, so all that are waiting share one (`WorkerThread`).

Writers of several processes take turns. SQLite waits for the lock, in the thread, with pauses of
some milliseconds.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Final, TypeVar

import trio

from trio_mcp.background import background_nursery
from trio_mcp.store.changes import Change, News, check_channels, size_of
from trio_mcp.store.errors import StoreError, StoreFull, StoreUnavailable, StoreUnusable
from trio_mcp.store.sqlite_tables import SQLiteTables, prepare
from trio_mcp.store.tables import TablesStore, Work
from trio_mcp.store.wakeup import Wakeup, wake
from trio_mcp.store.watching import Watch, Watches
from trio_mcp.store.worker_thread import Job, WorkerThread
from trio_mcp.system import flags

LATEST_NEWS: Final = 1.0
"""Seconds that news is late at most, if its process died before it could wake the others."""

_PAUSE: Final = 10
"""Milliseconds for which SQLite waits for the lock before we ask again.

It pauses longer and longer, up to 100 ms, so on a busy file it would hardly ever get the lock. When
asked again, it begins with 1 ms.
"""

_LOG_BYTES: Final = 64 * 1024 * 1024
"""To how many bytes the write-ahead log is cut after it was longer."""

_FAILURES: Final[dict[int, tuple[type[StoreError], str]]] = {
    sqlite3.SQLITE_BUSY: (StoreUnavailable, "another process keeps it locked"),
    sqlite3.SQLITE_IOERR: (StoreUnavailable, "the disk fails, or is full"),
    sqlite3.SQLITE_FULL: (StoreFull, "the disk is full, or max_bytes are used"),
    sqlite3.SQLITE_CORRUPT: (StoreUnusable, "it is damaged: restore it, or move it away"),
    sqlite3.SQLITE_NOTADB: (StoreUnusable, "it is not a SQLite database, or is damaged"),
    sqlite3.SQLITE_READONLY: (StoreUnusable, "it cannot be written to"),
    sqlite3.SQLITE_CANTOPEN: (StoreUnusable, "it cannot be opened"),
}

_GONE: Final = "it was moved or deleted while it was open; open it again"

T = TypeVar("T")


class SQLiteStore(TablesStore):
    """A store in a SQLite database, which has a task for each connection (`open_store`).

    Args:
        path: The file, which is created for this user only. It must not be on a network drive.
        max_bytes: What it may grow to; None for the whole disk.
        timeout: Seconds to wait while another process keeps it locked.
        clock: Tells the time, in seconds, the same in all processes. If it is set forward,
            everything expires that much sooner, and leases end early.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int | None = None,
        timeout: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = Path(os.path.abspath(path))
        self._max_bytes = inf if max_bytes is None else max_bytes
        self._timeout = timeout
        self._clock = clock
        self._writes = WorkerThread(partial(self._do, self._write_all), finish=True)
        self._reads = WorkerThread(partial(self._do, self._read_all), finish=False)
        self._watches = Watches()
        self._name = secrets.token_hex(8)
        self._wakeup: Wakeup | None = None
        self._listening = trio.Lock()
        self._dead: list[str] = []  # listeners that are registered, but did not answer

    # -- opening ------------------------------------------------------------------------------

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SQLiteStore]:
        """Keep the store open while the block lasts. Writes that have begun are finished.

        Raises:
            StoreUnusable: The file cannot be used.
            StoreUnavailable: It was locked for too long, or the disk fails.
        """
        thread = trio.CapacityLimiter(1)
        await trio.to_thread.run_sync(self._connect, limiter=thread)
        try:
            async with background_nursery() as self._nursery:
                self._nursery.start_soon(self._writes.run)
                self._nursery.start_soon(self._reads.run)
                yield self
        finally:
            with trio.CancelScope(shield=True):  # the last one to close writes the log back
                await trio.to_thread.run_sync(self._disconnect, limiter=thread)

    def _connect(self) -> None:
        with self._failures():
            self._inode = self._make_file()
            self._writer = self._connection()
            self._reader = self._connection()
            try:
                self._set_up()
            except BaseException:
                self._disconnect()
                raise

    def _make_file(self) -> tuple[int, int]:
        # Created with mode 0600, it is private; SQLite gives its other files the same mode.
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | flags.NONBLOCK, 0o600)
        try:
            found = os.fstat(fd)
        finally:
            os.close(fd)
        if not stat.S_ISREG(found.st_mode):
            raise StoreUnusable("it is not a regular file")
        return found.st_dev, found.st_ino

    def _connection(self) -> sqlite3.Connection:
        # Each connection is used by one thread at a time, but not always by the same one.
        return sqlite3.connect(
            self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )

    def _set_up(self) -> None:
        execute = self._writer.execute
        self._lock()
        with self._writer:
            prepare(self._writer)
        execute("PRAGMA journal_mode = WAL")  # of the file, for all who open it from now on
        execute("PRAGMA synchronous = FULL")
        execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
        if self._max_bytes < inf:
            (size,) = execute("PRAGMA page_size").fetchone()
            execute(f"PRAGMA max_page_count = {max(1, self._max_bytes // size)}")
        execute(f"PRAGMA busy_timeout = {_PAUSE}")
        self.write_tables = SQLiteTables(self._writer)
        self._read_tables = SQLiteTables(self._reader)

    def _disconnect(self) -> None:
        if self._wakeup is not None:
            self._wakeup.close()
            with suppress(sqlite3.Error):  # otherwise others find out
                self.write_tables.forget([self._name])
        self._reader.close()
        self._writer.close()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, StoreError) as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> StoreError:
        kind: type[StoreError] = StoreUnavailable
        reason = str(error)
        if isinstance(error, sqlite3.Error):
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the extended code
            kind, reason = _FAILURES.get(code, (kind, reason))
        elif isinstance(error, OSError):
            kind, reason = StoreUnusable, f"it cannot be opened ({error.strerror})"
        elif isinstance(error, StoreError):
            kind = type(error)
        return kind(f"the store {self._path} cannot be used: {reason}")

    # -- in the threads -----------------------------------------------------------------------

    def _do(self, transact: Callable[[list[Job]], None], jobs: list[Job]) -> None:
        """Run jobs in one transaction, or each in its own if that fails."""
        try:
            transact(jobs)
            if not self._in_place():
                raise StoreUnavailable(_GONE)
        except (sqlite3.Error, StoreError) as error:
            self.write_tables.undo()
            reason = error if self._in_place() else StoreUnavailable(_GONE)
            alone = len(jobs) == 1 or isinstance(self._failure(reason), StoreUnavailable)
            for job in jobs:
                if alone:
                    job.outcome = self._failure(reason)
                else:
                    self._do(transact, [job])

    def _read_all(self, jobs: list[Job]) -> None:
        self._reader.execute("BEGIN")
        with self._reader:
            now = self._clock()
            for job in jobs:
                job.run(self._read_tables, now, passed_on=sqlite3.Error)

    def _write_all(self, jobs: list[Job]) -> None:
        tables = self.write_tables
        self._lock()
        with self._writer:
            now = self._clock()  # which may be much later than when the jobs were submitted
            tables.begin()
            tables.forget(self._dead)
            tables.sweep(now, len(jobs))
            for job in jobs:
                job.run(tables, now, passed_on=sqlite3.Error)
            done = (job for job in jobs if not isinstance(job.outcome, Exception))
            channels = {channel: None for job in done for channel in job.channels}
            listeners = tables.publish(channels, self._name) if channels else []
            tables.end()
        self._dead = [name for name in listeners if not wake(self._pipe_of(name))]

    def _lock(self) -> None:
        ends = time.monotonic() + self._timeout
        while True:
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > ends:
                    raise

    def _in_place(self) -> bool:
        """Whether the path still leads to our file: what SQLite writes to a deleted one is lost."""
        with suppress(OSError):
            found = os.stat(self._path)
            return (found.st_dev, found.st_ino) == self._inode
        return False

    # -- in Trio ------------------------------------------------------------------------------

    async def _read(self, work: Work[T]) -> T:
        return await self._reads.submit(work)

    async def _write(self, work: Work[T], changes: Sequence[Change] = ()) -> T:
        channels = tuple(change.key for change in changes if isinstance(change, News))
        result = await self._writes.submit(work, channels, size_of(changes))
        self._watches.notify(channels)
        return result

    @asynccontextmanager
    async def watch(self, *channels: str) -> AsyncIterator[Watch]:
        with self._watches.open(check_channels(channels)) as watch:
            await self._listen()
            yield watch

    async def _listen(self) -> None:
        """Make other processes wake this one, if they do not already."""
        async with self._listening:
            if self._wakeup is not None:
                return
            with self._failures():
                wakeup = Wakeup(
                    self._pipe_of(self._name), stat.S_IMODE(os.stat(self._path).st_mode)
                )
            try:
                last = await self._writes.submit(lambda _, __: self.write_tables.listen(self._name))
            except BaseException:
                wakeup.close()
                raise
            self._wakeup = wakeup
            self._nursery.start_soon(self._hear, wakeup, last)

    def _pipe_of(self, name: str) -> str:
        return f"{self._path}-news-{name}"

    async def _hear(self, wakeup: Wakeup, last: int) -> None:
        """Pass on news of other processes, until cancelled."""
        while True:
            with trio.move_on_after(LATEST_NEWS):
                await wakeup.wait()
            try:
                last, channels = await self._reads.submit(partial(self._news_after, last))
            except StoreError:
                channels = None  # those who look will get the error themselves
            if channels is None:
                self._watches.notify_all()
            else:
                self._watches.notify(channels)

    def _news_after(self, last: int, _: object, __: float) -> tuple[int, set[str] | None]:
        return self._read_tables.news(last, self._name)
