"""A process that shares a store with others: `process.py PATH CLOCK TASK [ARGUMENT]`.

The store's time is in the file CLOCK, so that whoever starts several of these moves it for all.
What is done is told on stdout, a line for each.
"""

from __future__ import annotations

import mmap
import struct
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import trio

from tests.store.leases import lease
from trio_mcp.store import sqlite
from trio_mcp.store.changes import Add, Append, Conflict, Delete, News, Put
from trio_mcp.store.protocol import Store
from trio_mcp.store.sqlite import SQLiteStore

LEASE = 60


class SharedTime:
    """The time in a file, which all processes see at once."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)

    def __call__(self) -> float:
        (now,) = struct.unpack("d", self._map)
        return float(now)

    def passes(self, seconds: float) -> None:
        self._map[:] = struct.pack("d", self() + seconds)


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def add(store: Store, times: str) -> None:
    """Add one to a number again and again, from several tasks."""

    async def some() -> None:
        for _ in range(int(times) // 4):
            await store.commit(Add("a:n", ttl=99))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(some)


async def write(store: Store, name: str) -> None:
    """Write pairs of entries for ever, and tell which were acknowledged."""
    number = 0
    while True:
        value = b"%d" % number
        await store.commit(
            Put(f"a:{name}/{number}/left", value * 100, ttl=9999),
            Append(f"a:{name}", value, ttl=9999, limit=100_000),
            Put(f"a:{name}/{number}/right", value * 100, ttl=9999),
        )
        tell(str(number))
        number += 1


async def listen(store: Store, channel: str) -> None:
    """Tell what news there is of a channel."""
    async with store.watch(channel, "a:other") as news:
        tell("listening")
        while True:
            for each in sorted(await news.wait()):
                tell(each)


async def hold(store: Store, key: str) -> None:
    """Hold a lease for ever, or tell that somebody else has it."""
    try:
        async with lease(store, key, LEASE) as held:
            tell(f"held {held.expect}")
            await trio.sleep_forever()
    except Conflict:
        tell("taken")


async def work(store: Store, count: str) -> None:
    """Do jobs from a queue: each one adds to its own number, and to that of all."""

    async def one() -> None:
        async with store.watch("jobs:queue") as news:
            while True:
                claimed = await store.claim("jobs:queue", LEASE)
                if not claimed.entries:
                    await news.wait()
                for job in claimed.entries:
                    name = job.key.rpartition("/")[2]
                    done = (
                        Delete(job.key, expect=job.version),
                        Add(f"jobs:done/{name}", ttl=9999),
                        Add("jobs:all", ttl=9999),
                        News("jobs:all"),
                    )
                    try:
                        await store.commit(*done)
                    except Conflict:
                        tell(f"lost {name}")

    tell("working")
    async with trio.open_nursery() as nursery:
        for _ in range(int(count)):
            nursery.start_soon(one)


TASKS: dict[str, Callable[[Store, str], Awaitable[None]]] = {
    "add": add,
    "write": write,
    "listen": listen,
    "hold": hold,
    "work": work,
}


async def main(path: str, clock: str, task: str, argument: str = "", latest: str = "inf") -> None:
    sqlite.LATEST_NEWS = float(latest)  # type: ignore[misc]
    async with SQLiteStore(path, clock=SharedTime(Path(clock)), timeout=30).open() as store:
        await TASKS[task](store, argument)


if __name__ == "__main__":
    trio.run(partial(main, *sys.argv[1:]))
