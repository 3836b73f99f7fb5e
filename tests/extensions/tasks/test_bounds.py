"""What tasks may take up, and the share of it that one owner has: no client locks others out."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.extensions.tasks.jobs import Gate, make
from tests.extensions.tasks.support import client_of, http_client
from tests.store.contents import values_of
from tests.store.redis_server import redis_server
from tests.transports.http.fleet import Fleet, fleet
from tests.transports.http.support import Host
from trio_mcp import Handlers, HttpPolicy, McpError, Registry, connect
from trio_mcp.errors import ProtocolError
from trio_mcp.extending import ExtensionMethod, ExtensionRequest, ServerExtension
from trio_mcp.extensions.tasks import Tasks, TasksClient
from trio_mcp.extensions.tasks.kept import Bound
from trio_mcp.extensions.tasks.options import CANCEL, GET, TASKS, UPDATE
from trio_mcp.extensions.tasks.slots import HeldSlot, Slots
from trio_mcp.store.changes import Claimed, News
from trio_mcp.store.memory import MemoryStore
from trio_mcp.store.opening import open_store

pytestmark = [
    pytest.mark.requirement("K2", "K3"),
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),
]

TOKENS = HttpPolicy(tokens={"a-token": "alice", "b-token": "bob"})
ALICE, BOB = ({"authorization": f"Bearer {name}-token"} for name in "ab")

each_store = pytest.mark.parametrize(
    "kind", ["memory", "sqlite", pytest.param("redis", marks=pytest.mark.needs("redis-server"))]
)


@asynccontextmanager
async def served(
    kind: str,
    folder: Path,
    policy: HttpPolicy | None = TOKENS,
    gate: Gate | None = None,
    size: int = 2,
    **options: Any,
) -> AsyncIterator[Fleet]:
    """Serve tasks at two instances."""

    @asynccontextmanager
    async def store_of() -> AsyncIterator[Any]:
        if kind == "redis":
            with redis_server(folder) as server:
                async with open_store(server.url) as store:
                    yield store
            return
        async with open_store("memory:" if kind == "memory" else folder / "tasks.db") as store:
            yield store

    async with store_of() as store:
        options = {"ttl": 1e9, **options}  # so that no test stands at the border of two windows
        async with fleet(lambda: make(gate, **options), policy, size, store) as those:
            yield those


async def call(host: Host, who: dict[str, str], tool: str, **arguments: Any) -> Any:
    """Call a tool; return the id of the task, or the message of the error."""
    answer = await http_client(host, headers=who).call(tool, **arguments)
    return answer["result"]["taskId"] if "result" in answer else answer["error"]


async def about(host: Host, who: dict[str, str], method: str, id: str) -> Any:
    return (await http_client(host, id, who).request(method, {"taskId": id}))["result"]


async def ended(host: Host, who: dict[str, str], id: str) -> Any:
    while (task := await about(host, who, "tasks/get", id))["status"] == "working":
        await trio.sleep(0)
    return task


@each_store
@pytest.mark.parametrize("tool", ["wait", "paint"])
async def test_one_owner_has_a_share_of_the_unfinished_tasks(
    kind: str, tool: str, tmp_path: Path
) -> None:
    """Whether they run, or wait for answers."""
    arguments = {"thing": "door"} if tool == "paint" else {}
    async with served(kind, tmp_path, max_queued=50, owner_share=0.06) as those:
        here, there = those.hosts
        ids = [await call(host, ALICE, tool, **arguments) for host in (here, there, here)]
        for host in those.hosts:
            assert await call(host, ALICE, tool, **arguments) == {
                "code": -32000,
                "message": "You have 3 unfinished tasks already; cancel one, or wait",
            }
        assert (await ended(there, BOB, await call(here, BOB, "add", a=1, b=2)))["result"]
        await about(there, ALICE, "tasks/cancel", ids[0])
        while isinstance(id := await call(here, ALICE, tool, **arguments), dict):
            await trio.sleep(0)  # the process that runs the other one has not heard of it yet
        assert (await about(there, ALICE, "tasks/get", id))["status"] != "cancelled"


@each_store
async def test_there_is_a_most_to_all_unfinished_tasks(kind: str, tmp_path: Path) -> None:
    async with served(kind, tmp_path, max_queued=3, owner_share=0.7) as those:
        for who in (ALICE, ALICE, BOB):
            assert isinstance(await call(those.hosts[0], who, "wait"), str)
        refused = await call(those.hosts[1], BOB, "wait")
        assert refused["message"] == "There are 3 unfinished tasks already; try again later"


async def test_without_tokens_an_address_has_a_share(tmp_path: Path) -> None:
    policy = HttpPolicy(trusted_proxies=["127.0.0.1"])
    async with served("memory", tmp_path, policy, max_queued=20) as those:
        for address in ("192.0.2.7", "192.0.2.8"):
            who = {"x-forwarded-for": address}
            for host in those.hosts:
                assert isinstance(await call(host, who, "wait"), str)
            assert "You have 2" in (await call(those.hosts[0], who, "wait"))["message"]


@each_store
async def test_one_owner_has_a_share_of_what_runs_at_once(kind: str, tmp_path: Path) -> None:
    gate = Gate()
    async with served(kind, tmp_path, gate=gate, size=1, max_running=4) as those:
        (host,) = those.hosts
        mine = [await call(host, ALICE, "wait") for _ in range(6)]
        await gate.has_begun(3)
        theirs = [await call(host, BOB, "add", a=1, b=2) for _ in range(3)]
        for id in theirs:
            assert (await ended(host, BOB, id))["status"] == "completed"
        theirs.append(await call(host, BOB, "wait"))
        await gate.has_begun(4)
        assert gate.running == 4
        await about(host, ALICE, "tasks/cancel", mine[0])
        await gate.has_begun(5)  # at once, though it was claimed when there was no place for it
        assert gate.running == 4
        gate.open.set()
        for id in mine[1:]:
            assert (await ended(host, ALICE, id))["status"] == "completed"


async def test_what_an_owner_cannot_run_in_a_process_runs_in_another(
    tmp_path: Path, autojump_clock: Any
) -> None:
    """Also if the first one has claimed it already."""
    gate = Gate()
    async with served("memory", tmp_path, gate=gate, max_running=4) as those:
        here, there = those.hosts
        theirs = [await call(there, BOB, "wait") for _ in range(3)]
        mine = [await call(here, ALICE, "wait") for _ in range(9)]
        await gate.has_begun(7)  # of Alice three here and one there, where Bob leaves one
        for id in theirs:
            await about(here, BOB, "tasks/cancel", id)
        with trio.fail_after(30):
            await gate.has_begun(9)
        assert gate.running == 6
        gate.open.set()
        for id in mine:
            assert (await ended(here, ALICE, id))["status"] == "completed"


@each_store
async def test_what_is_cancelled_before_it_began_makes_room_at_once(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether it waits in the queue, or for a slot of its owner's."""
    gate = Gate()
    async with served(kind, tmp_path, gate=gate, max_running=4, max_queued=100) as those:
        here, there = those.hosts
        ids = [await call(here, ALICE, "wait") for _ in range(10)]
        await gate.has_begun(6)
        waiting = [await call(there, BOB, "wait") for _ in range(3)]
        await gate.has_begun(8)
        ids += waiting
        for id in ids:
            who = BOB if id in waiting else ALICE
            await about(there, who, "tasks/cancel", id)
            assert (await about(here, who, "tasks/get", id))["status"] == "cancelled"
        again = [await call(here, ALICE, "add", a=1, b=2) for _ in range(4)]
        for id in again:
            assert (await ended(there, ALICE, id))["status"] == "completed"
    assert "WARNING" not in caplog.text


