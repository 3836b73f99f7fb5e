"""Tasks and the ends of processes: killed, stopped, started again."""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.extensions.tasks.jobs import Gate, make
from tests.extensions.tasks.support import HANDLERS, client_of, until
from tests.features.ways import patience
from tests.store.programs.process import SharedTime
from tests.support.processes import python
from trio_mcp import Client, Handlers, McpError, connect
from trio_mcp.errors import ClientError
from trio_mcp.extensions.tasks import TasksClient
from trio_mcp.store.errors import StoreUnavailable
from trio_mcp.store.memory import MemoryStore

pytestmark = pytest.mark.requirement("K3")

PROGRAM = Path(__file__).parent / "programs" / "restarting.py"
LEASE = 30


class Machine:
    """A store in a file, with a clock that is moved by hand, and servers one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        clock = folder / "clock"
        clock.write_bytes(struct.pack("d", 1_000_000.0))
        self.time = SharedTime(clock)
        self.command = python(PROGRAM, str(folder / "store.db"), str(clock), str(folder))

    @asynccontextmanager
    async def server(
        self, tasks: TasksClient, handlers: Handlers = HANDLERS
    ) -> AsyncIterator[Client]:
        """Start a server, and connect to it."""
        with patience():
            async with connect(self.command, extensions=[tasks], handlers=handlers) as client:
                yield client

    async def begin_and_die(self, tool: str, how: str) -> str:
        """Start a task, and end the server while it runs."""
        ours, id = TasksClient(), ""
        with suppress(ClientError):
            async with self.server(ours) as client:
                id = (await ours.start(tool, {"name": tool})).id
                while (await ours.get(id)).message != "running":
                    await trio.sleep(0.01)
                if how == "killed":
                    os.kill(await client.call_tool("pid", returns=int), signal.SIGKILL)
        if how == "killed":
            self.time.passes(LEASE + 1)
        return id

    def runs(self, tool: str) -> int:
        return len((self.folder / tool).read_text().splitlines())


@pytest.mark.long
@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_what_may_run_again_does(how: str, tmp_path: Path) -> None:
    machine, ours = Machine(tmp_path), TasksClient()
    id = await machine.begin_and_die("again", how)
    async with machine.server(ours):
        assert (await ours.result(id)).text == "run 2"
    assert machine.runs("again") == 2


@pytest.mark.long
@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_what_must_not_run_again_fails(how: str, tmp_path: Path) -> None:
    machine, ours = Machine(tmp_path), TasksClient()
    id = await machine.begin_and_die("once", how)
    async with machine.server(ours):
        with pytest.raises(McpError, match="stopped before the task had ended") as caught:
            await ours.result(id)
        assert caught.value.code == -32603
        assert (await ours.get(id)).status == "failed"
    assert machine.runs("once") == 1


@pytest.mark.long
async def test_while_its_process_may_live_nobody_else_runs_it(tmp_path: Path) -> None:
    machine, ours = Machine(tmp_path), TasksClient()
    id = await machine.begin_and_die("again", "killed")
    machine.time.passes(-LEASE)
    async with machine.server(ours) as client:
        await client.call_tool("pid")
        assert (await ours.get(id)).status == "working"
        await ours.start("again", {"name": "other"})
        assert machine.runs("again") == 1


@pytest.mark.long
async def test_what_was_answered_is_not_asked_again(tmp_path: Path) -> None:
    asked: list[str] = []

    async def elicit(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params["message"])
        return {"action": "accept", "content": {"value": f"{len(asked)}"}}

    machine, ours = Machine(tmp_path), TasksClient()
    handlers = Handlers(elicitation=elicit)
    with suppress(ClientError):
        async with machine.server(ours, handlers) as client:
            id = (await ours.start("ask", {"name": "ask"})).id
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ours.result, id)
                while (await ours.get(id)).message != "running":
                    await trio.sleep(0.01)
                nursery.cancel_scope.cancel()
            os.kill(await client.call_tool("pid", returns=int), signal.SIGKILL)
    machine.time.passes(LEASE + 1)
    async with machine.server(ours, handlers):
        assert (await ours.result(id)).text == "1 2 run 2"
    assert asked == ["Which colour?", "Which shade?"]


@pytest.mark.long
async def test_results_and_owners_outlive_their_process(tmp_path: Path) -> None:
    machine, ours = Machine(tmp_path), TasksClient()
    id = await machine.begin_and_die("again", "stopped")
    for _ in range(2):
        async with machine.server(ours):
            assert (await ours.result(id)).text == "run 2"
    machine.time.passes(86_400)
    async with machine.server(ours):
        with pytest.raises(McpError, match="not found"):
            await ours.get(id)


# -- in one process, two servers with one store ---------------------------------------------


async def test_who_has_no_slot_leaves_it_to_another() -> None:
    store, gates = MemoryStore(), [Gate(), Gate()]
    ours, theirs = TasksClient(), TasksClient()
    async with (
        client_of(make(gates[0], store=store, max_running=1), ours),
        client_of(make(gates[1], store=store, max_running=1), theirs),
    ):
        ids = [(await ours.start("wait")).id for _ in range(2)]
        await gates[0].has_begun(1)
        await gates[1].has_begun(1)
        gates[1].open.set()
        assert (await theirs.result(ids[1])).text == "waited"
        # The one that answers a question need not be the one whose tool asks it.
        asking = (await theirs.start("paint", {"thing": "door"})).id
        assert (await ours.result(asking)).text == "door is blue"
        await theirs.cancel(ids[0])
        await gates[0].has_ended(1)
        assert gates[0].ended == ["cancelled"]


class View(MemoryStore):
    """A store in memory as one process sees it, until it is killed."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self.tables, self.watches = store.tables, store.watches
        self.is_dead = False

    async def _read(self, work: Any) -> Any:
        self._live()
        return await super()._read(work)

    async def _write(self, work: Any, changes: Any = ()) -> Any:
        self._live()
        return await super()._write(work, changes)

    def _live(self) -> None:
        if self.is_dead:
            raise StoreUnavailable("its process was killed")


