"""Tasks whose store is full, locked, gone, damaged, or of a newer version."""

from __future__ import annotations

import logging
from collections import Counter
from math import inf
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.extensions.tasks.jobs import Gate, make
from tests.extensions.tasks.support import client_of, raw_client, until
from trio_mcp import McpError
from trio_mcp.extensions.tasks import TasksClient
from trio_mcp.extensions.tasks.kept import Claim, KeptTasks
from trio_mcp.extensions.tasks.record import Record
from trio_mcp.store.changes import Change, Put
from trio_mcp.store.errors import StoreError, StoreFull, StoreUnavailable, StoreUnusable
from trio_mcp.store.memory import MemoryStore
from trio_mcp.store.sqlite import SQLiteStore

pytestmark = pytest.mark.requirement("K3")


class Faulty(MemoryStore):
    """A store that fails as the test wants."""

    failure: StoreError | None = None
    loses: bool = False
    """Whether what it fails to do has been done all the same."""

    async def commit(self, *changes: Change) -> list[int]:
        failure = self.failure
        if isinstance(failure, StoreFull) and not any(
            isinstance(change, Put) for change in changes
        ):
            failure = None
        if failure is None or self.loses:
            results = await super().commit(*changes)
        return results if failure is None else await self.fail(failure)

    async def get(self, key: str) -> Any:
        failure = self.failure
        full = isinstance(failure, StoreFull)
        return await (super().get(key) if failure is None or full else self.fail(failure))

    async def claim(self, folder: str, lease: float, *, limit: int = 1) -> Any:
        failure = self.failure
        full = isinstance(failure, StoreFull)
        if failure is None or full or self.loses:
            claimed = await super().claim(folder, lease, limit=limit)
        return claimed if failure is None or full else await self.fail(failure)

    async def fail(self, failure: StoreError) -> Any:
        await trio.lowlevel.checkpoint()
        raise failure


each_failure = pytest.mark.parametrize(
    "failure",
    [StoreFull("x.db: no room"), StoreUnavailable("x.db: locked"), StoreUnusable("x.db: damaged")],
    ids=lambda failure: type(failure).__name__,
)