class FarStore(MemoryStore):
    """A store whose answers take a second once something was claimed."""

    def __init__(self) -> None:
        super().__init__()
        self.claimed = trio.Event()

    async def claim(self, folder: str, lease: float, *, limit: int = 1) -> Claimed:
        claimed = await super().claim(folder, lease, limit=limit)
        if claimed.entries:
            self.claimed.set()
            await trio.sleep(1)
        return claimed


async def test_what_is_cancelled_while_it_is_claimed_harms_no_other(autojump_clock: Any) -> None:
    gate, store = Gate(), FarStore()
    async with fleet(lambda: make(gate, ttl=1e9, max_running=4), TOKENS, 1, store) as those:
        (host,) = those.hosts
        ids = [await call(host, ALICE, "wait") for _ in range(5)]
        await store.claimed.wait()  # one or both of those for which Alice has no slot
        await about(host, ALICE, "tasks/cancel", ids[3])
        await trio.sleep(2)
        gate.open.set()
        for id in (*ids[:3], ids[4]):
            assert (await ended(host, ALICE, id))["status"] == "completed"
    assert gate.begun == 4


async def test_answers_bring_no_more_than_a_share_back(tmp_path: Path, mock_clock: Any) -> None:
    """Tasks that wait for answers have no place, and take one again when they have got them."""
    gate = Gate()
    async with served("memory", tmp_path, gate=gate, size=1, max_running=4) as those:
        (host,) = those.hosts
        ids = [await call(host, ALICE, "impatient") for _ in range(8)]
        for id in ids:
            while (task := await about(host, ALICE, "tasks/get", id))["status"] == "working":
                await trio.sleep(0)
            blue = {"action": "accept", "content": {"value": "blue"}}
            answers = dict.fromkeys(task["inputRequests"], blue)
            params = {"taskId": id, "inputResponses": answers}
            await http_client(host, id, ALICE).request("tasks/update", params)
        await gate.has_begun(3)
        assert (await ended(host, BOB, await call(host, BOB, "add", a=1, b=2)))["result"]
        assert gate.running == 3
        gate.open.set()
        for id in ids:
            assert (await ended(host, ALICE, id))["status"] == "completed"


