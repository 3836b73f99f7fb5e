"""Servers to torture a client with, in this process or in one of their own."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from trio.testing import memory_stream_pair

from tests.client.programs.torture import Torture
from trio_mcp import Client, Registry, connect, serve_stream
from trio_mcp.transports.process import ProcessOptions

PROGRAM = Path(__file__).parent / "programs" / "torture.py"
IMPATIENT: dict[str, Any] = {"close_timeout": 0.3, "terminate_timeout": 0.3}
TIME_LIMIT = 120  # seconds, for what must not hang


def command(switch: str = "dual", *more: str) -> list[str]:
    """The command that runs a torture server."""
    return [sys.executable, "-I", "-S", str(PROGRAM), switch, *more]


@asynccontextmanager
async def process(switch: str = "dual", **options: Any) -> AsyncIterator[Client]:
    """A client of a torture server in a process of its own; hanging fails."""
    options = {"process_options": ProcessOptions(**IMPATIENT), **options}
    with trio.fail_after(TIME_LIMIT):
        async with connect(command(switch), **options) as client:
            yield client


@asynccontextmanager
async def beside(task: Callable[[trio.abc.Stream], Any]) -> AsyncIterator[trio.abc.Stream]:
    """The other end of a stream that a task in the background has."""
    ours, theirs = memory_stream_pair()
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(task, theirs)
        try:
            yield ours
        except BaseException as error:  # raised again below, outside of any exception group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


def line_of(message: Any) -> bytes:
    """A message as it travels."""
    return json.dumps(message).encode() + b"\n"


@asynccontextmanager
async def tortured(switch: str = "dual", **options: Any) -> AsyncIterator[tuple[Client, Torture]]:
    """A client of a torture server in this process."""
    torture = Torture(switch)

    async def serve(stream: trio.abc.Stream) -> None:
        torture.stream = stream
        buffer = b""
        try:
            async for chunk in stream:
                *lines, buffer = (buffer + chunk).split(b"\n")
                replies = [each for line in lines for each in torture.receive(json.loads(line))]
                if replies:
                    await stream.send_all(b"".join(map(line_of, replies)))
        except trio.ClosedResourceError:  # a test closed one direction, and wants the other one
            await trio.sleep_forever()
        await stream.aclose()

    async with beside(serve) as stream:
        async with connect(stream, **options) as client:
            yield client, torture


@asynccontextmanager
async def served(registry: Registry, **options: Any) -> AsyncIterator[Client]:
    """A client of a registry that is served over a stream in memory."""

    async def serve(stream: trio.abc.Stream) -> None:
        await serve_stream(registry, stream)

    async with beside(serve) as stream:
        async with connect(stream, **options) as client:
            yield client


# -- what is left behind --------------------------------------------------------------------------


def processes() -> dict[int, tuple[str, int, int]]:
    """State, parent and session of every process by its id."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it is gone by now
                continue
            found[int(entry.name)] = (after_name[0], int(after_name[1]), int(after_name[3]))
    return found


def children() -> list[int]:
    """Our own processes, those that are dead but not reaped among them."""
    return [pid for pid, (_, parent, _) in processes().items() if parent == os.getpid()]


def alive(pid: int) -> bool:
    """Whether a process runs (a dead one that nobody reaped does not)."""
    state = processes().get(pid, ("X", 0, 0))[0]
    return state not in "XZ"


def members(session: int) -> list[int]:
    """The processes of a session that run."""
    return [
        pid for pid, (state, _, sid) in processes().items() if sid == session and state not in "XZ"
    ]


def marked(mark: str) -> list[int]:
    """The processes that run with this value in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:  # it is gone by now
            continue
    return sorted(found)


def holdings() -> dict[str, Any]:
    """What this process holds: descriptors, threads and children."""
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "children": children(),
    }


def left_since(before: dict[str, Any]) -> dict[str, Any]:
    """What this process holds more than before; empty if that is nothing."""
    now = holdings()
    more = {
        "descriptors": now["descriptors"] - before["descriptors"],
        "threads": max(0, now["threads"] - before["threads"]),  # Trio ends idle ones by and by
        "children": sorted(set(now["children"]) - set(before["children"])),
    }
    return {name: value for name, value in more.items() if value}