@each_failure
async def test_no_task_is_acknowledged_that_is_not_kept(
    failure: StoreError, caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    store, ours = Faulty(), TasksClient()
    async with client_of(make(store=store, max_running=1), ours) as client:
        store.failure = failure
        with pytest.raises(McpError, match="try again later") as caught:
            await client.call_tool("add", {"a": 1, "b": 2})
        assert caught.value.code == -32603
        assert "x.db" not in str(caught.value)  # that is for the log
        assert "x.db" in caplog.text
        assert await client.call_tool("plain", returns=str) == "plain"
        store.failure = None
        with trio.fail_after(600):  # the slot was given back
            assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_what_cannot_be_looked_up_is_not_said_to_be_unknown(method: str) -> None:
    store, ours = Faulty(), TasksClient()
    async with client_of(make(store=store), ours) as client:
        id = (await ours.start("wait")).id
        store.failure = StoreUnavailable("locked")
        with pytest.raises(McpError, match="try again later") as caught:
            await client.request(method, {"taskId": id, "inputResponses": {}})
        assert caught.value.code == -32603
        store.failure = None
        assert (await ours.get(id)).status == "working"


@pytest.mark.parametrize("loses", [False, True])
async def test_a_result_waits_for_its_store_to_come_back(
    loses: bool, autojump_clock: object
) -> None:
    store, gate, ours = Faulty(), Gate(), TasksClient()
    store.loses = loses
    async with client_of(make(gate, store=store), ours):
        id = (await ours.start("wait")).id
        await gate.has_begun(1)
        store.failure = StoreUnavailable("locked")
        gate.open.set()
        await trio.sleep(20)
        store.failure = None
        assert (await ours.result(id)).text == "waited"
        assert gate.begun == 1


@pytest.mark.parametrize("loses", [False, True])
@pytest.mark.parametrize(
    "seconds",
    [
        10,
        40,
        70,
        *(pytest.param(each, marks=pytest.mark.long) for each in (20, 30, 50, 60, 80, 90)),
    ],
)
async def test_a_result_waits_for_its_store_beside_another_process(
    seconds: int, loses: bool, autojump_clock: object
) -> None:
    """The other one gets the task when its lease has ended, though its process lives."""
    for rested in range(0, 30, 3):
        store, gates, ours = Faulty(), [Gate(), Gate()], TasksClient()
        async with (
            client_of(make(gates[1], store=store), TasksClient()),
            client_of(make(gates[0], store=store), ours),
        ):
            await trio.sleep(rested)
            id = (await ours.start("wait")).id
            await wait_all_tasks_blocked()
            (gate,) = (gate for gate in gates if gate.begun)
            store.failure, store.loses = StoreUnavailable("locked"), loses
            gate.open.set()
            await trio.sleep(seconds)
            store.failure = None
            assert (await ours.result(id)).text == "waited"


async def test_a_result_is_kept_though_its_task_was_claimed_since(autojump_clock: object) -> None:
    """By a process that has ended before it began the task."""
    store, gate, ours = Faulty(), Gate(), TasksClient()
    async with client_of(make(gate, store=store), ours):
        id = (await ours.start("wait")).id
        await wait_all_tasks_blocked()
        store.failure = StoreUnavailable("locked")
        gate.open.set()
        await trio.sleep(40)  # its lease has ended
        claimed = await MemoryStore.claim(store, KeptTasks(store, "jobs").begun, 30)
        assert len(claimed.entries) == 1
        store.failure = None
        assert (await ours.result(id)).text == "waited"


async def test_a_result_is_written_before_its_process_ends(autojump_clock: object) -> None:
    """Its store comes back while the process stops, which waits for some seconds."""
    store, gate, ours = Faulty(), Gate(), TasksClient()

    async def stop() -> None:
        async with client_of(make(gate, store=store), ours):
            ids.append((await ours.start("wait")).id)
            await gate.has_begun(1)
            store.failure = StoreUnavailable("locked")
            gate.open.set()
            await gate.has_ended(1)

    ids: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop)
        await gate.has_ended(1)
        await wait_all_tasks_blocked()
        store.failure = None
    async with client_of(make(store=store), ours):
        assert (await ours.result(ids[0])).text == "waited"


class FaultyFile(SQLiteStore):
    """A store in a file that is away when the test wants, and whose time passes when it does."""

    def __init__(self, path: Path) -> None:
        self.time, self.is_away, self.failed = 1000.0, False, trio.lowlevel.ParkingLot()
        super().__init__(path, clock=lambda: self.time)

    async def _read(self, work: Any) -> Any:
        return await (self.fail() if self.is_away else super()._read(work))

    async def _write(self, work: Any, changes: Any = ()) -> Any:
        return await (self.fail() if self.is_away else super()._write(work, changes))

    async def fail(self) -> Any:
        await trio.lowlevel.checkpoint()
        self.failed.unpark_all()
        raise StoreUnavailable("locked")


async def test_a_result_waits_for_its_file_beside_another_process(tmp_path: Path) -> None:
    gates, clients = [Gate(), Gate()], [TasksClient(), TasksClient()]
    gates[1].news = gates[0].news
    async with (
        FaultyFile(tmp_path / "tasks.db").open() as one,
        FaultyFile(tmp_path / "tasks.db").open() as two,
        client_of(make(gates[0], store=one, lease=6), clients[0]),
        client_of(make(gates[1], store=two, lease=6), clients[1]),
    ):
        id = (await clients[0].start("wait")).id
        while not any(gate.begun for gate in gates):  # the one that looks for tasks first has it
            await gates[0].news.park()
        first = 0 if gates[0].begun else 1
        store, other = (one, two)[first], (two, one)[first]
        store.is_away = other.is_away = True
        gates[first].open.set()
        await store.failed.park()
        await other.failed.park()
        store.time = other.time = 2000.0
        store.is_away = False  # the other one stays without: with real threads, it could come first
        assert (await clients[first].result(id)).text == "waited"