async def test_a_slot_is_lent_out_again_if_another_question_waits_by_then() -> None:
    slots = Slots(1)
    assert slots.take()
    held = HeldSlot(slots, "")
    first, second = trio.Event(), trio.Event()

    async def ask(answered: trio.Event) -> None:
        async with held.lent():
            await answered.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, first)
        await wait_all_tasks_blocked()
        assert slots.take()
        first.set()  # it waits for the slot, which another run has now
        await wait_all_tasks_blocked()
        nursery.start_soon(ask, second)
        await wait_all_tasks_blocked()
        slots.release()
        await wait_all_tasks_blocked()
        assert slots.take()
        slots.release()
        second.set()
    assert not slots.take()
    held.release()
    assert slots.take()


@each_store
async def test_one_owner_has_a_share_of_the_bytes_that_are_kept(kind: str, tmp_path: Path) -> None:
    async with served(kind, tmp_path, max_kept_bytes=2_000_000) as those:
        here, there = those.hosts
        results = [
            await ended(there, ALICE, await call(here, ALICE, "big", size=24_000)) for _ in range(4)
        ]
        assert [task["status"] for task in results] == 3 * ["completed"] + ["failed"]
        why = "Your tasks take up as many bytes as they may; try again when some have expired"
        assert results[3]["error"]["message"] == f"The result cannot be kept: {why}"
        refused = await call(there, ALICE, "echo", value="x" * 40_000)
        assert refused == {"code": -32000, "message": why}
        kept = await ended(here, BOB, await call(there, BOB, "big", size=24_000))
        assert kept["status"] == "completed"
        assert (await ended(there, ALICE, await call(here, ALICE, "add", a=1, b=2)))["result"]


async def test_small_tasks_count_with_what_they_take_up_besides(tmp_path: Path) -> None:
    """Or one owner's would fill a store in memory, which is smaller than all tasks may be."""
    async with served("memory", tmp_path, max_kept_bytes=200_000) as those:
        here = those.hosts[0]
        for _ in range(4):
            assert isinstance(await call(here, ALICE, "add", a=1, b=2), str)
        refused = [await call(here, ALICE, "add", a=1, b=2) for _ in range(3)]
        assert "as many bytes" in refused[-1]["message"]
        assert isinstance(await call(here, BOB, "add", a=1, b=2), str)


