"""Tasks, and the end of what runs them: nothing else happens, in these processes or their store.

So whatever takes a task over has to notice by itself. What is here is a table in docs/faults.md.
"""

from __future__ import annotations

import re
import signal
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from attrs import frozen

from tests.faults.pair import Pair, pair_of
from tests.support.processes import ROOT
from trio_mcp import McpError, connect
from trio_mcp.extensions.tasks import TasksClient

pytestmark = [pytest.mark.long, pytest.mark.requirement("K3", "M4")]

PAUSE: Final = 0.02
"""Seconds between two looks at a file, or at a task."""


@asynccontextmanager
async def tasks_of(pair: Pair, number: int) -> AsyncIterator[TasksClient]:
    """Ask an instance."""
    ours = TasksClient()
    async with connect(pair.url(number), extensions=[ours]):
        yield ours


async def begin(pair: Pair, tool: str) -> str:
    """Begin a task at the first instance, before there is another one that might take it."""
    async with tasks_of(pair, 0) as ours:
        id = (await ours.start(tool, {"name": tool})).id
    await marked(pair, tool, "begun")
    await pair.start()
    async with tasks_of(pair, 1) as ours:
        assert not (await ours.get(id)).is_final
    return id


async def marked(pair: Pair, tool: str, what: str, times: int = 1) -> None:
    marks = pair.folder / tool
    while not marks.exists() or marks.read_text().count(what) < times:
        await trio.sleep(PAUSE)


async def outcome(pair: Pair, id: str) -> str:
    """Wait for the end of a task, without waiting for news of it."""
    async with tasks_of(pair, -1) as ours:
        try:
            while not (task := await ours.get(id)).is_final:
                await trio.sleep(PAUSE)
            return str(task.final()["content"][0]["text"])
        except McpError as error:
            return error.message


async def kill(pair: Pair) -> None:
    pair.servers[0].signal(signal.SIGKILL)


async def stop(pair: Pair) -> None:
    pair.servers[0].signal(signal.SIGTERM)


async def kill_all(pair: Pair) -> None:
    for server in pair.servers:
        server.signal(signal.SIGKILL)
    await pair.start()


async def hang(pair: Pair) -> None:
    """Stop an instance, at a moment when it does not have the file locked."""
    while True:
        pair.servers[0].signal(signal.SIGSTOP)
        if pair.redis is not None:
            return
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(pair.file)) as file:
            file.execute("BEGIN IMMEDIATE")
            return
        pair.servers[0].signal(signal.SIGCONT)


async def cut_off(pair: Pair) -> None:
    assert pair.relay is not None
    pair.relay.cut()


async def restart_store(pair: Pair) -> None:
    assert pair.redis is not None
    pair.redis.kill()
    pair.redis.start()
    (pair.folder / "go").touch()


async def empty_store(pair: Pair) -> None:
    assert pair.redis is not None
    pair.redis.command("FLUSHALL")


@frozen
class Fault:
    """Something that goes wrong, and what becomes of a task that may run again, and of another."""

    name: str
    strike: Callable[[Pair], Awaitable[None]]
    again: str = "run 2"
    once: str = "The server was stopped before the task had ended, and must not run it again"
    stores: tuple[str, ...] = ("sqlite", "redis")
    is_cancelled: bool = False
    """Whether the first run is cancelled, since its process goes on."""


FAULTS: Final = (
    Fault("its process is killed (`kill -9`)", kill),
    Fault("its process is stopped (SIGTERM)", stop, is_cancelled=True),
    Fault("its process hangs for longer than its lease", hang),
    Fault("all processes are killed, and another one starts", kill_all),
    Fault(
        "the network cuts its process off from Redis",
        cut_off,
        stores=("redis",),
        is_cancelled=True,
    ),
    Fault(
        "Redis is killed, and started with its data",
        restart_store,
        again="run 1",
        once="run 1",
        stores=("redis",),
    ),
    Fault(
        "Redis loses its data",
        empty_store,
        again="Task not found: it never was, is not yours, or has expired",
        once="Task not found: it never was, is not yours, or has expired",
        stores=("redis",),
        is_cancelled=True,
    ),
)


CASES: Final = [
    pytest.param(
        fault,
        store,
        id=f"{store}: {fault.name}",
        marks=[pytest.mark.needs("redis-server")] if store == "redis" else [],
    )
    for fault in FAULTS
    for store in fault.stores
]


@pytest.mark.parametrize("tool", ["again", "once"])
@pytest.mark.parametrize(("fault", "store"), CASES)
async def test_what_becomes_of_a_task(fault: Fault, store: str, tool: str, tmp_path: Path) -> None:
    async with pair_of("tests.faults.task_server", store, tmp_path, 1) as pair:
        id = await begin(pair, tool)
        await fault.strike(pair)
        if tool == "again" and fault.again == "run 2":
            await marked(pair, tool, "begun", 2)  # and nobody has asked for it
        assert await outcome(pair, id) == getattr(fault, tool)
        if fault.is_cancelled:
            await marked(pair, tool, "cancelled")
        if fault.strike is hang:
            pair.servers[0].signal(signal.SIGCONT)
            await marked(pair, tool, "cancelled")
            assert await outcome(pair, id) == getattr(fault, tool), "what it did is dropped"
        runs = (tmp_path / tool).read_text().count("begun")
        assert runs == (2 if getattr(fault, tool) == "run 2" else 1)


def test_the_table_in_the_documentation_has_a_row_for_each() -> None:
    text = (ROOT / "docs" / "faults.md").read_text()
    section: Any = re.search(r"^## Tasks\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| ([^|]*) \|", section[1], re.MULTILINE)
    assert rows[1:] == [fault.name[0].upper() + fault.name[1:] for fault in FAULTS]
