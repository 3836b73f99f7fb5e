"""Noticing that files change."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio
from watchfiles import watch

from trio_mcp.background import background_task
from trio_mcp.cli.failures import Failure

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
    async with background_task(partial(trio.to_thread.run_sync, work)):
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