@pytest.mark.parametrize("tool", ["wait", "wait_again"])
async def test_a_result_waits_for_its_store_beside_a_process_that_starts(
    tool: str, autojump_clock: object
) -> None:
    """That process cannot know that the store was away, and finds a lease that has ended."""
    store, gates, ours = Faulty(), [Gate(), Gate()], TasksClient()
    async with client_of(make(gates[0], store=store, lease=30), ours):
        id = (await ours.start(tool)).id
        await gates[0].has_begun(1)
        store.failure = StoreUnavailable("gone")
        gates[0].open.set()
        await trio.sleep(40.1)
        store.failure = None
        async with client_of(make(gates[1], store=store, lease=30), TasksClient()):
            assert (await ours.result(id)).text == "waited"
            assert not gates[1].begun


async def test_a_run_whose_lease_cannot_be_renewed_is_ended(autojump_clock: object) -> None:
    """Another process may have it by then; here it is this one, as soon as the store is back."""
    store, gate, ours = Faulty(), Gate(), TasksClient()
    async with client_of(make(gate, store=store, lease=20), ours):
        id = (await ours.start("wait_again")).id
        await gate.has_begun(1)
        store.failure = StoreUnavailable("gone")
        await gate.has_ended(1)
        assert gate.ended == ["cancelled"]
        store.failure = None
        await gate.has_begun(2)
        gate.open.set()
        assert (await ours.result(id)).text == "waited"


async def test_a_result_that_there_is_no_room_for_fails_the_task(autojump_clock: object) -> None:
    store, ours = MemoryStore(max_bytes=100_000), TasksClient()
    async with client_of(make(store=store), ours) as client:
        with pytest.raises(McpError, match="there is no room"):
            await client.call_tool("big", {"size": 200_000})
        assert await client.call_tool("big", {"size": 2_000})
        with pytest.raises(McpError, match="There is no room for another task; try again later"):
            for _ in range(200):
                await ours.start("big", {"size": 20_000})
                await trio.sleep(1)


async def test_a_question_that_cannot_be_kept_fails_for_its_tool(autojump_clock: object) -> None:
    store, gate, ours = Faulty(), Gate(), TasksClient()
    async with client_of(make(gate, store=store), ours):
        id = (await ours.start("ask_later")).id
        await gate.has_begun(1)
        store.failure = StoreUnavailable("locked")
        gate.open.set()
        await trio.sleep(3)
        store.failure = None
        with pytest.raises(McpError, match="cannot be stored"):
            await ours.result(id)