@each_store
async def test_answers_count_as_kept_until_the_task_has_ended(kind: str, tmp_path: Path) -> None:
    gate = Gate()
    async with served(kind, tmp_path, gate=gate, max_kept_bytes=2_000_000) as those:
        here, there = those.hosts

        async def answered(text: str) -> Any:
            id = await call(here, ALICE, "impatient")
            while (task := await about(there, ALICE, "tasks/get", id))["status"] == "working":
                await trio.sleep(0)
            answer = {"action": "accept", "content": {"value": text}}
            params = {"taskId": id, "inputResponses": dict.fromkeys(task["inputRequests"], answer)}
            return await http_client(there, id, ALICE).request("tasks/update", params)

        assert "result" in await answered("x" * 60_000)
        refused = await answered("x" * 60_000)
        assert refused["error"]["code"] == -32000
        assert "Your tasks take up as many bytes" in refused["error"]["message"]
        assert "result" in await answered("x")
        gate.open.set()
        await gate.has_ended(2)
        while "error" in await answered("x" * 60_000):
            await trio.sleep(0)  # the end is being written


@each_store
async def test_there_is_a_most_to_all_bytes_that_are_kept(kind: str, tmp_path: Path) -> None:
    async with served(kind, tmp_path, max_kept_bytes=200_000, owner_share=1) as those:
        here, there = those.hosts
        for who, status in ((ALICE, "completed"), (BOB, "completed"), (BOB, "failed")):
            task = await ended(there, who, await call(here, who, "big", size=40_000))
            assert task["status"] == status
        assert "All tasks together take up as many bytes" in task["error"]["message"]


async def test_what_has_expired_makes_room(autojump_clock: Any) -> None:
    # The time of day, by which windows are counted, does not jump: the store has forgotten them.
    options = {"max_kept_bytes": 200_000, "ttl": 1e6, "lease": 1e5}
    async with connect(make(**options), extensions=[TasksClient()]) as client:
        for _ in range(2):
            for _ in range(3):
                assert await client.call_tool("big", {"size": 24_000})
            for _ in range(2):
                with pytest.raises(McpError, match="as many bytes as they may"):
                    await client.call_tool("big", {"size": 24_000})
            await trio.sleep(2e6)


async def test_nothing_is_left_of_owners_who_wait_no_more() -> None:
    slots = Slots(1)

    def semaphores() -> int:
        return sum(isinstance(each, trio.Semaphore) for each in gc.get_referents(*kept_by(slots)))

    alone = semaphores()
    for number in range(10):
        with trio.CancelScope() as scope:
            scope.cancel()
            await slots.wait(f"owner {number}")
    assert semaphores() == alone
    assert slots.take("owner 1")


async def test_nothing_is_left_of_tasks_and_their_owners(autojump_clock: Any) -> None:
    """Their counts go as well: there are as many owners as there are addresses."""
    store, policy = MemoryStore(), HttpPolicy(trusted_proxies=["127.0.0.1"])
    async with fleet(lambda: make(ttl=100.0), policy, 1, store) as those:
        (host,) = those.hosts
        for number in range(20):
            who = {"x-forwarded-for": f"192.0.2.{number}"}
            assert (await ended(host, who, await call(host, who, "add", a=1, b=2)))["result"]
        left = Counter(key.rpartition(":")[2].partition("-")[0] for key in of_tasks(store))
        # All of them count together, too, in a window; or in two, if one began meanwhile.
        assert left.pop("kept") in (21, 22)
        assert {name.partition("/")[0] for name in left} == {"task"}
        assert left.total() == 20
        await trio.sleep(300)
        await store.commit(News("any:thing"))  # what has expired is swept with it
        assert of_tasks(store) == []


def kept_by(value: object) -> list[Any]:
    """Return what an object refers to, and what that does."""
    parts = gc.get_referents(value)
    return [value, *parts]


