"""Noticing that files change."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio
from watchfiles import Change, watch

from trio_mcp.background import background_task
from trio_mcp.cli.failures import Failure

_STEP_MS: Final = 50
"""How long nothing may change before a change is told, and how quickly the watching ends."""
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})


def is_source(path: Path) -> bool:
    """Whether something is a Python file of a person's own, by its path below the directory."""
    hidden = any(each.startswith(".") or each in _SKIPPED for each in path.parts)
    return path.suffix == ".py" and not hidden


@asynccontextmanager
async def watching(
    root: Path, is_wanted: Callable[[Path], bool] = is_source, *, recursive: bool = True
) -> AsyncIterator[trio.MemoryReceiveChannel[None]]:
    """Watch the files below a directory for the length of a block.

    Args:
        root: The directory.
        is_wanted: Says of a path below it whether changes there are told.
        recursive: Whether to watch the directories in it, too.

    Yields:
        What a change is received from; several that nobody has received yet are one.

    Raises:
        Failure: The system cannot watch so many directories.
    """
    changed, changes = trio.open_memory_channel[None](1)
    started, stop = trio.Event(), threading.Event()

    def tell() -> None:
        if not started.is_set():
            started.set()
        elif not changes.statistics().current_buffer_used:
            changed.send_nowait(None)

    # `watchfiles.awatch` would do under Trio, but for its end: it waits for a thread that a
    # cancellation does not reach, for up to five seconds.
    work = partial(_watch, root, stop, tell, is_wanted, recursive)
    async with background_task(partial(trio.to_thread.run_sync, work)):
        try:
            await started.wait()  # a change from here on is seen
            yield changes
        finally:
            stop.set()  # the thread is waited for, one step at most


def _watch(
    root: Path,
    stop: threading.Event,
    tell: Callable[[], None],
    is_wanted: Callable[[Path], bool],
    recursive: bool,
) -> None:
    root = root.resolve()

    def told(change: Change, path: str) -> bool:
        return is_wanted(Path(path).relative_to(root))

    first = True
    try:
        for found in watch(
            root,
            watch_filter=told,
            recursive=recursive,
            step=_STEP_MS,
            rust_timeout=_STEP_MS,
            yield_on_timeout=True,  # which tells that it has begun
            stop_event=stop,
            raise_interrupt=False,
            ignore_permission_denied=True,
        ):
            if found or first:
                trio.from_thread.run_sync(tell)
            first = False
    except OSError as error:
        raise Failure(f"{root} cannot be watched: {error}") from None
