"""Noticing that files change, and not too often: a server may write its own source."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from pathlib import Path
from typing import Final

import trio
from attrs import define, field
from watchfiles import watch

from trio_mcp.background import background_nursery
from trio_mcp.backoff import backoff
from trio_mcp.cli.failures import Failure
from trio_mcp.loggers import logger_of

_STEP_MS: Final = 50
"""How long changes are collected, and how quickly the watching ends."""
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})


def _is_source(path: Path) -> bool:
    hidden = any(part.startswith(".") or part in _SKIPPED for part in path.parts)
    return path.suffix == ".py" and not hidden


@asynccontextmanager
async def watching(
    root: Path, is_wanted: Callable[[Path], bool] = _is_source, *, recursive: bool = True
) -> AsyncIterator[trio.MemoryReceiveChannel[str]]:
    """Watch the files below a directory, or only those right in it, for the length of a block.

    Yields:
        A channel that receives the name of a file once for all changes since the last time. A file
        that is written again with the same content has not changed.
    """
    changed, changes = trio.open_memory_channel[str](1)
    started, stop = trio.Event(), threading.Event()
    contents: dict[str, bytes | None] = {}

    def is_other(path: str) -> bool:
        before, contents[path] = contents.get(path, b""), _digest(path)
        return contents[path] != before

    def tell(names: list[str]) -> None:
        started.set()
        if names and not changes.statistics().current_buffer_used:
            changed.send_nowait(names[0])

    def work() -> None:
        first, folder = True, root.resolve()
        try:
            for found in watch(
                folder,
                watch_filter=lambda _, path: is_wanted(Path(path).relative_to(folder)),
                recursive=recursive,
                step=_STEP_MS,
                rust_timeout=_STEP_MS,
                yield_on_timeout=True,  # which tells that it has begun
                stop_event=stop,
                raise_interrupt=False,
                ignore_permission_denied=True,
            ):
                names = [Path(path).name for path in {path for _, path in found} if is_other(path)]
                if names or first:
                    trio.from_thread.run_sync(tell, names)
                first = False
        except OSError as error:
            raise Failure(f"{folder} cannot be watched: {error}") from None

    # `watchfiles.awatch` would do under Trio, but for its end: it waits for a thread that a
    # cancellation does not reach, for up to five seconds.
    async with background_nursery(partial(trio.to_thread.run_sync, work)):
        try:
            await started.wait()  # a change from here on is seen
            yield changes
        finally:
            stop.set()  # the thread is waited for, one step at most


def _digest(path: str) -> bytes | None:
    try:
        return hashlib.sha256(Path(path).read_bytes()).digest()
    except OSError:  # it is gone, or not to be read
        return None


logger = logger_of("trio_mcp.reload")

_SOON: Final = 2.0
"""A change within so many seconds after the last one may be the work of the server itself."""
_FREE: Final = 3
"""So many such changes in a row are passed on at once."""
_FIRST_DELAY: Final = 1.0
_LONGEST_DELAY: Final = 10.0


@define(eq=False)
class PacedChanges(trio.abc.ReceiveChannel[str]):
    """Passes names of changed files on, at longer and longer intervals while there is no end."""

    _changes: trio.abc.ReceiveChannel[str]
    _held: str | None = field(default=None, init=False)
    """Received, and not passed on yet."""
    _in_a_row: int = field(default=0, init=False)
    _last: float = field(default=-inf, init=False)

    async def receive(self) -> str:
        """Wait for a change. Cancelled, none is lost."""
        if self._held is None:
            self._held = await self._changes.receive()
            is_soon = trio.current_time() < self._last + _SOON
            self._in_a_row = self._in_a_row + 1 if is_soon else 0
        if self._in_a_row > _FREE:
            delay = backoff(self._in_a_row - _FREE, _FIRST_DELAY, _LONGEST_DELAY)
            why = "does the server write it, or what it is made of, itself?"
            logger.warning("%s changes again and again (%s); in %.1f s:", self._held, why, delay)
            await trio.sleep(delay)
        name, self._held = self._held, None
        self._last = trio.current_time()
        return name

    async def aclose(self) -> None:
        await self._changes.aclose()
