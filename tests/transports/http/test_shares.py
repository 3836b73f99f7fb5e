"""What one client has of everything that is bounded, so that it keeps no other out."""

from __future__ import annotations

import weakref
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
from trio_mcp import Context, HttpPolicy, Limits, http_app
from trio_mcp.peer.inbound import InboundRequest
from trio_mcp.transports.http.shares import SessionSlots, Shares

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


async def test_who_has_all_its_requests_open_can_answer_cancel_and_leave() -> None:
    async with hosting(registry_of(ask), HttpPolicy(max_concurrent_each=3)) as host:
        client = LegacyClient(host, capabilities=ROOTS)
        await client.initialize()
        calls = [client.begin_call("ask") for _ in range(3)]
        questions = [await call.message() for call in calls]
        assert (await client.begin_call("ask").end()).status == 429
        assert (await client.get().end()).status == 429
        assert await client.reply(questions[0], {"roots": []}) == 202
        assert text_of(await calls[0].message()) == "0"
        await calls[0].end()
        calls.append(client.begin_call("ask"))
        assert await calls[-1].message() is not None
        assert await client.notify("notifications/cancelled", {"requestId": 3}) == 202
        assert await client.delete() == 200
        for call in calls:
            await call.end()


async def test_what_may_not_stay_is_bounded_too() -> None:
    """Requests whose bodies do not come."""
    async with hosting(registry_of(ask), HttpPolicy(max_concurrent_each=2)) as host:
        halves = [await begin_body(host, OTHERS) for _ in range(2 + 32)]
        assert not any(half.ended.is_set() for half in halves)
        assert (await (await begin_body(host, OTHERS)).end()).status == 429
        for half in halves:
            half.disconnect()


# -- long bodies ----------------------------------------------------------------------------------

LONG: int = 100_000
"""Bytes of a body of which a client with room for four of them may have three."""


def room_for(count: int) -> dict[str, Any]:
    return {
        "policy": HttpPolicy(max_received_bytes=count * LONG),
        "limits": Limits(max_message_bytes=LONG + LONG // 3),
    }


async def begin_body(host: Host, address: tuple[str, int]) -> Response:
    """A request with a long body that does not come to its end."""
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    response = host.send("POST", headers=headers, body=None, client=address)
    response.upload(b" " * LONG, more=True)
    await wait_all_tasks_blocked()
    return response


async def test_one_owner_has_three_quarters_of_the_room_for_long_bodies() -> None:
    mine, theirs = ("127.0.0.1", 1), ("127.0.0.2", 1)
    async with hosting(registry_of(echo), **room_for(4)) as host:
        bodies = [await begin_body(host, mine) for _ in range(3)]
        refused = await begin_body(host, mine)
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert "no room for so many long requests" in refused.error["message"]
        client = ModernClient(host)
        assert text_of(await client.call("echo", text="short")) == "short"
        client.address = theirs
        long = "x" * (LONG - 1000)
        assert text_of(await client.call("echo", text=long)) == long
        assert not any(body.ended.is_set() for body in bodies)
        bodies[0].disconnect()
        await bodies[0].end()
        client.address = mine
        assert text_of(await client.call("echo", text=long)) == long
        for body in bodies[1:]:
            body.disconnect()


async def test_who_has_most_long_bodies_makes_room_for_others() -> None:
    async with hosting(registry_of(echo), **room_for(4)) as host:
        mine = [await begin_body(host, ("127.0.0.1", 1)) for _ in range(3)]
        theirs = [await begin_body(host, ("127.0.0.2", 1)) for _ in range(2)]
        assert mine[0].status == 429  # which came first
        refused = await begin_body(host, ("127.0.0.2", 1))  # they have as many as I have
        assert refused.status == 429
        for body in (*mine[1:], *theirs):
            assert not body.ended.is_set()
            body.disconnect()


@pytest.mark.parametrize("kind", [ModernClient, LegacyClient])
async def test_a_long_body_counts_until_its_call_has_ended(
    kind: type[ModernClient] | type[LegacyClient],
) -> None:
    """In a session, that may be after its client has left."""
    go_on = trio.Event()

    async def wait(text: str) -> int:
        await go_on.wait()
        return len(text)

    long = "x" * LONG
    async with hosting(registry_of(wait, echo), **room_for(2)) as host:
        client = kind(host)
        if isinstance(client, LegacyClient):
            await client.initialize()
        call = client.begin_call("wait", text=long)
        await wait_all_tasks_blocked()
        if isinstance(client, LegacyClient):
            call.disconnect()
            await call.end()
        refused = await client.begin_call("echo", text=long).end()
        assert refused.status == 429
        go_on.set()
        if isinstance(client, ModernClient):
            assert text_of(await call.answer()) == str(len(long))
        await wait_all_tasks_blocked()
        assert text_of(await client.call("echo", text=long)) == long


async def test_a_subscription_keeps_no_long_body() -> None:
    async with hosting(registry_of(echo), **room_for(2)) as host:
        client = ModernClient(host)
        params = {"notifications": {"toolsListChanged": True}, "more": "x" * LONG}
        stream = client.begin("subscriptions/listen", params)
        assert await stream.message() is not None
        long = "x" * (LONG - 1000)
        assert text_of(await client.call("echo", text=long)) == long
        stream.disconnect()


def test_the_longest_message_must_have_room() -> None:
    with pytest.raises(ValueError, match="which is less: raise it"):
        http_app(registry_of(echo), policy=HttpPolicy(max_received_bytes=1_000_000))


def test_a_session_has_hold_of_its_clients_slots_only_while_it_has_a_call() -> None:
    shares = Shares(HttpPolicy(max_concurrent_each=2))
    sessions = [SessionSlots(5, shares, "alice") for _ in range(3)]
    calls = [InboundRequest() for _ in sessions]
    taken = [session.take(call) for session, call in zip(sessions, calls, strict=True)]
    assert taken == [True, True, False]
    shares.slots_of.cache_clear()
    assert shares.slots_of("alice").free == 0
    for session, call in zip(reversed(sessions), reversed(calls), strict=True):
        session.give_back(call)
    for call in calls[:2]:
        assert sessions[2].take(call)
    for call in calls[:2]:
        assert shares.slots_of("alice").free < 2
        sessions[2].give_back(call)
    assert shares.slots_of("alice").free == 2
    idle = weakref.ref(shares.slots_of("alice"))
    shares.slots_of.cache_clear()
    assert idle() is None
