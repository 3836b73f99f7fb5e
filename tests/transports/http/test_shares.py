"""What one client has of everything that is bounded, so that it keeps no other out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.support.client import serving
from tests.support.tools import echo, registry_of, text_of
from tests.transports.http.support import (
    Host,
    LegacyClient,
    ModernClient,
    Response,
    Worker,
    hosting,
)
from tests.transports.http.test_app_sse import PATH, SseClient
from trio_mcp import Context, HttpPolicy, Limits

pytestmark = pytest.mark.requirement("F2")

ROOTS: dict[str, Any] = {"roots": {}}
OTHERS = ("127.0.0.2", 50000)


async def ask(context: Context) -> int:
    return len(await context.roots())


def ask_in_thread(context: Context) -> int:
    return len(trio.from_thread.run(context.roots))


async def ask_and_go_on(context: Context) -> str:
    await context.roots()
    return "went on"


async def asked(host: Host, kind: type[LegacyClient], tool: str = "ask") -> LegacyClient:
    """A client with a call that has asked it for its roots, and waits.

    In a session it does so without a connection.
    """
    client = kind(host, capabilities=ROOTS)
    if isinstance(client, SseClient):
        await client.begin_session()
        question = await client.ask(client.call_of(tool))
    else:
        await client.initialize()
        call = client.begin_call(tool)
        question = await call.message()
        call.disconnect()
        await call.end()
    assert question["method"] == "roots/list"
    return client


@pytest.mark.parametrize("kind", [LegacyClient, SseClient])
async def test_a_call_that_waits_for_its_client_holds_no_slot(kind: type[LegacyClient]) -> None:
    """Whose only slot it was."""
    policy = HttpPolicy(max_concurrent=1)
    async with hosting(registry_of(ask, echo), policy, sse_path=PATH) as host:
        await asked(host, kind)
        other = ModernClient(host)
        other.address = OTHERS
        assert text_of(await other.call("echo", text="x")) == "x"


@pytest.mark.parametrize("tool", [ask, ask_in_thread])
async def test_nor_a_slot_of_its_tool_nor_a_place_for_threads(tool: Callable[..., Any]) -> None:
    registry = registry_of(echo)
    registry.add_tool(tool, name="ask", max_concurrent=1)
    registry.add_tool(ask_in_thread, name="ask_in_any_thread")

    @registry.tool
    def in_thread() -> str:
        return "there is a thread"

    async with serving(registry, Limits(max_worker_threads=1), capabilities=ROOTS) as (client, _):
        questions = []
        for name in ("ask", "ask", "ask_in_any_thread"):
            await client.send(client.request_of("tools/call", {"name": name}))
            questions.append(await client.receive())
        assert {question["method"] for question in questions} == {"roots/list"}
        assert text_of(await client.call("in_thread")) == "there is a thread"
        for question in questions:
            await client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
            assert text_of(await client.receive()) == "0"


async def test_an_answered_call_waits_for_a_slot_again() -> None:
    worker = Worker()
    registry = worker.registry
    registry.add_tool(ask_and_go_on)
    async with hosting(registry, HttpPolicy(max_concurrent=1)) as host:
        client = LegacyClient(host, capabilities=ROOTS)
        await client.initialize()
        call = client.begin_call("ask_and_go_on")
        question = await call.message()
        other = ModernClient(host)
        work = other.begin_call("work_quietly")
        await worker.until(1)
        assert await client.reply(question, {"roots": []}) == 202
        await wait_all_tasks_blocked()
        assert not call.ended.is_set()
        worker.go_on.set()
        assert text_of(await call.message()) == "went on"
        assert text_of(await work.answer()) == "done"
        assert text_of(await other.call("echo", text="all is free")) == "all is free"


@pytest.mark.parametrize("how", ["cancel", "delete", "answer late"])
async def test_slots_are_whole_again_however_a_question_ends(how: str) -> None:
    registry = registry_of(ask, echo)
    async with hosting(registry, HttpPolicy(max_concurrent=1, max_concurrent_each=2)) as host:
        for _ in range(3):
            client = LegacyClient(host, capabilities=ROOTS)
            await client.initialize()
            call = client.begin_call("ask")
            question = await call.message()
            if how == "cancel":
                params = {"requestId": max(client.methods)}
                assert await client.notify("notifications/cancelled", params) == 202
            elif how == "delete":
                assert await client.delete() == 200
            await wait_all_tasks_blocked()
            if how != "delete":
                await client.reply(question, {"roots": []})
            await call.end()
            assert text_of(await ModernClient(host).call("echo", text="x")) == "x"


async def test_what_waits_for_one_client_is_bounded() -> None:
    policy = HttpPolicy(max_concurrent=1, max_concurrent_each=2)
    async with hosting(registry_of(ask, echo), policy) as host:
        waiting = [await asked(host, LegacyClient) for _ in range(2)]
        mine, theirs = ModernClient(host), ModernClient(host)
        theirs.address = OTHERS
        call = mine.begin_call("echo", text="at last")
        assert text_of(await theirs.call("echo", text="at once")) == "at once"
        await wait_all_tasks_blocked()
        assert not call.ended.is_set()
        assert await waiting[0].delete() == 200
        assert text_of(await call.answer()) == "at last"


def subscribe(client: ModernClient) -> Response:
    return client.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}})


async def test_one_address_has_so_many_open_requests() -> None:
    async with hosting(registry_of(echo), HttpPolicy(max_concurrent_each=3)) as host:
        mine, theirs = ModernClient(host), ModernClient(host)
        theirs.address = OTHERS
        streams = [subscribe(mine) for _ in range(3)]
        for stream in streams:
            assert await stream.message() is not None
        refused = await subscribe(mine).end()
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert "Too many open requests" in refused.error["message"]
        assert (await host.ask("GET", "/health")).status == 200
        assert text_of(await theirs.call("echo", text="x")) == "x"
        streams[0].disconnect()
        await streams[0].end()
        assert text_of(await mine.call("echo", text="x")) == "x"
        for stream in streams[1:]:
            stream.disconnect()
