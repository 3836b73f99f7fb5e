"""A process that runs what is due: `working.py STORE FOLDER`. It can be killed at any time."""

from __future__ import annotations

import fcntl
import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from trio_mcp import Registry, connect
from trio_mcp.extensions.tasks import TaskOptions, Tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

LEASE = 5.0


class Guard:
    """Sees to it that nothing is done by two at once: a byte of a file for each, which is locked.

    The system unlocks what a process has locked when that ends, however it does.
    """

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "locks", os.O_RDWR | os.O_CREAT)
        self._twice = folder / "twice"
        self._here: set[int] = set()

    @contextmanager
    def only(self, number: int) -> Iterator[None]:
        """Do it, and note if another one does."""
        try:
            if number in self._here:
                raise BlockingIOError
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except OSError:
            with self._twice.open("a") as twice:
                twice.write(f"{number} {os.getpid()}\n")
            raise
        self._here.add(number)
        try:
            yield
        finally:
            self._here.discard(number)
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, number)


def make(store: str, folder: Path, **options: Any) -> Registry:
    """Make the registry that all processes serve."""
    guard = Guard(folder)
    registry = Registry("soak", extensions=[Tasks(store=store, lease=LEASE, **options)])

    @registry.tool(task=TaskOptions(on_restart="run again"))
    async def work(number: int) -> str:
        """Work for a moment."""
        with guard.only(number):
            await trio.sleep(random.random() / 50)
        return f"did {number}"

    return registry


@asynccontextmanager
async def working(registry: Registry, *extensions: Any) -> AsyncIterator[Any]:
    """Serve a registry to a client in the block."""
    async with connect(registry, extensions=extensions) as client:
        yield client


async def main(store: str, folder: str) -> None:
    """Work until killed."""
    async with working(make(store, Path(folder), max_running=50)):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(partial(main, *sys.argv[1:]))