@pytest.mark.parametrize("kind", ["task", "call", "queue"])
@pytest.mark.parametrize(
    "value", [b"", b"{", b"[]", b"\xff", orjson.dumps({"form": 2})], ids=range(5)
)
async def test_what_is_damaged_or_newer_is_told_and_in_nobodys_way(
    kind: str, value: bytes, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    store, ours = MemoryStore(), TasksClient()
    async with client_of(make(store=store, max_running=1), ours):
        await ours.start("wait")
        damaged = (await ours.start("add", {"a": 1, "b": 2})).id
        last = (await ours.start("add", {"a": 3, "b": 4})).id
    key = KeptTasks(store, "jobs").key(kind, damaged)
    await store.commit(Put(key, value, ttl=inf, delay=0 if kind == "queue" else None))
    ours = TasksClient()
    async with client_of(make(store=store), ours) as client:
        assert (await ours.result(last)).text == "7"
        await trio.sleep(1)
        assert f"Task {damaged} cannot be run" in caplog.text
        if kind == "task":
            with pytest.raises(McpError, match="cannot be looked up"):
                await ours.get(damaged)
        else:
            assert (await ours.get(damaged)).status == "working"
        assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3


async def test_a_damaged_count_ends_no_server(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    store, gate, ours = MemoryStore(), Gate(), TasksClient()
    async with client_of(make(gate, store=store, max_running=1), ours) as client:
        await ours.start("wait")
        left = (await ours.start("add", {"a": 1, "b": 2})).id
        kept = KeptTasks(store, "jobs")
        await store.commit(
            Put(kept.key("queue", left), b"1", ttl=inf, delay=0),  # begun, and not to run again
            Put(kept.queue.replace("queue", "unfinished"), b"many", ttl=inf),
        )
        await gate.has_begun(1)
        gate.open.set()
        await trio.sleep(1)
        assert f"Task {left} cannot be run" in caplog.text
        assert await client.call_tool("plain", returns=str) == "plain"


class Counting(MemoryStore):
    """A store that counts what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    async def commit(self, *changes: Change) -> list[int]:
        self.asked["commit"] += 1
        return await super().commit(*changes)

    async def get(self, key: str) -> Any:
        self.asked["get"] += 1
        return await super().get(key)


async def test_a_short_task_is_two_commits_and_a_look_at_its_result() -> None:
    store = Counting()
    async with raw_client(make(store=store)) as client:
        call = {"name": "add", "arguments": {"a": 1, "b": 2}}
        task = (await client.request("tools/call", call))["result"]
        await wait_all_tasks_blocked()
        found = (await client.request("tasks/get", {"taskId": task["taskId"]}))["result"]
        assert found["result"]["structuredContent"] == 3
        assert store.asked == {"commit": 2, "get": 1}


async def test_short_tasks_that_are_made_together_do_not_wait_in_the_store() -> None:
    """Those that have begun end in the next turn of the scheduler, and leave their slots."""
    store, ours = Counting(), TasksClient()
    async with client_of(make(store=store, max_running=2), ours):
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(ours.start, "add", {"a": 1, "b": 2})
        await wait_all_tasks_blocked()
        assert store.asked == {"commit": 2 * 4}


@pytest.mark.parametrize("remembered", [0, 2, 5])
async def test_a_short_task_that_waits_is_claimed_and_begun_without_being_read(
    remembered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that waited longest are read, if there are too many to remember."""
    monkeypatch.setattr("trio_mcp.extensions.tasks.worker._MOST_MADE", remembered)
    store, gate, ours = Counting(), Gate(), TasksClient()
    async with client_of(make(gate, store=store, max_running=1), ours):
        await ours.start("wait")
        ids = [(await ours.start("add", {"a": number, "b": 2})).id for number in range(5)]
        await wait_all_tasks_blocked()
        store.asked.clear()
        gate.open.set()
        await wait_all_tasks_blocked()
        assert store.asked["commit"] == 1 + 2 * len(
            ids
        )  # the end of the first; a beginning, an end
        assert store.asked["get"] == 2 * (len(ids) - remembered)
        assert [(await ours.result(id)).text for id in ids] == ["2", "3", "4", "5", "6"]


async def test_the_call_of_a_task_that_waits_is_not_kept_in_memory_if_it_is_long() -> None:
    store, gate, ours = Counting(), Gate(), TasksClient()
    async with client_of(make(gate, store=store, max_running=1), ours):
        await ours.start("wait")
        id = (await ours.start("echo", {"value": "x" * 5000})).id
        await wait_all_tasks_blocked()
        store.asked.clear()
        gate.open.set()
        await wait_all_tasks_blocked()
        assert store.asked == {"commit": 3, "get": 2}
        assert (await ours.result(id)).text == "x" * 5000


async def test_a_task_that_ends_while_it_waits_is_not_begun() -> None:
    """Even where no news told of that."""
    store, gate, ours = MemoryStore(), Gate(), TasksClient()
    async with client_of(make(gate, store=store, max_running=1), ours):
        first, second = [(await ours.start("wait")).id for _ in range(2)]
        await gate.has_begun(1)
        await end_unnoticed(store, second)
        gate.open.set()
        await wait_all_tasks_blocked()
        assert [(await ours.get(id)).status for id in (first, second)] == ["completed", "cancelled"]
        assert gate.begun == 1
        for kind in ("queue", "begun", "call"):
            assert await store.get(KeptTasks(store, "jobs").key(kind, second)) is None


async def end_unnoticed(store: MemoryStore, id: str) -> None:
    """Have the record of a task say that it was cancelled, and nothing else."""
    key = KeptTasks(store, "jobs").key("task", id)
    before = await store.get(key)
    assert before is not None
    cancelled = Record.decode(before.value).cancel(5.0)
    await store.commit(Put(key, cancelled.encode(), ttl=before.ttl))


class Unwatchable(MemoryStore):
    """A store with a mistake: a task cannot be watched the first time."""

    mistakes = 1

    def watch(self, *channels: str) -> Any:
        if self.mistakes and any("task/" in channel for channel in channels):
            self.mistakes -= 1
            raise ZeroDivisionError("a mistake")
        return super().watch(*channels)


async def test_what_goes_wrong_beside_a_tool_ends_its_run_and_no_others(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    store, gate, ours = Unwatchable(), Gate(), TasksClient()
    async with client_of(make(gate, store=store), ours) as client:
        id = (await ours.start("wait")).id
        await gate.has_ended(1)
        assert gate.ended == ["cancelled"]
        assert f"Task {id} was given up" in caplog.text
        assert "a mistake" in caplog.text
        assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
        assert (await ours.get(id)).status == "working"  # until its lease has ended
        await trio.sleep(40)
        with pytest.raises(McpError, match="The server was stopped"):
            await ours.result(id)


async def test_an_end_that_comes_unnoticed_is_not_written_over() -> None:
    store, gate, ours = MemoryStore(), Gate(), TasksClient()
    async with client_of(make(gate, store=store), ours):
        id = (await ours.start("wait")).id
        await gate.has_begun(1)
        await wait_all_tasks_blocked()
        await end_unnoticed(store, id)
        gate.open.set()
        await wait_all_tasks_blocked()
        assert (await ours.get(id)).status == "cancelled"
        assert await store.get(KeptTasks(store, "jobs").key("queue", id)) is None


async def test_a_run_asks_nothing_once_another_process_has_the_task() -> None:
    store, gate, ours = MemoryStore(), Gate(), TasksClient()
    async with client_of(make(gate, store=store), ours):
        id = (await ours.start("ask_later")).id
        await gate.has_begun(1)
        kept = KeptTasks(store, "jobs")
        begun = await store.get(kept.key("begun", id))
        assert begun is not None
        await kept.begin_again(Claim.of(begun), 30)
        gate.open.set()
        await wait_all_tasks_blocked()
        assert (await ours.get(id)).status == "working"


async def test_a_damaged_file_keeps_the_server_from_starting(tmp_path: Any) -> None:
    (tmp_path / "tasks.db").write_bytes(b"this is no database" * 1000)
    with pytest.raises(Exception, match=r"tasks\.db"):
        async with client_of(make(store=tmp_path / "tasks.db"), TasksClient()):
            pass


async def test_a_file_by_its_path_or_url(tmp_path: Any) -> None:
    for store in (tmp_path / "tasks.db", f"sqlite:///{tmp_path}/tasks.db"):
        async with client_of(make(store=store), TasksClient()) as client:
            assert await client.call_tool("paint", {"thing": "door"}, returns=str) == "door is blue"


async def test_the_log_has_no_arguments_results_or_answers(
    caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    caplog.set_level(logging.DEBUG)
    store, ours = Faulty(), TasksClient()
    async with client_of(make(store=store), ours) as client:
        await client.call_tool("paint", {"thing": "secret-door"})
        id = (await ours.start("big", {"size": 5})).id
        store.failure = StoreUnavailable("locked")
        await trio.sleep(5)
        store.failure = None
        await until(ours, id, "completed")
    assert "secret-door" not in caplog.text
    assert "xxxxx" not in caplog.text
    assert "blue" not in caplog.text