@pytest.mark.parametrize("moment", ["at once", "later"])
async def test_an_idle_survivor_takes_over_within_two_leases(
    moment: str, autojump_clock: object
) -> None:
    """Nothing else happens that would have it look."""
    store = MemoryStore()
    view, gates = View(store), [Gate(), Gate()]
    gates[1].open.set()
    theirs = TasksClient()
    async with client_of(make(gates[1], store=store, lease=LEASE), theirs):
        await trio.sleep(1000)
        with suppress(ClientError):
            async with client_of(make(gates[0], store=view, lease=LEASE), ours := TasksClient()):
                id = (await ours.start("wait_again")).id
                await gates[0].has_begun(1)
                await trio.sleep(0 if moment == "at once" else 10 * LEASE)
                view.is_dead = True
        with trio.fail_after(2 * LEASE):
            await gates[1].has_begun(1)
        assert (await theirs.result(id)).text == "waited"


async def test_processes_that_start_and_end_keep_no_task_from_others(
    autojump_clock: object,
) -> None:
    """One that just started must not run what others began, so it does not claim it either."""
    store, gates, ours = MemoryStore(), [Gate(), Gate()], TasksClient()
    async with client_of(make(gates[0], store=store, lease=LEASE, max_running=1), ours):
        await ours.start("wait")
        await gates[0].has_begun(1)
        view, theirs = View(store), TasksClient()
        with suppress(ClientError):
            async with client_of(make(gates[1], store=view, lease=LEASE), theirs):
                id = (await theirs.start("wait_again")).id
                await gates[1].has_begun(1)
                view.is_dead = True
        await trio.sleep(LEASE + 1)
        for _ in range(3):
            view = View(store)
            with suppress(ClientError):
                async with client_of(make(gates[1], store=view, lease=LEASE), TasksClient()):
                    await trio.sleep(LEASE / 6)
                    view.is_dead = True
        gates[0].open.set()
        with trio.fail_after(LEASE / 2):
            assert (await ours.result(id)).text == "waited"
        assert gates[1].begun == 1


async def test_what_another_left_behind_does_not_hold_up_what_waits(autojump_clock: object) -> None:
    store, gate, theirs = MemoryStore(), Gate(), TasksClient()
    view = View(store)
    with suppress(ClientError):
        async with client_of(make(gate, store=view, lease=LEASE, max_running=1), theirs):
            ids = [(await theirs.start("wait_again")).id for _ in range(3)]
            await gate.has_begun(1)
            view.is_dead = True
    ours = TasksClient()
    async with client_of(make(gate, store=store, lease=LEASE, max_running=1), ours):
        await trio.sleep(LEASE + 1)  # with the second one; the first is due again
        gate.open.set()
        with trio.fail_after(LEASE / 4):
            for id in ids:
                assert (await ours.result(id)).text == "waited"


async def test_servers_of_other_names_share_nothing() -> None:
    store, ours, theirs = MemoryStore(), TasksClient(), TasksClient()
    async with (
        client_of(make(store=store), ours),
        client_of(make(store=store, name="others"), theirs),
    ):
        id = (await ours.start("add", {"a": 1, "b": 2})).id
        await until(ours, id, "completed")
        with pytest.raises(McpError, match="not found"):
            await theirs.get(id)


async def test_what_ends_its_processes_again_and_again_is_given_up(autojump_clock: object) -> None:
    store, ours = MemoryStore(), TasksClient()
    gate = Gate()
    async with client_of(make(gate, store=store), ours):
        id = (await ours.start("wait_again")).id
        await gate.has_begun(1)
    # As if it had been killed: the queue says how often it was begun.
    from trio_mcp.extensions.tasks.kept import KeptTasks
    from trio_mcp.store.changes import Put

    await store.commit(
        Put(KeptTasks(store, "jobs").key("queue", id), b"10", ttl=float("inf"), delay=0)
    )
    async with client_of(make(gate, store=store), ours):
        with pytest.raises(McpError, match="interrupted 10 times"):
            await ours.result(id)
    assert gate.begun == 1
