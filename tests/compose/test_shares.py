"""What one caller takes of a server behind a proxy, another one does not lack."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tests.compose.support import named
from trio_mcp import Client, Context, Handlers, McpError, Registry, Remote, connect
from trio_mcp.client.client import session_of
from trio_mcp.client.session import ClientRequest
from trio_mcp.compose import open_proxy
from trio_mcp.compose.tasks import PassedTasks
from trio_mcp.extensions.tasks import Tasks, TasksClient
from trio_mcp.middleware import McpRequest

pytestmark = pytest.mark.requirement("L4")
LIMIT = 60


# -- questions that are open ----------------------------------------------------------------------


async def ask(context: Context) -> str:
    """Ask for a name."""
    return str((await context.elicit("Name?", str)).value)


@asynccontextmanager
async def asking(**options: Any) -> AsyncIterator[Registry]:
    """A registry with a legacy server in it that asks."""
    remote = Remote(named("asks", ask), era="legacy", name="asks", **options)
    registry = Registry("front")
    registry.mount(remote)
    with trio.fail_after(LIMIT):
        async with remote.running():
            await remote.ready()
            yield registry


async def leave_open(client: Client, number: int) -> dict[str, Any]:
    """Have the server ask, with other capabilities each time, and do not answer."""
    meta = {
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "n": number}}
    }
    params = {"name": "ask", "arguments": {}, "_meta": meta}
    request = ClientRequest(method="tools/call", params=params)
    result = await session_of(client).exchange(request)
    assert result["resultType"] == "input_required"
    return {**params, "requestState": result["requestState"], "inputResponses": {}}


async def answer(params: Any) -> Any:
    return {"action": "accept", "content": {"value": "Ada"}}


@pytest.mark.parametrize("down", ["modern", "legacy"])
async def test_open_questions_of_one_leave_connections_for_others(down: Any) -> None:
    handlers = Handlers(elicitation=answer)
    async with (
        asking(max_callers=4, reconnect_timeout=5) as registry,
        connect(registry, era="modern") as greedy,
        connect(registry, era=down, handlers=handlers) as other,
    ):
        for number in range(4):
            await leave_open(greedy, number)
        assert (await other.call_tool("ask")).text == "Ada"


async def test_open_questions_of_one_leave_room_for_those_of_others() -> None:
    async with (
        asking(max_held=3) as registry,
        connect(registry, era="modern") as greedy,
        connect(registry, era="modern", handlers=Handlers(elicitation=answer)) as other,
    ):
        held = [await leave_open(greedy, 0) for _ in range(3)]
        with pytest.raises(McpError, match="Too many questions are open"):
            await leave_open(greedy, 0)
        assert (await other.call_tool("ask")).text == "Ada"
        for resumed, params in enumerate(held):
            request = ClientRequest(method="tools/call", params=params)
            if resumed:
                again = await session_of(greedy).exchange(request)
                assert again["resultType"] == "input_required"
            else:  # the oldest one made room
                with pytest.raises(McpError, match="request state is not acceptable"):
                    await session_of(greedy).exchange(request)


# -- tasks ----------------------------------------------------------------------------------------


def slow(seen: list[str]) -> Registry:
    """A server with a task that lasts, and a list of what it is asked."""

    async def note(request: McpRequest, call_next: Any) -> Any:
        seen.append(request.method)
        return await call_next(request)

    registry = Registry("slow", extensions=[Tasks(poll_interval=1)], middleware=[note])

    @registry.tool(task=True)
    async def last(seconds: float) -> str:
        await trio.sleep(seconds)
        return "done"

    return registry


async def test_many_tasks_of_one_leave_those_of_others_known() -> None:
    passed = PassedTasks(limit=10)
    registry = Registry("front", extensions=[passed])
    registry.mount(Remote(slow([]), tasks=passed))
    ours, theirs = TasksClient(), TasksClient()
    with trio.fail_after(LIMIT):
        async with (
            connect(registry, extensions=[ours]),
            connect(registry, extensions=[theirs]),
        ):
            mine = [(await ours.start("last", {"seconds": 1000})).id for _ in range(3)]
            many = [(await theirs.start("last", {"seconds": 1000})).id for _ in range(20)]
            for id in (*mine, *many[-7:]):
                assert (await ours.get(id)).status == "working"
            with pytest.raises(McpError, match="Task not found"):
                await theirs.get(many[0])


async def test_where_all_have_one_task_the_oldest_makes_room_for_one_who_has_none() -> None:
    passed = PassedTasks(limit=1)
    registry = Registry("front", extensions=[passed])
    registry.mount(Remote(slow([]), tasks=passed))
    first, second = TasksClient(), TasksClient()
    with trio.fail_after(LIMIT):
        async with (
            connect(registry, extensions=[first]),
            connect(registry, extensions=[second]),
        ):
            older = await first.start("last", {"seconds": 1000})
            newer = await second.start("last", {"seconds": 1000})
            assert (await second.get(newer.id)).status == "working"
            with pytest.raises(McpError, match="Task not found"):
                await first.get(older.id)


async def test_a_task_is_followed_for_as_long_as_a_client_wants_to_know(
    autojump_clock: object,
) -> None:
    seen: list[str] = []
    tasks = TasksClient()
    async with open_proxy(slow(seen)) as registry, connect(registry, extensions=[tasks]) as client:
        task = await tasks.start("last", {"seconds": 1000})
        async with client.subscribe(extensions={"taskIds": [task.id]}) as changes:
            assert changes.extensions == {"taskIds": [task.id]}
            await trio.sleep(10.5)
        asked = seen.count("tasks/get")
        assert asked > 5
        await trio.sleep(100)
        assert seen.count("tasks/get") <= asked + 1
        async with client.subscribe(extensions={"taskIds": [task.id]}):
            await trio.sleep(10.5)
            assert seen.count("tasks/get") > asked + 5
