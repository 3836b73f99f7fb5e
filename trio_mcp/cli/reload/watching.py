"""Noticing that Python files change, by looking at them now and then.

The files nearest to the root are looked at first, and no more than a couple of thousand: a server
that lies in a home directory must not keep a disk busy.
"""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import Final

import trio

INTERVAL: Final = 0.25
"""Seconds between two looks."""

_MOST_FILES: Final = 2000
_MOST_DIRECTORIES: Final = 500
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})

Snapshot = dict[str, tuple[int, int]]


async def changed(root: Path, seen: Snapshot) -> Snapshot:
    """Wait until a file below a directory differs from what was seen; return what is there now."""
    while True:
        await trio.sleep(INTERVAL)
        now = await trio.to_thread.run_sync(look, root)
        if now != seen:
            return now


def look(root: Path) -> Snapshot:
    """Look at the Python files below a directory: when each was changed, and its size."""
    files: Snapshot = {}
    waiting = deque([str(root)])
    for _ in range(_MOST_DIRECTORIES):
        if not waiting or len(files) >= _MOST_FILES:
            break
        _look_at(waiting.popleft(), files, waiting)
    return files


def _look_at(directory: str, files: Snapshot, waiting: deque[str]) -> None:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError:  # it has gone, or is not for us to read
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                if not _is_skipped(entry):
                    waiting.append(entry.path)
            elif entry.name.endswith(".py"):
                status = entry.stat()
                files[entry.path] = status.st_mtime_ns, status.st_size
        except OSError:  # an editor has just replaced it: the next look will see it
            continue


def _is_skipped(entry: os.DirEntry[str]) -> bool:
    hidden = entry.name.startswith(".") or entry.name in _SKIPPED
    return hidden or os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))
