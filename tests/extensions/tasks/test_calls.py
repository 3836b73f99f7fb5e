"""Calls that are tasks, and a client that waits for them as for any call."""

from __future__ import annotations

import json
import threading
from itertools import pairwise
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.extensions.tasks.jobs import Gate, make
from tests.extensions.tasks.support import HANDLERS, client_of, each_way, say_blue
from trio_mcp import Handlers, McpError, Registry, SchemaError, connect
from trio_mcp.errors import CallTimeout, ToolFailed
from trio_mcp.extensions.tasks import TaskOptions, Tasks, TasksClient, record, run, server

pytestmark = pytest.mark.requirement("K2")


@each_way
async def test_the_same_call_gets_the_result_with_and_without_tasks(way: str) -> None:
    created: list[Any] = []
    ours = TasksClient(on_created=lambda id, name: created.append(name))
    registry = None if way == "stdio" else make()
    async with client_of(registry, ours, way) as client:
        assert await client.call_tool("plain", returns=str) == "plain"
        assert created == []
        assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
        assert await client.call_tool("paint", {"thing": "door"}, returns=str) == "door is blue"
        assert await client.call_tool("only_as_task", returns=str) == "fine"
        assert created == ["add", "paint", "only_as_task"]
    async with client_of(registry, None, way) as client:
        assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
        assert await client.call_tool("paint", {"thing": "door"}, returns=str) == "door is blue"
        with pytest.raises(McpError, match=r"extension io\.modelcontextprotocol/tasks") as caught:
            await client.call_tool("only_as_task")
        assert caught.value.code == -32021
        assert caught.value.data == {
            "requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        }


@pytest.mark.parametrize("value", [10**40, -(2**63), 2**64, 1.5, "😀", {"a": [None, True]}])
async def test_values_are_kept_as_they_are(value: Any) -> None:
    gate = Gate()
    async with client_of(make(gate), TasksClient()) as client:
        got = await client.call_tool("echo", {"value": {"it": value}})
        assert json.loads(got.text) == {"it": value}


async def test_much_is_written_down_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments and results: an integer beyond 64 bits has the standard library write them."""
    loop = threading.get_ident()
    seen: set[tuple[bool, bool]] = set()
    write = record.dumps

    def watched(value: Any) -> bytes:
        written = write(value)
        seen.add((len(written) > 100_000, threading.get_ident() == loop))
        return written

    for module in (record, run, server):
        monkeypatch.setattr(module, "dumps", watched)
    async with client_of(make(), TasksClient()) as client:
        many = [10**40, *range(100_000)]
        got = await client.call_tool("echo", {"value": {"it": many}})
        assert json.loads(got.text) == {"it": many}
    assert seen == {(False, True), (True, False)}


async def test_in_legacy_sessions_there_are_no_tasks() -> None:
    async with client_of(make(), TasksClient(), era="legacy") as client:
        assert client.extensions == {}
        assert await client.call_tool("paint", {"thing": "door"}, returns=str) == "door is blue"


async def test_failures_are_those_of_the_call() -> None:
    async with client_of(make(), TasksClient()) as client:
        with pytest.raises(ToolFailed, match="did not work"):
            await client.call_tool("only_as_task", {"how": "tool"}, returns=str)
        with pytest.raises(McpError, match="broken") as caught:
            await client.call_tool("only_as_task", {"how": "protocol"})
        assert (caught.value.code, caught.value.data) == (-32050, {"why": 1})
        with pytest.raises(ToolFailed, match="internal error") as failed:
            await client.call_tool("only_as_task", {"how": "surprise"}, returns=str)
        assert "secret" not in str(failed.value)
        with pytest.raises(McpError, match="add"):  # no task is made of what cannot be begun
            await client.request("tools/call", {"name": "adds", "arguments": {}})


async def test_everything_that_can_be_asked_is_asked_once(autojump_clock: object) -> None:
    gate = Gate()
    gate.open.set()
    asked: list[str] = []

    async def elicit(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params["message"])
        await trio.sleep(10)  # in which the others are answered, and it is polled again
        return await say_blue(params)

    handlers = Handlers(elicitation=elicit, sampling=HANDLERS.sampling, roots=HANDLERS.roots)
    async with client_of(make(gate), TasksClient(), handlers=handlers) as client:
        said = await client.call_tool("ask_all", returns=str)
    assert said == "blue file:///home hello"
    assert asked == ["Which colour?"]


async def test_what_cannot_be_answered_ends_the_task() -> None:
    async def fail(params: dict[str, Any]) -> dict[str, Any]:
        raise OSError("the screen is broken")

    ids: list[str] = []
    ours = TasksClient(on_created=lambda id, name: ids.append(id))
    async with client_of(make(), ours, handlers=Handlers(elicitation=fail)) as client:
        with pytest.raises(OSError, match="screen"):
            await client.call_tool("paint", {"thing": "door"})
        assert (await ours.get(ids[0])).status == "cancelled"


async def test_progress_is_the_tools_own() -> None:
    gate, told = Gate(), []
    gate.open.set()
    async with client_of(make(gate), TasksClient()) as client:
        await client.call_tool(
            "paint", {"thing": "door"}, on_progress=lambda *each: told.append(each)
        )
    assert told == [(1, 2, None)]


@pytest.mark.parametrize("later", [False, True])
async def test_a_call_may_become_a_task_after_its_questions(later: bool) -> None:
    asked: list[str] = []
    ids: list[str] = []

    async def elicit(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params["message"])
        return {"action": "accept", "content": {"value": f"{len(asked)}"}}

    ours = TasksClient(on_created=lambda id, name: ids.append(id))
    async with client_of(make(), ours, handlers=Handlers(elicitation=elicit)) as client:
        assert await client.call_tool("maybe", {"later": later}, returns=str) == "2 1"
    assert asked == ["Which colour?", "Which shade?"]
    assert len(ids) == later


# -- times --------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_task_takes_as_long_as_it_takes(autojump_clock: object) -> None:
    async with client_of(make(), TasksClient(), tool_timeout=2) as client:
        assert await client.call_tool("long", returns=str) == "done"
    async with client_of(make(), None) as client:  # as a plain call it has the tool's time
        with pytest.raises(ToolFailed, match="5"):
            await client.call_tool("long", returns=str)


async def test_a_task_may_have_a_limit(autojump_clock: object) -> None:
    async with client_of(make(), TasksClient()) as client:
        with pytest.raises(ToolFailed, match="10"):
            await client.call_tool("limited", returns=str)


@pytest.mark.parametrize("how", ["timeout", "cancelled"])
async def test_who_waits_no_more_cancels_it(how: str, autojump_clock: object) -> None:
    gate = Gate()
    async with client_of(make(gate), TasksClient()) as client:
        if how == "timeout":
            with pytest.raises(CallTimeout):
                await client.call_tool("wait", timeout=3)
        else:
            with trio.move_on_after(3) as scope:
                await client.call_tool("wait")
            assert scope.cancelled_caught
        await gate.has_ended(1)
    assert gate.ended == ["cancelled"]


async def test_polls_are_as_far_apart_as_the_server_says(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = TasksClient()
    polls: list[float] = []
    get = TasksClient.get

    async def counting(self: TasksClient, id: str) -> Any:
        polls.append(trio.current_time())
        return await get(self, id)

    monkeypatch.setattr(TasksClient, "get", counting)
    async with client_of(make(poll_interval=20), ours) as client:
        await client.call_tool("long")
    # 180 intervals fit into an hour. The client hears of the end, and need not ask for it.
    assert 175 <= len(polls) <= 182
    assert min(b - a for a, b in pairwise(polls[1:])) >= 20


# -- registration -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("yes", "True or TaskOptions"),
        (None, "True or TaskOptions"),
        (1, "True or TaskOptions"),
    ],
)
def test_what_is_no_option_is_refused(task: Any, message: str) -> None:
    registry = Registry("x", extensions=[Tasks()])
    with pytest.raises(SchemaError, match=message):
        registry.add_tool(lambda: None, name="f", task=task)


def test_without_the_extension_no_tool_is_a_task() -> None:
    registry = Registry("x")
    with pytest.raises(SchemaError, match=r"no extension 'io\.modelcontextprotocol/tasks'"):
        registry.add_tool(lambda: None, name="f", task=True)
    registry.add_tool(lambda: None, name="f", task=False)


@pytest.mark.parametrize(
    "options",
    [
        *({"ttl": 0}, {"ttl": float("nan")}, {"ttl": "1"}, {"ttl": True}),
        *({"timeout": -1}, {"timeout": 10**400}),
        *({"on_restart": "again"}, {"at_once": 1}, {"required": None}),
    ],
)
def test_options_are_checked(options: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"ttl|timeout|on_restart|at_once|required"):
        TaskOptions(**options)


@pytest.mark.parametrize(
    ("name", "expected", "wrong"),
    [
        ("ttl", "a number, more than 0", []),
        ("poll_interval", "a number, more than 0 and finite", [inf]),
        ("lease", "a number, more than 0 and finite", [inf]),
        ("max_running", "a whole number, more than 0 and finite", [inf, 2.5]),
        ("max_queued", "a whole number, more than 0", [0.5]),
        ("max_result_bytes", "a whole number, more than 0", [1000.0]),
    ],
)
def test_numbers_are_checked(name: str, expected: str, wrong: list[Any]) -> None:
    for value in (0, "1", None, True, nan, *wrong):
        with pytest.raises(ValueError, match=f"^{name} must be {expected}, not "):
            Tasks(**{name: value})
    with pytest.raises(TypeError, match="store must be a URL, a path or an open store, not bool"):
        Tasks(store=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("ttl", [1e308, inf])
async def test_the_largest_numbers_are_taken(ttl: float, tmp_path: Path) -> None:
    most: dict[str, Any] = {"max_running": 2**63, "max_queued": inf, "max_result_bytes": inf}
    registry = make(store=tmp_path / "tasks.db", ttl=ttl, poll_interval=1e308, lease=1e308, **most)
    async with client_of(registry, TasksClient()) as client:
        assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3


async def test_one_that_is_not_connected_says_so() -> None:
    ours = TasksClient()
    with pytest.raises(RuntimeError, match="extensions="):
        await ours.get("x")
    async with connect(Registry("none"), extensions=[ours]):
        with pytest.raises(RuntimeError, match=r"client\.extensions"):
            await ours.get("x")
