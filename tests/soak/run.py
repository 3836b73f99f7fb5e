"""Call servers for a long time, and see whether they grow.

    python -m tests.soak.run --time 600 --record docs/measured/soak.json

Half of the time goes to a server on stdio, with one client; the other half to one over HTTP, whose
clients come and go. Among the calls are some that are cancelled, and subscriptions that begin and end.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import cycle
from pathlib import Path
from statistics import linear_regression, median
from typing import Any, Final

import psutil
import trio
from attrs import define, field

from benchmarks.records import provenance, write
from benchmarks.tables import table
from tests.support.processes import ROOT
from trio_mcp import Client, connect
from trio_mcp.transports.process import ProcessOptions

SAMPLES: Final = 60
"""In a run, however long it is."""
WARM_UP: Final = 1 / 3
"""Of a run, before which a process may grow."""
MOST_GROWTH: Final = 1024 * 1024
"""Bytes by which memory may grow from the end of the warm-up to the end: pages come in lumps."""
CALLERS: Final = 16
MOST_MORE: Final = 2 * CALLERS
"""Descriptors, threads or tasks by which two thirds may differ: calls come and go."""
COMMAND: Final = [sys.executable, "-m", "tests.soak.server"]

Connecting = Callable[[], AbstractAsyncContextManager[Client]]


@define
class Soak:
    """What was seen in a run."""

    name: str
    calls: int = 0
    cancelled: int = 0
    subscriptions: int = 0
    connections: int = 0
    seconds: list[float] = field(factory=list)
    memory: list[int] = field(factory=list)
    held: list[dict[str, int]] = field(factory=list)
    """Descriptors, threads and tasks."""

    @property
    def growth(self) -> float:
        """Bytes by which memory grew after the warm-up, by the line through the samples."""
        first = int(len(self.memory) * WARM_UP)
        times, memory = self.seconds[first:], self.memory[first:]
        return linear_regression(times, memory).slope * (times[-1] - times[0])

    def range_of(self, what: str) -> tuple[int, int]:
        """Medians of the first and of the last third after the warm-up."""
        values = [each[what] for each in self.held[int(len(self.held) * WARM_UP) :]]
        third = max(1, len(values) // 3)
        return int(median(values[:third])), int(median(values[-third:]))

    @property
    def is_flat(self) -> bool:
        """Whether nothing has grown."""
        grown = [last - first for first, last in map(self.range_of, self.held[0])]
        return self.growth <= MOST_GROWTH and max(grown) <= MOST_MORE


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


async def call(connecting: Connecting, soak: Soak) -> None:
    """Connect, call, leave and begin again."""
    while True:
        async with connecting() as client:
            soak.connections += 1
            await use(client, soak, 4)


async def sample(soak: Soak, process: psutil.Process, client: Client, seconds: float) -> None:
    """Look at the server until the time is over."""
    start = trio.current_time()
    for number in range(SAMPLES):
        await trio.sleep_until(start + seconds * (number + 1) / SAMPLES)
        held = await client.call_tool("holdings", returns=dict[str, int])
        soak.seconds.append(round(trio.current_time() - start, 3))
        soak.memory.append(process.memory_info().rss)
        soak.held.append({"descriptors": process.num_fds(), **held})


async def over_stdio(seconds: float) -> Soak:
    """Soak a server on stdio."""
    soak = Soak("stdio", connections=1)
    options = ProcessOptions(cwd=ROOT)
    async with connect([*COMMAND, "stdio"], process_options=options) as client:

        async def go_on() -> None:
            while True:
                await use(client, soak, 1)

        server = psutil.Process().children()[-1]
        async with trio.open_nursery() as nursery:
            for _ in range(CALLERS):
                nursery.start_soon(go_on)
            await sample(soak, server, client, seconds)
            nursery.cancel_scope.cancel()
    return soak


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[psutil.Process, str]]:
    """Run a server over HTTP."""
    process = await trio.lowlevel.open_process([*COMMAND, "http"], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        port = int(await process.stdout.receive_some())
        yield psutil.Process(process.pid), f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


async def over_http(seconds: float) -> Soak:
    """Soak a server over HTTP, whose clients come and go: with sessions, and without."""
    soak = Soak("HTTP")
    revisions = cycle(["2025-11-25", "2026-07-28"])
    async with serving() as (server, url), connect(url) as client, trio.open_nursery() as nursery:
        for _ in range(CALLERS):
            nursery.start_soon(call, lambda: connect(url, revision=next(revisions)), soak)
        await sample(soak, server, client, seconds)
        nursery.cancel_scope.cancel()
    return soak


# -- how it is shown -----------------------------------------------------------------------------

_TITLES: Final = (
    *("server", "calls", "cancelled", "subscriptions", "connections", "memory, MiB"),
    *("growth, KiB", "descriptors", "threads", "tasks", "flat"),
)


def row_of(soak: Soak) -> list[str]:
    """Write a run as a row of the table."""
    counts = (soak.calls, soak.cancelled, soak.subscriptions, soak.connections)
    held = ["{} → {}".format(*soak.range_of(each)) for each in ("descriptors", "threads", "tasks")]
    memory = [f"{soak.memory[-1] / 2**20:.1f}", f"{soak.growth / 1024:+.0f}"]
    flat = "yes" if soak.is_flat else "no"
    return [soak.name, *(f"{each:,}" for each in counts), *memory, *held, flat]


async def _run(seconds: float) -> list[Soak]:
    return [await over_stdio(seconds / 2), await over_http(seconds / 2)]


def main() -> None:
    """Soak both servers."""
    parser = ArgumentParser(prog="python -m tests.soak.run")
    parser.add_argument("--time", type=float, default=600.0, help="seconds for both of them")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep the figures there")
    options = parser.parse_args()
    found = trio.run(_run, options.time)
    rows = [row_of(each) for each in found]
    print(table(_TITLES, rows))
    if options.record:
        counted: dict[str, Any] = {"headers": list(_TITLES), "rows": rows}
        write(options.record, {"made": provenance(), "seconds": options.time, "counted": counted})
    sys.exit(not all(each.is_flat for each in found))


if __name__ == "__main__":
    main()
