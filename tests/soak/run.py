"""Call servers for a long time, and see whether they or their clients grow.

    python -m tests.soak.run --time 600 --record docs/measured/soak.json
    python -m tests.soak.run --calls 10000000

First comes a server on stdio, with one client; then one over HTTP, whose clients come and go. Among
the calls are some that are cancelled, and subscriptions that begin and end.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from argparse import ArgumentParser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count, cycle
from pathlib import Path
from typing import Any, Final

import psutil
import trio
from attrs import define, field, frozen

from benchmarks.records import provenance, write
from benchmarks.tables import table
from tests.soak import raw
from tests.soak.picture import draw
from tests.soak.seen import CALLERS, Seen
from tests.support.processes import ROOT
from trio_mcp import Client, connect

SAMPLES: Final = 60
"""In a run, however long it is."""
_LOOK_AGAIN: Final = 0.02
COMMAND: Final = [sys.executable, "-m", "tests.soak.server"]


@frozen
class Goal:
    """When a run is over: after so many calls, or so many seconds."""

    calls: float = float("inf")
    seconds: float = float("inf")

    def share(self, calls: int, seconds: float) -> float:
        """How much of a run is over, where 1 is all of it."""
        return max(calls / self.calls, seconds / self.seconds)


@define
class Soak:
    """What was done in a run, and what was seen."""

    name: str
    calls: int = 0
    cancelled: int = 0
    subscriptions: int = 0
    connections: int = 0
    server: Seen = field(init=False)
    client: Seen = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.server, self.client = Seen(f"{self.name}, server"), Seen(f"{self.name}, client")

    def add_one(self) -> None:
        """Count a prepared call."""
        self.calls += 1


async def use(client: Client, soak: Soak, rounds: int) -> None:
    """Do what clients do, for some rounds of fifty calls."""
    for _ in range(rounds):
        async with client.subscribe(resources=["soak://it"]):
            soak.subscriptions += 1
            for _ in range(48):
                assert await client.call_tool("echo", {"text": "soak"}, returns=str) == "soak"
            await client.call_tool("tell")
        with trio.move_on_after(0.01):
            await client.call_tool("sleep")
        soak.cancelled += 1
        soak.calls += 50


async def use_for_ever(client: Client, soak: Soak) -> None:
    """Be one of the callers of a connection."""
    while True:
        await use(client, soak, 1)


async def come_and_go(url: str, revision: str, soak: Soak) -> None:
    """Connect, call, leave and begin again."""
    while True:
        async with connect(url, revision=revision) as client:
            soak.connections += 1
            await use(client, soak, 4)


async def call_raw(port: int, soak: Soak) -> None:
    """Call on a connection that lasts, without the work of a client."""
    soak.connections += 1
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        for id in count():
            await raw.echo(stream, id)
            soak.add_one()


async def sample(soak: Soak, process: psutil.Process, client: Client, goal: Goal) -> None:
    """Look at the server and at this process until the goal is reached."""
    start, ourselves = trio.current_time(), psutil.Process()
    for number in range(SAMPLES):
        while goal.share(soak.calls, trio.current_time() - start) < (number + 1) / SAMPLES:
            await trio.sleep(_LOOK_AGAIN)
        theirs = await client.call_tool("holdings", returns=dict[str, int])
        tasks = trio.lowlevel.current_statistics().tasks_living
        ours = {"tasks": tasks, "threads": threading.active_count()}
        for seen, of, held in ((soak.server, process, theirs), (soak.client, ourselves, ours)):
            rest = {"descriptors": of.num_fds(), **held}
            seen.add(soak.calls, of.memory_info().rss, rest)


async def over_stdio(goal: Goal) -> Soak:
    """Soak a server on stdio, with a client and prepared calls on one connection."""
    soak = Soak("stdio", connections=1)
    async with started("stdio") as process:
        stream = raw.Shared(process, soak.add_one)
        async with connect(stream) as client, trio.open_nursery() as nursery:
            await stream.start()
            for _ in range(CALLERS):
                nursery.start_soon(use_for_ever, client, soak)
            await sample(soak, psutil.Process(process.pid), client, goal)
            nursery.cancel_scope.cancel()
    return soak


@asynccontextmanager
async def started(*arguments: str) -> AsyncIterator[trio.Process]:
    """Run the server."""
    command = [*COMMAND, *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = await trio.lowlevel.open_process(command, cwd=ROOT, **pipes)
    try:
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


async def over_http(goal: Goal) -> Soak:
    """Soak a server over HTTP: clients come and go, with sessions and without; others stay."""
    soak = Soak("HTTP")
    revisions = cycle(["2025-11-25", "2026-07-28"])
    async with started("http") as process, trio.open_nursery() as nursery:
        assert process.stdout is not None
        port = int(await process.stdout.receive_some())
        url = f"http://127.0.0.1:{port}/mcp"
        for _ in range(CALLERS // 2):
            nursery.start_soon(come_and_go, url, next(revisions), soak)
            nursery.start_soon(call_raw, port, soak)
        async with connect(url) as client:
            await sample(soak, psutil.Process(process.pid), client, goal)
        nursery.cancel_scope.cancel()
    return soak


# -- how it is shown -----------------------------------------------------------------------------

_DONE: Final = ("server", "calls", "cancelled", "subscriptions", "connections")
_HELD: Final = ("descriptors", "threads", "tasks")
_SEEN: Final = ("process", "memory, MiB", "growth, KiB", *_HELD, "flat")


def row_of(soak: Soak) -> list[str]:
    """Write what was done as a row of a table."""
    counts = (soak.calls, soak.cancelled, soak.subscriptions, soak.connections)
    return [soak.name, *(f"{each:,}" for each in counts)]


def row_of_seen(seen: Seen) -> list[str]:
    """Write what was seen as a row of a table."""
    held = ["{} → {}".format(*seen.range_of(each)) for each in _HELD]
    memory = [f"{seen.memory[-1] / 2**20:.1f}", f"{seen.growth / 1024:+.0f}"]
    return [seen.name, *memory, *held, "yes" if seen.is_flat else "no"]


def record_of(found: list[Soak]) -> dict[str, Any]:
    """Return the record as JSON values."""
    seen = [each for soak in found for each in (soak.server, soak.client)]
    return {
        "made": provenance(),
        "counted": {"headers": list(_DONE), "rows": [row_of(each) for each in found]},
        "seen": {"headers": list(_SEEN), "rows": [row_of_seen(each) for each in seen]},
        "memory": [{"name": x.name, "calls": x.calls, "bytes": x.memory} for x in seen],
    }


async def _run(stdio: Goal, http: Goal) -> list[Soak]:
    return [await over_stdio(stdio), await over_http(http)]


def main() -> None:
    """Soak both servers."""
    parser = ArgumentParser(prog="python -m tests.soak.run")
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument("--time", type=float, default=600.0, help="seconds for both of them")
    ends.add_argument("--calls", type=int, help="calls on stdio, and a tenth of them over HTTP")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep the figures there")
    options = parser.parse_args()
    goals = [Goal(seconds=options.time / 2)] * 2
    if options.calls:
        goals = [Goal(calls=options.calls), Goal(calls=options.calls / 10)]
    found = trio.run(_run, *goals)
    record = record_of(found)
    for each in ("counted", "seen"):
        print(table(record[each]["headers"], record[each]["rows"]), end="\n\n")
    if options.record:
        write(options.record, record)
        draw(options.record)
    sys.exit(not all(each.server.is_flat and each.client.is_flat for each in found))


if __name__ == "__main__":
    main()