def of_tasks(store: MemoryStore) -> list[str]:
    return [key for key in values_of(store) if key.startswith("tasks-")]


async def test_a_call_takes_up_room_until_its_task_has_ended(tmp_path: Path) -> None:
    async with served("memory", tmp_path, max_kept_bytes=2_000_000) as those:
        host, thing = those.hosts[0], "x" * 80_000
        first = await call(host, ALICE, "paint", thing=thing)
        assert "as many bytes" in (await call(host, ALICE, "paint", thing=thing))["message"]
        await about(host, ALICE, "tasks/cancel", first)
        while isinstance(await call(host, ALICE, "paint", thing=thing), dict):
            await trio.sleep(0)


def test_a_share_of_little_is_one() -> None:
    assert Bound.shared(2, 0.25) == Bound(2, 1)
    assert Bound.shared(inf, 0.25) == Bound()


async def test_one_client_alone_has_it_all() -> None:
    ours, gate = TasksClient(), Gate()
    async with client_of(make(gate, max_queued=3, max_kept_bytes=60_000), ours) as client:
        for _ in range(3):
            await ours.start("wait")
        with pytest.raises(McpError, match="There are 3 unfinished tasks already"):
            await ours.start("wait")
        gate.open.set()
        await gate.has_ended(3)
        assert await client.call_tool("big", {"size": 8000})


@pytest.mark.needs("redis-server")
async def test_what_is_endless_has_no_bound_in_redis(tmp_path: Path) -> None:
    """Their digits are compared there."""
    async with served(
        "redis", tmp_path, max_queued=inf, max_kept_bytes=inf, owner_share=1
    ) as those:
        for number in range(12):
            assert isinstance(await call(those.hosts[number % 2], ALICE, "wait"), str)


@pytest.mark.parametrize("share", [0, -1, 1.5, "1", None, True])
def test_a_share_is_a_part_of_all(share: Any) -> None:
    with pytest.raises(ValueError, match="owner_share"):
        Tasks(owner_share=share)


class Asking(ServerExtension):
    """Makes a task of each call, which asks further questions forever."""

    identifier = TASKS
    era = "modern"
    wraps = ("tools/call",)
    result_types = ("task",)
    polls = 0
    cancelled = False

    def __init__(self, name: str, at_once: int) -> None:
        self.name, self.at_once = name, at_once

    def methods(self) -> Sequence[ExtensionMethod]:
        handlers = {GET: self.get, UPDATE: self.update, CANCEL: self.cancel}
        return [ExtensionMethod(row=row, handler=handler) for row, handler in handlers.items()]

    async def around(self, request: ExtensionRequest, proceed: Any) -> dict[str, Any]:
        return {"resultType": "task", "taskId": "a", "status": "working"}

    async def get(self, request: ExtensionRequest) -> dict[str, Any]:
        self.polls += 1
        question = {"method": "roots/list"}
        names = (f"{self.name}-{self.polls}-{number}" for number in range(self.at_once))
        asked = dict.fromkeys(names, question)
        return {"taskId": "a", "status": "input_required", "inputRequests": asked}

    async def update(self, request: ExtensionRequest) -> dict[str, Any]:
        return {}

    async def cancel(self, request: ExtensionRequest) -> dict[str, Any]:
        self.cancelled = True
        return {}


@pytest.mark.parametrize(
    ("name", "at_once"), [("q" * 300, 1000), ("q" * 400_000, 1)], ids=["many", "long"]
)
async def test_a_client_ends_a_task_that_asks_without_end(name: str, at_once: int) -> None:
    """It remembers the names of questions, so as to ask each of them once."""
    server, ours = Asking(name, at_once), TasksClient()
    registry = Registry("asking", extensions=[server])

    @registry.tool
    async def ask() -> None:
        raise AssertionError("called")

    handlers = Handlers(roots=[])
    with trio.fail_after(20):
        async with connect(registry, extensions=[ours], handlers=handlers) as client:
            with pytest.raises(ProtocolError, match="task a asks without end"):
                await client.call_tool("ask")
    assert 1 < server.polls < 9
    assert server.cancelled
