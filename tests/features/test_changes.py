"""Changes: who is told of what, when, and how it ends; for servers and for clients."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from itertools import pairwise
from typing import Any

import pytest
import trio
from trio.testing import lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from tests.client.support import beside, children, line_of, served
from tests.features import library
from tests.features.ways import (
    LOOPBACK,
    client_of,
    command,
    each_client,
    each_quick_client,
    each_way,
    not_found,
    patience,
    reaching,
)
from tests.support import official
from tests.support.client import LEGACY, REVISIONS, RawClient, modern_meta, serving
from tests.support.errors import own_error
from tests.support.processes import running
from tests.support.tools import each_legacy_revision, each_revision, error_of, some_revisions
from tests.support.turns import turns_of_another_task
from trio_mcp import (
    Client,
    Disconnected,
    Limits,
    McpError,
    Registry,
    connect,
    handle_message,
    serve_stream,
)
from trio_mcp.errors import CallTimeout, NotConnected, OutputClosed, ProtocolError, ServerExited
from trio_mcp.registry import catalogue_of
from trio_mcp.registry.changes import Changes, ListChanged, Listener, Notice, ResourceUpdated

pytestmark = pytest.mark.requirement("H2")

MODERN = "2026-07-28"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
UPDATED = "notifications/resources/updated"
KINDS = ("tools", "resources", "prompts")
ONE, TWO, USER = "x:one", "x:two", "users://7"


async def nothing() -> str:
    return ""


async def by_id(id: int) -> str:
    return str(id)


def make(**options: Any) -> Registry:
    """A registry with one of each, and two resources."""
    registry = Registry("changing", **options)
    registry.add_tool(nothing)
    registry.add_prompt(nothing)
    registry.add_resource(ONE, nothing)
    registry.add_resource(TWO, nothing)
    registry.add_resource("users://{id}", by_id)
    return registry


def nobody_listens(registry: Registry) -> bool:
    return (
        not catalogue_of(registry).changes.listeners and not catalogue_of(registry).changes.watchers
    )


@asynccontextmanager
async def changing(
    registry: Registry, revision: str = MODERN, limits: Limits | None = None, **options: Any
) -> AsyncIterator[RawClient]:
    """A client of a registry; at the end nothing is kept for it."""
    async with serving(registry, limits, revision=revision, **options) as (client, _):
        yield client
    assert nobody_listens(registry)


async def listen(client: RawClient, id: Any = None, **wanted: Any) -> Any:
    """Open a subscription and return its id, once it is acknowledged."""
    request = client.request_of("subscriptions/listen", {"notifications": wanted})
    if id is not None:
        request["id"] = id
    await client.send(request)
    message = await client.receive()
    assert message["method"] == ACKNOWLEDGED, message
    assert message["params"]["_meta"] == {SUBSCRIPTION: request["id"]}
    client.told.append(message)
    return request["id"]


async def subscribe(client: RawClient, *uris: str) -> None:
    for uri in uris:
        answer = await client.request("resources/subscribe", {"uri": uri})
        assert answer["result"] == {}


async def told(client: RawClient) -> list[Any]:
    """All that came and comes before the answer to a request that is sent now.

    The answer stands behind whatever was to be told already.
    """
    await wait_all_tasks_blocked()
    client.told.clear()
    method = "ping" if client.revision in LEGACY else "server/discover"
    answer = await client.request(method)
    assert "result" in answer
    return list(client.told)


def updated(uri: str, id: Any = None) -> dict[str, Any]:
    meta = {} if id is None else {"_meta": {SUBSCRIPTION: id}}
    return {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri, **meta}}


def list_changed(kind: str, id: Any = None) -> dict[str, Any]:
    params = {} if id is None else {"_meta": {SUBSCRIPTION: id}}
    return {"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed", "params": params}


def change_everything(registry: Registry) -> None:
    """Make every change that there is."""
    for uri in (ONE, TWO, USER):
        registry.notify_resource_updated(uri)
    registry.add_tool(nothing, name="later")
    registry.add_prompt(nothing, name="later")
    registry.add_resource("x:later", nothing)


# -- modern: what is acknowledged -----------------------------------------------------------------


async def test_what_is_acknowledged_is_what_will_be_told() -> None:
    registry = make()
    everything = {f"{kind}ListChanged": True for kind in KINDS}
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        (everything, everything),
        ({"toolsListChanged": True}, {"toolsListChanged": True}),
        ({"toolsListChanged": False, "promptsListChanged": True}, {"promptsListChanged": True}),
        ({"resourceSubscriptions": []}, {}),
        ({"resourceSubscriptions": [ONE, USER]}, {"resourceSubscriptions": [ONE, USER]}),
        ({"resourceSubscriptions": [ONE, ONE]}, {"resourceSubscriptions": [ONE]}),
        (
            {"resourceSubscriptions": ["no:one", TWO, "users://x", ""]},
            {"resourceSubscriptions": [TWO]},
        ),
        ({"resourceSubscriptions": ["no:one"]}, {}),
        ({"x.test/other": {"a": 1}, "toolsListChanged": True}, {"toolsListChanged": True}),
    ]
    async with changing(registry) as client:
        for wanted, agreed in cases:
            await listen(client, **wanted)
            assert client.told[-1]["params"]["notifications"] == agreed


async def test_what_a_server_does_not_have_is_not_agreed_to() -> None:
    registry = Registry("tools only")
    registry.add_tool(nothing)
    async with changing(registry) as client:
        wanted: dict[str, Any] = {f"{kind}ListChanged": True for kind in KINDS}
        await listen(client, **wanted, resourceSubscriptions=[ONE])
        assert client.told[-1]["params"]["notifications"] == {"toolsListChanged": True}


@pytest.mark.parametrize("id", [0, 7, -3, 2**60, "seven", "7", "", "ü ☃"])
async def test_the_subscription_has_the_id_of_its_request(id: Any) -> None:
    registry = make()
    async with changing(registry) as client:
        assert await listen(client, id, resourceSubscriptions=[ONE]) == id
        registry.notify_resource_updated(ONE)
        message = await client.receive()
        assert message == updated(ONE, id)
        assert type(message["params"]["_meta"][SUBSCRIPTION]) is type(id)


@pytest.mark.requirement("A12")
@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (None, '"notifications" must be an object'),
        ([], '"notifications" must be an object'),
        ({"toolsListChanged": 1}, 'toolsListChanged" must be a boolean, not a number'),
        ({"promptsListChanged": None}, 'promptsListChanged" must be a boolean, not null'),
        ({"resourceSubscriptions": ONE}, 'resourceSubscriptions" must be an array, not a string'),
        ({"resourceSubscriptions": [5]}, 'resourceSubscriptions[0]" must be a string'),
        ({"resourceSubscriptions": None}, 'resourceSubscriptions" must be an array, not null'),
    ],
)
async def test_a_filter_that_is_none_is_refused(wanted: Any, words: str) -> None:
    registry = make()
    async with changing(registry) as client:
        answer = await client.request("subscriptions/listen", {"notifications": wanted})
        code, message = error_of(answer)
        assert code == -32602
        assert words in message
        answer = await client.request("subscriptions/listen")
        assert error_of(answer)[0] == -32602
        assert nobody_listens(registry) or not catalogue_of(registry).changes.watchers


async def test_the_acknowledgement_comes_first_whatever_happens_meanwhile() -> None:
    registry = make()

    @registry.tool
    async def touch() -> None:
        registry.notify_resource_updated(ONE)

    async with changing(registry) as client:
        requests = []
        for _ in range(20):
            wanted = {"resourceSubscriptions": [ONE], "toolsListChanged": True}
            requests.append(client.request_of("subscriptions/listen", {"notifications": wanted}))
            requests.append(client.request_of("tools/call", {"name": "touch"}))
        await client.send(*requests)
        seen: set[Any] = set()
        count = 0
        while count < 20 or len(seen) < 20:
            message = await client.receive()
            if "method" not in message:
                count += 1
                continue
            id = message["params"]["_meta"][SUBSCRIPTION]
            assert (message["method"] == ACKNOWLEDGED) is (id not in seen)
            seen.add(id)
        assert len(seen) == 20


# -- who is told ----------------------------------------------------------------------------------


async def test_modern_clients_are_told_what_they_asked_for_and_nothing_else() -> None:
    registry = make()
    async with changing(registry) as client:
        change_everything(registry)
        assert await told(client) == [], "nobody has asked yet"
        await listen(client, "a", resourceSubscriptions=[ONE])
        await listen(client, "b", resourceSubscriptions=[TWO, USER])
        await listen(client, "c", toolsListChanged=True)
        await listen(client, "d", promptsListChanged=True, resourcesListChanged=True)
        await listen(client, "e")
        for name in ("later",):
            registry.remove_tool(name)
            registry.remove_prompt(name)
        registry.remove_resource("x:later")
        for uri in (ONE, TWO, USER, "users://8", "x:three"):
            registry.notify_resource_updated(uri)
        found = await told(client)
        assert sorted(found, key=str) == sorted(
            [
                updated(ONE, "a"),
                updated(TWO, "b"),
                updated(USER, "b"),
                list_changed("tools", "c"),
                list_changed("prompts", "d"),
                list_changed("resources", "d"),
            ],
            key=str,
        )


@each_legacy_revision
async def test_legacy_clients_are_told_of_lists_and_of_what_they_subscribed_to(
    revision: str,
) -> None:
    registry = make()
    async with changing(registry, revision) as client:
        await subscribe(client, ONE, USER)
        change_everything(registry)
        found = await told(client)
        assert sorted(found, key=str) == sorted(
            [updated(ONE), updated(USER), *(list_changed(kind) for kind in KINDS)], key=str
        )


@each_legacy_revision
async def test_those_who_did_not_shake_hands_are_told_only_what_they_subscribed_to(
    revision: str,
) -> None:
    registry = make()
    async with changing(registry, revision, shake_hands=False) as client:
        change_everything(registry)
        assert await told(client) == []
        await subscribe(client, ONE)
        change_everything_again(registry)
        assert await told(client) == [updated(ONE)]


def change_everything_again(registry: Registry) -> None:
    registry.remove_tool("later")
    registry.remove_prompt("later")
    registry.remove_resource("x:later")
    change_everything(registry)


async def test_kinds_that_were_not_declared_are_not_announced() -> None:
    """A server that had no prompts at the handshake has said that it has none."""
    registry = Registry("tools only")
    registry.add_tool(nothing)
    async with changing(registry, "2025-11-25") as client:
        registry.add_prompt(nothing)
        registry.add_tool(nothing, name="later")
        assert await told(client) == [list_changed("tools")]


@each_revision
async def test_what_is_told_of_a_list_can_be_listed(revision: str) -> None:
    """The templates are told of with the resources."""
    registry = make()
    async with changing(registry, revision) as client:
        if revision == MODERN:
            await listen(client, "s", resourcesListChanged=True)
        id = "s" if revision == MODERN else None
        registry.add_resource("later://{id}", by_id)
        assert await client.receive() == list_changed("resources", id)
        answer = await client.request("resources/templates/list")
        shown = [each["uriTemplate"] for each in answer["result"]["resourceTemplates"]]
        assert shown == ["users://{id}", "later://{id}"]
        registry.remove_resource("later://{id}")
        assert await client.receive() == list_changed("resources", id)


async def test_one_connection_may_have_both_eras() -> None:
    registry = make()
    async with changing(registry, "2025-11-25") as client:
        await subscribe(client, ONE)
        client.revision = MODERN
        await listen(client, "m", resourceSubscriptions=[ONE])
        client.judging = False
        registry.notify_resource_updated(ONE)
        found = [await client.receive(), await client.receive()]
        assert sorted(found, key=str) == sorted([updated(ONE), updated(ONE, "m")], key=str)


async def test_each_connection_hears_what_it_asked_for() -> None:
    registry = make()
    async with (
        serving(registry, revision=MODERN) as (modern, _),
        serving(registry, revision="2025-06-18") as (legacy, _),
        serving(registry, revision="2025-06-18") as (other, _),
    ):
        await listen(modern, "m", resourceSubscriptions=[ONE, TWO])
        await subscribe(legacy, ONE)
        registry.notify_resource_updated(ONE)
        registry.notify_resource_updated(TWO)
        assert await told(modern) == [updated(ONE, "m"), updated(TWO, "m")]
        assert await told(legacy) == [updated(ONE)]
        assert await told(other) == []
    assert nobody_listens(registry)


@each_way
async def test_changes_by_every_way(way: str, revision: str) -> None:
    """A tool makes them: a thousand at once are one."""
    async with reaching(way, revision) as client:
        if revision == MODERN:
            id = await listen(
                client, resourceSubscriptions=[library.CONFIG], promptsListChanged=True
            )
        else:
            id = None
            await subscribe(client, library.CONFIG)
        client.told.clear()
        for name, arguments in (
            ("touch", {"uri": library.POEM}),
            ("touch", {"uri": library.CONFIG, "times": 1000}),
            ("add", {"kind": "prompts", "name": "later"}),
        ):
            params = {"name": name, "arguments": arguments}
            answer = await client.request("tools/call", params)
            assert not answer["result"].get("isError"), answer
        while len(client.told) < 2:  # what is told may come after the answer
            client.told.append(await client.receive())
        assert client.told == [updated(library.CONFIG, id), list_changed("prompts", id)]
        if revision == MODERN:
            await client.cancel(id)
        else:
            await client.request("resources/unsubscribe", {"uri": library.CONFIG})


# -- bursts ---------------------------------------------------------------------------------------


@some_revisions
async def test_a_burst_of_changes_is_told_once(revision: str) -> None:
    registry = make()
    async with changing(registry, revision) as client:
        id = None
        if revision == MODERN:
            id = await listen(client, toolsListChanged=True, resourceSubscriptions=[ONE, TWO])
        else:
            await subscribe(client, ONE, TWO)
        for number in range(300):
            registry.notify_resource_updated(ONE)
            registry.notify_resource_updated(TWO)
            registry.add_tool(nothing, name=f"tool{number}")
        for number in range(150):
            registry.remove_tool(f"tool{number}")
        assert await told(client) == [updated(ONE, id), updated(TWO, id), list_changed("tools", id)]
        registry.notify_resource_updated(ONE)
        assert await told(client) == [updated(ONE, id)], "and the next change is told again"


@each_revision
async def test_changes_may_be_announced_in_any_thread(revision: str) -> None:
    registry = make()
    async with changing(registry, revision) as client:
        id = None
        if revision == MODERN:
            id = await listen(client, toolsListChanged=True, resourceSubscriptions=[ONE])
        else:
            await subscribe(client, ONE)

        def announce() -> None:
            for _ in range(1000):
                registry.notify_resource_updated(ONE)
            registry.add_tool(nothing, name="later")

        await trio.to_thread.run_sync(announce)
        found = await told(client)
        assert 1 <= found.count(updated(ONE, id)) <= 1000
        assert found.count(list_changed("tools", id)) == 1
        assert found[-1] in (updated(ONE, id), list_changed("tools", id))


async def test_no_change_of_many_threads_is_lost() -> None:
    registry = Registry("many")
    uris = [f"x:{number}" for number in range(100)]
    for uri in uris:
        registry.add_resource(uri, nothing)
    start = threading.Barrier(4)

    def announce(number: int) -> None:
        start.wait(10)
        for uri in uris[number::4]:
            registry.notify_resource_updated(uri)

    async with changing(registry) as client:
        client.judging = False
        await listen(client, "s", resourceSubscriptions=uris)
        for _ in range(20):
            async with trio.open_nursery() as nursery:
                for number in range(4):
                    nursery.start_soon(trio.to_thread.run_sync, announce, number)
            found = {json.dumps(each) for each in await told(client)}
            assert found == {json.dumps(updated(uri, "s")) for uri in uris}


async def test_changes_announced_outside_of_any_loop_or_after_it() -> None:
    """A registry belongs to nobody: what nobody listens to is no trouble."""
    registry = make()

    async def main() -> None:
        ours, theirs = memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_stream, registry, theirs)
            client = RawClient(ours, MODERN)
            await listen(client, resourceSubscriptions=[ONE])
            [kept] = catalogue_of(registry).changes.watchers_of(ONE)
            listeners.append(kept)
            await ours.aclose()

    listeners: list[Any] = []
    registry.notify_resource_updated(ONE)
    await trio.to_thread.run_sync(trio.run, main)
    assert nobody_listens(registry)
    registry.notify_resource_updated(ONE)
    listeners[0].note(ResourceUpdated(ONE))  # as a thread that was about to


# -- how it ends ----------------------------------------------------------------------------------


async def test_a_cancelled_subscription_ends_without_an_answer() -> None:
    registry = make()
    async with changing(registry) as client:
        first = await listen(client, resourceSubscriptions=[ONE], toolsListChanged=True)
        second = await listen(client, resourceSubscriptions=[ONE])
        await client.cancel(first)
        await client.cancel("unknown")
        assert await told(client) == []
        assert len(catalogue_of(registry).changes.watchers_of(ONE)) == 1
        registry.notify_resource_updated(ONE)
        registry.add_tool(nothing, name="later")
        assert await told(client) == [updated(ONE, second)]
        await client.cancel(second)
        await wait_all_tasks_blocked()
        registry.notify_resource_updated(ONE)
        assert await told(client) == []
        assert not catalogue_of(registry).changes.watchers
        third = await listen(client, first, resourceSubscriptions=[ONE])
        assert third == first, "the id is free again"


async def test_a_change_and_a_cancellation_at_once() -> None:
    """Once the cancellation was read, nothing more is said, and never an answer."""
    registry = make()

    @registry.tool
    async def touch() -> None:
        registry.notify_resource_updated(ONE)

    async with changing(registry) as client:
        for _ in range(10):
            id = await listen(client, resourceSubscriptions=[ONE])
            registry.notify_resource_updated(ONE)
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
            await client.send({**cancel, "params": {"requestId": id}})
            found = await told(client)
            assert found in ([], [updated(ONE, id)])


async def test_a_subscription_that_is_cancelled_before_it_began_says_nothing() -> None:
    registry = make()
    async with changing(registry) as client:
        wanted = {"resourceSubscriptions": [ONE]}
        request = client.request_of("subscriptions/listen", {"notifications": wanted})
        cancel = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": request["id"]},
        }
        await client.send_bytes(line_of(request) + line_of(cancel))
        assert await told(client) == []
        assert not catalogue_of(registry).changes.watchers


@each_legacy_revision
async def test_unsubscribing_ends_it(revision: str) -> None:
    registry = make()
    async with changing(registry, revision) as client:
        await subscribe(client, ONE, TWO)
        registry.notify_resource_updated(ONE)
        answer = await client.request("resources/unsubscribe", {"uri": ONE})
        assert answer["result"] == {}
        registry.notify_resource_updated(ONE)
        registry.notify_resource_updated(TWO)
        assert await told(client) == [updated(TWO)]
        for uri in (ONE, "no:one", ""):  # again, and what never was
            answer = await client.request("resources/unsubscribe", {"uri": uri})
            assert answer["result"] == {}
        await subscribe(client, ONE, ONE)
        registry.notify_resource_updated(ONE)
        assert await told(client) == [updated(ONE)], "subscribed twice is subscribed"
        await client.request("resources/unsubscribe", {"uri": ONE})
        registry.notify_resource_updated(ONE)
        assert await told(client) == [], "and ended once"


async def test_what_was_not_told_when_it_is_unsubscribed_is_told_no_more() -> None:
    """Not even if a thread announced it, and the loop has not heard of that yet."""
    registry = make()
    with catalogue_of(registry).changes.listen(["tools"], [ONE, TWO]) as listener:
        registry.notify_resource_updated(ONE)
        listener.unwatch(ONE)
        thread = threading.Thread(target=registry.notify_resource_updated, args=[TWO])
        thread.start()
        thread.join()
        listener.unwatch(TWO)
        await wait_all_tasks_blocked()
        registry.add_tool(nothing, name="later")
        assert await listener.next() == ListChanged("tools")
    assert nobody_listens(registry)


@each_legacy_revision
async def test_only_what_is_there_can_be_subscribed_to(revision: str) -> None:
    registry = make()
    async with changing(registry, revision) as client:
        for uri in ("no:one", "users://x", ""):
            answer = await client.request("resources/subscribe", {"uri": uri})
            assert own_error(answer) == not_found(revision, uri)
        for method in ("resources/subscribe", "resources/unsubscribe"):
            for params in ({}, {"uri": None}, {"uri": 5}, {"uri": [ONE]}):
                answer = await client.request(method, params)
                code, message = error_of(answer)
                assert code == -32602
                assert '"uri" must be a string' in message
        assert not catalogue_of(registry).changes.watchers


@pytest.mark.requirement("A12")
async def test_each_era_has_its_own_methods() -> None:
    registry = make()
    async with changing(registry) as client:
        for method in ("resources/subscribe", "resources/unsubscribe"):
            assert error_of(await client.request(method, {"uri": ONE}))[0] == -32601
    for revision in LEGACY:
        async with changing(registry, revision) as client:
            answer = await client.request("subscriptions/listen", {"notifications": {}})
            assert error_of(answer)[0] in (-32601, -32602)
            assert "subscriptions/listen" in answer["error"]["message"]


async def test_an_id_that_is_in_use_opens_no_second_subscription() -> None:
    registry = make()
    async with changing(registry) as client:
        id = await listen(client, "twice", resourceSubscriptions=[ONE])
        request = client.request_of("subscriptions/listen", {"notifications": {}})
        await client.send({**request, "id": id})
        assert error_of(await client.receive())[0] == -32600
        registry.notify_resource_updated(ONE)
        assert await told(client) == [updated(ONE, id)]


def closing(id: Any) -> dict[str, Any]:
    info = {"io.modelcontextprotocol/serverInfo": {"name": "changing", "version": "0.0.0"}}
    result = {"resultType": "complete", "_meta": {**info, SUBSCRIPTION: id}}
    return {"jsonrpc": "2.0", "id": id, "result": result}


@pytest.mark.requirement("B9")
@pytest.mark.parametrize("how", ["stop", "shutdown", "eof"])
async def test_the_end_of_the_server_closes_subscriptions_with_a_result(
    how: str, autojump_clock: Any
) -> None:
    """At once: an open subscription uses up no grace."""
    registry = make()
    limits = Limits(eof_grace=1000, shutdown_grace=1000)
    async with serving(registry, limits, revision=MODERN) as (client, handle):
        ids = [await listen(client, name, resourceSubscriptions=[ONE]) for name in "abcdefghijkl"]
        started = trio.current_time()
        registry.notify_resource_updated(ONE)
        ends = []
        if how == "stop":
            handle.stop()
        elif how == "eof":
            await client.send_eof()
        else:
            request = client.request_of("shutdown")
            await client.send(request)
            ends = [request["id"]]
        messages = await client.receive_all()
        assert trio.current_time() == started
    answers = [each for each in messages if "result" in each and each["id"] not in ends]
    assert sorted(answers, key=str) == sorted([closing(id) for id in ids], key=str)
    for id in ids:
        about = [each for each in messages if closing(id) == each or SUBSCRIPTION in str(each)]
        own = [each for each in about if f"'{id}'" in str(each)]
        assert own == [updated(ONE, id), closing(id)], "what had changed is told before the end"
    assert nobody_listens(registry)


@pytest.mark.requirement("B8")
async def test_the_end_of_the_input_gives_running_calls_their_grace_all_the_same(
    autojump_clock: Any,
) -> None:
    registry = make()

    @registry.tool
    async def slow() -> str:
        await trio.sleep(3)
        registry.notify_resource_updated(ONE)
        return "done"

    async with serving(registry, Limits(eof_grace=10), revision=MODERN) as (client, _):
        id = await listen(client, resourceSubscriptions=[ONE])
        call = await client.start("slow")
        started = trio.current_time()
        await client.send_eof()
        messages = await client.receive_all()
        assert trio.current_time() - started == pytest.approx(3)
        assert [each["id"] for each in messages] == [id, call]
        assert messages[1]["result"]["content"] == [{"type": "text", "text": "done"}]


async def test_no_subscription_is_opened_while_the_server_stops(autojump_clock: Any) -> None:
    registry = make()

    @registry.tool
    async def slow() -> None:
        await trio.sleep(3)

    async with serving(registry, revision=MODERN) as (client, handle):
        await client.start("slow")
        request = client.request_of("subscriptions/listen", {"notifications": {}})
        await wait_all_tasks_blocked()
        handle.stop()
        await client.send(request)
        messages = await client.receive_all()
        assert not [each for each in messages if each.get("method") == ACKNOWLEDGED]


@pytest.mark.parametrize("way", ["stdio"])
@pytest.mark.parametrize("how", ["eof", *(["signal"] if os.name == "posix" else [])])
async def test_a_process_with_an_open_subscription_exits_at_once(way: str, how: str) -> None:
    """Its grace is a minute, and the test's patience half of that."""
    async with running(command()) as server:
        server.client.revision = MODERN
        id = await listen(server.client, resourceSubscriptions=[library.CONFIG])
        if how == "eof":
            await server.client.send_eof()
        else:
            server.signal(signal.SIGTERM)
        message = await server.client.receive()
        assert message["id"] == id
        assert message["result"]["_meta"][SUBSCRIPTION] == id
        assert await server.client.receive() is None
        assert await server.exit() == 0


@pytest.mark.parametrize("abort", [True, False])
async def test_a_client_that_is_gone_is_forgotten(abort: bool) -> None:
    registry = make()
    served_to_the_end = trio.Event()

    async def serve(stream: trio.abc.Stream) -> None:
        await serve_stream(registry, stream)
        served_to_the_end.set()

    listeners = await trio.open_tcp_listeners(0, host=LOOPBACK)
    with patience():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, serve, listeners)
            port = listeners[0].socket.getsockname()[1]
            stream = await trio.open_tcp_stream(LOOPBACK, port)
            await listen(RawClient(stream, MODERN), resourceSubscriptions=[ONE])
            assert not nobody_listens(registry)
            if abort:
                linger = b"\1\0\0\0\0\0\0\0"
                stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, linger)
            await stream.aclose()
            await served_to_the_end.wait()
            nursery.cancel_scope.cancel()
    assert nobody_listens(registry)
    registry.notify_resource_updated(ONE)


# -- limits ---------------------------------------------------------------------------------------


async def test_there_is_a_most_to_the_subscriptions_of_a_connection() -> None:
    registry = make()
    async with changing(registry, limits=Limits(max_subscriptions=3)) as client:
        ids = [await listen(client, toolsListChanged=True) for _ in range(3)]
        answer = await client.request("subscriptions/listen", {"notifications": {}})
        code, message = error_of(answer)
        assert code == -32602
        assert "3 subscriptions" in message
        await client.cancel(ids[0])
        await wait_all_tasks_blocked()
        await listen(client, toolsListChanged=True)
        async with serving(registry, Limits(max_subscriptions=3), revision=MODERN) as (other, _):
            await listen(other, toolsListChanged=True)


async def test_a_refused_subscription_takes_no_place() -> None:
    registry = make()
    async with changing(registry, limits=Limits(max_subscriptions=1)) as client:
        for wanted in (None, {"toolsListChanged": 5}, {"resourceSubscriptions": [ONE, TWO]}):
            answer = await client.request("subscriptions/listen", {"notifications": wanted})
            assert error_of(answer)[0] == -32602
        await listen(client, toolsListChanged=True)


async def test_there_is_a_most_to_the_resources_of_a_subscription() -> None:
    registry = make()
    async with changing(registry, limits=Limits(max_subscriptions=2)) as client:
        await listen(client, resourceSubscriptions=[ONE, TWO])
        wanted = {"resourceSubscriptions": [ONE, TWO, USER]}
        answer = await client.request("subscriptions/listen", {"notifications": wanted})
        code, message = error_of(answer)
        assert code == -32602
        assert "3 URIs; at most 2" in message


@each_legacy_revision
async def test_there_is_a_most_to_what_a_legacy_client_subscribes_to(revision: str) -> None:
    registry = make()
    async with changing(registry, revision, Limits(max_subscriptions=2)) as client:
        await subscribe(client, ONE, TWO, ONE)
        answer = await client.request("resources/subscribe", {"uri": USER})
        code, message = error_of(answer)
        assert code == -32602
        assert "2 subscriptions" in message
        await client.request("resources/unsubscribe", {"uri": ONE})
        await subscribe(client, USER)


def long_uris(count: int) -> list[str]:
    return [f"users://{1_000_000 + number}" for number in range(count)]  # of 15 bytes


async def test_there_is_a_most_to_the_bytes_of_subscriptions() -> None:
    registry, limits = make(), Limits(max_subscription_bytes=100)
    async with changing(registry, limits=limits) as client:
        ids = [await listen(client, resourceSubscriptions=long_uris(count)) for count in (4, 2)]
        wanted = {"resourceSubscriptions": long_uris(1)}
        for _ in range(2):
            answer = await client.request("subscriptions/listen", {"notifications": wanted})
            code, message = error_of(answer)
            assert code == -32602
            assert "may name 100 bytes together, not 105" in message
        await client.cancel(ids[1])
        await wait_all_tasks_blocked()
        await listen(client, resourceSubscriptions=long_uris(2))
        async with serving(registry, limits, revision=MODERN) as (other, _):
            await listen(other, resourceSubscriptions=long_uris(6))


@each_legacy_revision
async def test_there_is_a_most_to_the_bytes_of_what_a_legacy_client_subscribes_to(
    revision: str,
) -> None:
    *uris, one_more = long_uris(7)
    async with changing(make(), revision, Limits(max_subscription_bytes=100)) as client:
        await subscribe(client, *uris, *uris)
        answer = await client.request("resources/subscribe", {"uri": one_more})
        code, message = error_of(answer)
        assert code == -32602
        assert "may name 100 bytes together, not 105" in message
        await client.request("resources/unsubscribe", {"uri": uris[0]})
        await subscribe(client, one_more)


@pytest.mark.requirement("B2")
async def test_subscriptions_take_no_place_among_calls() -> None:
    registry = make()
    go_on = trio.Event()

    @registry.tool
    async def wait() -> str:
        await go_on.wait()
        return "waited"

    async with changing(registry, limits=Limits(max_concurrent_calls=1)) as client:
        for _ in range(5):
            await listen(client, resourceSubscriptions=[ONE])
        calls = [await client.start("wait") for _ in range(2)]
        await listen(client, resourceSubscriptions=[TWO])  # while calls wait for their turn
        go_on.set()
        answers = await client.receive_many(2)
        assert list(answers) == calls


async def test_many_subscriptions_are_told_of_one_change() -> None:
    registry = make()
    async with changing(registry) as client:
        client.judging = False
        request = {"jsonrpc": "2.0", "method": "subscriptions/listen"}
        params = {"_meta": modern_meta(), "notifications": {"resourceSubscriptions": [ONE]}}
        ids = [f"s{number}" for number in range(1000)]
        await client.send(*({**request, "id": id, "params": params} for id in ids))
        acknowledged = [await client.receive() for _ in ids]
        assert {each["params"]["_meta"][SUBSCRIPTION] for each in acknowledged} == set(ids)
        registry.notify_resource_updated(ONE)
        registry.notify_resource_updated(ONE)
        found = await told(client)
        assert [each["method"] for each in found] == [UPDATED] * 1000
        assert {each["params"]["_meta"][SUBSCRIPTION] for each in found} == set(ids)
        for each in (acknowledged[0], found[0]):
            official.judge(each, MODERN)
        assert len(catalogue_of(registry).changes.watchers_of(ONE)) == 1000


class StepsOfSubscriptions(trio.abc.Instrument):
    """Counts how often the task of a subscription runs."""

    count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += task.name == "Subscription"


async def test_no_task_is_woken_for_each_subscription_that_is_told_of_a_change() -> None:
    registry = make()
    async with changing(registry) as client:
        client.judging = False
        ids = [await listen(client, resourceSubscriptions=[ONE]) for _ in range(200)]
        await wait_all_tasks_blocked()
        steps = StepsOfSubscriptions()
        trio.lowlevel.add_instrument(steps)
        registry.notify_resource_updated(ONE)
        found = await told(client)
        trio.lowlevel.remove_instrument(steps)
        assert {each["params"]["_meta"][SUBSCRIPTION] for each in found} == set(ids)
        assert len(found) == len(ids)
        assert steps.count == 0


async def test_many_subscriptions_of_a_client_that_does_not_read_are_told_once_it_does() -> None:
    registry = make()
    limits = Limits(max_outgoing_bytes=1000)
    async with changing(registry, MODERN, limits, pair=lockstep_stream_pair) as client:
        client.judging = False
        ids = [await listen(client, resourceSubscriptions=[ONE, TWO]) for _ in range(300)]
        for uri in (ONE, TWO):
            registry.notify_resource_updated(uri)
            await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        found = [await client.receive() for _ in range(2 * len(ids))]
        for id in ids:
            own = [each for each in found if each["params"]["_meta"][SUBSCRIPTION] == id]
            assert {each["params"]["uri"] for each in own} == {ONE, TWO}


@asynccontextmanager
async def listeners_of(count: int) -> AsyncIterator[tuple[Changes, dict[Listener, list[Any]]]]:
    """Listeners to both resources, with what each was told so far."""
    changes = Changes(lambda _: None, lambda _: None)
    with ExitStack() as stack:
        told_of: dict[Listener, list[Any]] = {}
        for _ in range(count):
            listener = stack.enter_context(changes.listen(uris=[ONE, TWO]))
            told_of[listener] = []
            listener.on_queued = lambda each=listener: told_of[each].extend(each.rest())
        yield changes, told_of


@pytest.mark.parametrize("in_thread", [False, True])
async def test_few_listeners_in_each_turn_hear_of_a_change(in_thread: bool) -> None:
    async with listeners_of(1000) as (changes, told_of):

        def update() -> None:
            for uri in (ONE, TWO):
                changes.resource_updated(uri)

        if in_thread:
            await trio.to_thread.run_sync(update)
        else:
            update()
            update()  # a burst, which is told once
        counts = [sum(map(bool, told_of.values()))]
        while any(len(each) < 2 for each in told_of.values()):
            await trio.lowlevel.checkpoint()
            counts.append(sum(map(bool, told_of.values())))
            assert len(counts) < 1000
        # In two turns: Trio runs what is ready in any order.
        assert max(after - before for before, after in pairwise(counts)) <= 2 * 64
        await wait_all_tasks_blocked()
        assert {tuple(each) for each in told_of.values()} == {
            (ResourceUpdated(ONE), ResourceUpdated(TWO))
        }


async def test_those_who_left_before_their_turn_do_not_hear_of_a_change() -> None:
    async with listeners_of(1000) as (changes, told_of):
        changes.resource_updated(ONE)
        changes.resource_updated(TWO)
        while not any(told_of.values()):
            await trio.lowlevel.checkpoint()
        left = [listener for listener, heard in told_of.items() if not heard]
        assert len(left) > 800
        for listener in left:
            listener.unwatch(ONE)
        await wait_all_tasks_blocked()
        assert all(told_of[listener] == [ResourceUpdated(TWO)] for listener in left)


async def test_a_listener_that_goes_hears_first_what_has_changed() -> None:
    async with listeners_of(1000) as (changes, told_of):
        changes.resource_updated(ONE)
        *_, last = told_of
        assert list(last.rest()) == [ResourceUpdated(ONE)]
        last.note(ResourceUpdated(TWO))
        changes.resource_updated(ONE)
        last.note(Notice(b""))
        assert [type(each) for each in last.rest()] == [ResourceUpdated, ResourceUpdated, Notice]


async def test_a_long_subscription_leaves_others_their_turns() -> None:
    registry = Registry("many")

    @registry.resource("item://{number}")
    def item(number: int) -> str:
        return str(number)

    async def turns_for(client: RawClient, count: int) -> int:
        async with turns_of_another_task() as turns:
            uris = [f"item://{number}" for number in range(count)]
            await listen(client, resourceSubscriptions=[*uris, "item://none"])
            acknowledged = client.told[-1]["params"]["notifications"]
            assert acknowledged["resourceSubscriptions"] == uris
            return turns.count

    async with changing(registry) as client:
        assert await turns_for(client, 900) >= await turns_for(client, 9) + 15


async def test_many_connections_are_told_of_one_change() -> None:
    registry = make()

    async def connection(number: int, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        revision = REVISIONS[number % len(REVISIONS)]
        async with serving(registry, revision=revision) as (client, _):
            id = None
            if revision == MODERN:
                id = await listen(client, resourceSubscriptions=[ONE])
            else:
                await subscribe(client, ONE)
            task_status.started()
            assert await client.receive() == updated(ONE, id)

    async with trio.open_nursery() as nursery:
        for number in range(50):
            await nursery.start(connection, number)
        registry.notify_resource_updated(ONE)
    assert nobody_listens(registry)


@some_revisions
async def test_a_client_that_does_not_read_fills_no_memory(
    revision: str, autojump_clock: Any
) -> None:
    """It is told later, a few times, what happened 3000 times."""
    registry = make()
    limits = Limits(max_outgoing_bytes=1000)
    async with changing(registry, revision, limits, pair=lockstep_stream_pair) as client:
        client.judging = False
        id = None
        if revision == MODERN:
            id = await listen(client, promptsListChanged=True, resourceSubscriptions=[ONE, TWO])
        else:
            await subscribe(client, ONE, TWO)
        for number in range(3000):
            registry.notify_resource_updated(ONE)
            registry.notify_resource_updated(TWO)
            if number % 10 == 0:  # the server has time to tell it three hundred times
                registry.remove_prompt("nothing")
                registry.add_prompt(nothing)
                await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()
        found = []
        with trio.move_on_after(1) as quiet:
            while True:
                found.append(await client.receive())
                quiet.deadline = trio.current_time() + 1
        assert set(map(json.dumps, found)) == set(
            map(json.dumps, [updated(ONE, id), updated(TWO, id), list_changed("prompts", id)])
        )
        assert len(found) < 60


# -- where there is no connection -----------------------------------------------------------------


async def test_a_single_message_cannot_carry_a_subscription() -> None:
    registry = make()
    for method, params in (
        ("subscriptions/listen", {"_meta": modern_meta(), "notifications": {}}),
        ("resources/subscribe", {"uri": ONE}),
        ("resources/unsubscribe", {"uri": ONE}),
    ):
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = json.loads(await handle_message(registry, line_of(request)) or b"")
        assert error_of(answer)[0] == -32601
    assert nobody_listens(registry)


@pytest.mark.requirement("A11")
@each_legacy_revision
async def test_without_resources_there_is_nothing_to_subscribe_to(revision: str) -> None:
    registry = Registry("bare")
    async with changing(registry, revision) as client:
        for method in ("resources/subscribe", "resources/unsubscribe"):
            answer = await client.request(method, {"uri": ONE})
            assert own_error(answer) == {
                "code": -32601,
                "message": f"{method} handler not registered",
                "data": {"server": "bare", "method": method},
            }


# -- the client -----------------------------------------------------------------------------------


async def next_of(changes: Any, count: int) -> set[Any]:
    """The next so many changes."""
    return {await anext(changes) for _ in range(count)}


@each_client
async def test_a_client_iterates_over_changes(way: str, era: str) -> None:
    async with client_of(library.make(), way, era) as client:
        async with client.subscribe(
            resources=[library.CONFIG, "users://7/profile", "no:one"], lists=["tools", "prompts"]
        ) as changes:
            assert changes.uris == {library.CONFIG, "users://7/profile"}
            assert changes.kinds == {"tools", "prompts"}
            await client.call_tool("touch", {"uri": library.POEM})
            await client.call_tool("touch", {"uri": library.CONFIG, "times": 100})
            await client.call_tool("add", {"kind": "resources", "name": "x:later"})
            await client.call_tool("add", {"kind": "tools", "name": "later"})
            found = await next_of(changes, 2)
            assert found == {ResourceUpdated(library.CONFIG), ListChanged("tools")}
            await client.call_tool("touch_in_a_thread", {"uri": "users://7/profile"})
            assert await anext(changes) == ResourceUpdated("users://7/profile")
            await client.call_tool("remove", {"kind": "tools", "name": "later"})
            async for change in changes:
                assert change == ListChanged("tools")
                break
        await client.refresh_tools()
        assert "later" not in client.tools


@each_quick_client
async def test_leaving_the_block_ends_it_on_the_server(way: str, era: str) -> None:
    registry = make()
    async with client_of(registry, way, era) as client:
        async with client.subscribe(resources=[ONE, TWO]):
            assert set(catalogue_of(registry).changes.watchers) == {ONE, TWO}
            async with client.subscribe(resources=[USER], lists=["tools"]):
                assert set(catalogue_of(registry).changes.watchers) == {ONE, TWO, USER}
            await wait_all_tasks_blocked()
            assert set(catalogue_of(registry).changes.watchers) == {ONE, TWO}
        await wait_all_tasks_blocked()
        assert not catalogue_of(registry).changes.watchers
    assert nobody_listens(registry)


@each_quick_client
async def test_subscriptions_side_by_side_hear_their_own(
    way: str, era: str, autojump_clock: Any
) -> None:
    registry = make()
    async with client_of(registry, way, era) as client:
        async with (
            client.subscribe(resources=[ONE, TWO]) as both,
            client.subscribe(resources=[ONE]) as one,
            client.subscribe(lists=["prompts"]) as prompts,
        ):
            registry.notify_resource_updated(ONE)
            registry.notify_resource_updated(TWO)
            registry.add_prompt(nothing, name="later")
            assert await next_of(both, 2) == {ResourceUpdated(ONE), ResourceUpdated(TWO)}
            assert await anext(one) == ResourceUpdated(ONE)
            assert await anext(prompts) == ListChanged("prompts")
            for changes in (both, one, prompts):
                with trio.move_on_after(0.01) as scope:
                    await anext(changes)
                assert scope.cancelled_caught


@each_quick_client
async def test_equal_changes_that_were_not_fetched_are_one(
    way: str, era: str, autojump_clock: Any
) -> None:
    registry = make()
    async with client_of(registry, way, era) as client:
        async with client.subscribe(resources=[ONE, TWO]) as changes:
            for _ in range(100):
                registry.notify_resource_updated(ONE)
                await wait_all_tasks_blocked()
            registry.notify_resource_updated(TWO)
            await wait_all_tasks_blocked()
            assert await anext(changes) == ResourceUpdated(ONE)
            assert await anext(changes) == ResourceUpdated(TWO)
            with trio.move_on_after(0.01) as scope:
                await anext(changes)
            assert scope.cancelled_caught


@each_quick_client
async def test_what_the_block_raises_comes_out_as_it_is(way: str, era: str) -> None:
    registry = make()
    async with client_of(registry, way, era) as client:
        error = ValueError("mine")
        with pytest.raises(ValueError, match="mine") as caught:
            async with client.subscribe(resources=[ONE], lists=["tools"]):
                raise error
        assert caught.value is error
        await wait_all_tasks_blocked()
        assert not catalogue_of(registry).changes.watchers
    assert nobody_listens(registry)


@each_quick_client
async def test_cancelled_it_tells_the_server(way: str, era: str) -> None:
    registry = make()
    async with client_of(registry, way, era) as client:
        with trio.CancelScope() as scope:
            async with client.subscribe(resources=[ONE]) as changes:
                scope.cancel()
                async for _ in changes:
                    raise AssertionError
        assert scope.cancelled_caught
        await wait_all_tasks_blocked()
        assert not catalogue_of(registry).changes.watchers
        await client.read_resource(ONE)


@each_quick_client
async def test_a_refused_subscription_raises_at_the_beginning(way: str, era: str) -> None:
    registry = make()
    uris = [f"users://{number}" for number in range(3)]
    limits = Limits(max_subscriptions=2)

    async def refused(client: Client) -> None:
        with pytest.raises(McpError) as caught:
            async with client.subscribe(resources=uris):
                raise AssertionError
        assert caught.value.code == -32602
        await wait_all_tasks_blocked()
        assert not catalogue_of(registry).changes.watchers
        async with client.subscribe(resources=uris[:2]) as changes:
            assert changes.uris == set(uris[:2])

    if way == "in-process":
        async with connect(registry, era=era, limits=limits) as client:  # type: ignore[arg-type]
            await refused(client)
    else:

        async def serve(stream: trio.abc.Stream) -> None:
            await serve_stream(registry, stream, limits=limits)

        async with beside(serve) as stream, connect(stream, era=era) as client:  # type: ignore[arg-type]
            await refused(client)


@each_quick_client
async def test_what_makes_no_sense_is_refused_here(way: str, era: str) -> None:
    async with client_of(make(), way, era) as client:
        with pytest.raises(TypeError, match="brackets"):
            async with client.subscribe(resources=ONE):
                raise AssertionError
        with pytest.raises(TypeError, match="brackets"):
            async with client.subscribe(lists="tools"):  # type: ignore[arg-type]
                raise AssertionError
        with pytest.raises(ValueError, match="toolz"):
            async with client.subscribe(lists=["toolz"]):  # type: ignore[list-item]
                raise AssertionError


async def test_a_legacy_server_that_announces_nothing_agrees_to_nothing() -> None:
    registry = Registry("resources only")
    registry.add_resource(ONE, nothing)
    for era in ("legacy", "modern"):
        async with served(registry, era=era) as client:
            async with client.subscribe(lists=["tools", "resources"]) as changes:
                assert changes.kinds == {"resources"}
                assert changes.uris == set()


# A server whose every word is the test's: legacy or modern, on a stream in memory.


class Puppet:
    """A server that shakes hands, and notes what it is sent."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.stream: trio.abc.Stream
        self.silent: set[str] = set()
        self.unknown: set[str] = set()
        self.capabilities: dict[str, Any] = {
            "resources": {"subscribe": True, "listChanged": True},
            "tools": {"listChanged": True},
        }

    async def serve(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        with suppress(trio.ClosedResourceError):  # a test hung up
            await self._serve(stream)
        await stream.aclose()

    async def _serve(self, stream: trio.abc.Stream) -> None:
        buffer = b""
        async for chunk in stream:
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                message = json.loads(line)
                self.heard.append(message)
                if "id" in message and message["method"] not in self.silent:
                    await self.answer(message)

    async def answer(self, message: Any) -> None:
        if message["method"] in self.unknown:
            error = {"code": -32601, "message": "Method not found"}
            await self.send({"jsonrpc": "2.0", "id": message["id"], "error": error})
            return
        result: dict[str, Any] = {}
        match message["method"]:
            case "server/discover":
                result = {"supportedVersions": [MODERN], "capabilities": self.capabilities}
            case "initialize":
                result = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": self.capabilities,
                    "serverInfo": {"name": "puppet", "version": "1"},
                }
            case "tools/list":
                result = {"tools": []}
            case "subscriptions/listen":
                wanted = message["params"]["notifications"]
                await self.say(ACKNOWLEDGED, message["id"], notifications=wanted)
                return
        await self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def say(self, method: str, id: Any = None, **params: Any) -> None:
        if id is not None:
            params["_meta"] = {SUBSCRIPTION: id}
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def send(self, message: Any) -> None:
        await self.stream.send_all(line_of(message))

    def sent(self, method: str) -> list[Any]:
        """What came with that method."""
        return [each for each in self.heard if each["method"] == method]


@asynccontextmanager
async def puppet(
    era: Any, capabilities: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[Client, Puppet]]:
    server = Puppet()
    if capabilities is not None:
        server.capabilities = capabilities
    with patience():
        async with beside(server.serve) as stream, connect(stream, era=era, **options) as client:
            yield client, server


async def test_a_server_that_ends_a_subscription_ends_the_iteration() -> None:
    async with puppet("modern") as (client, server):
        async with client.subscribe(resources=[ONE]) as changes:
            id = changes.id
            await server.say(UPDATED, id, uri=ONE)
            await server.send({"jsonrpc": "2.0", "id": id, "result": {"_meta": {SUBSCRIPTION: id}}})
            await wait_all_tasks_blocked()
            assert [each async for each in changes] == [ResourceUpdated(ONE)]
            assert [each async for each in changes] == []
        await wait_all_tasks_blocked()
        assert server.sent("notifications/cancelled") == [], "there is nothing to cancel"


async def test_of_what_a_server_has_agreed_to_only_uris_count() -> None:
    async with puppet("modern") as (client, server):
        async with client.subscribe(resources=[ONE, TWO]) as changes:
            agreed = {"resourceSubscriptions": [{}, [ONE], 5, None, ONE]}
            await server.say(ACKNOWLEDGED, changes.id, notifications=agreed)
            await wait_all_tasks_blocked()
            assert changes.uris == {ONE}


async def test_a_real_server_that_stops_ends_the_iteration() -> None:
    registry = make()
    ours, theirs = memory_stream_pair()
    with patience():
        async with trio.open_nursery() as nursery:
            handle = await nursery.start(
                lambda task_status: serve_stream(registry, theirs, task_status=task_status)
            )
            async with connect(ours) as client:
                async with client.subscribe(resources=[ONE]) as changes:
                    registry.notify_resource_updated(ONE)
                    handle.stop()
                    assert [each async for each in changes] == [ResourceUpdated(ONE)]


async def test_a_subscription_that_fails_later_raises_where_it_is_iterated_over() -> None:
    async with puppet("modern") as (client, server):
        async with client.subscribe(resources=[ONE]) as changes:
            await server.say(UPDATED, changes.id, uri=ONE)
            error = {"code": -32603, "message": "no more"}
            await server.send({"jsonrpc": "2.0", "id": changes.id, "error": error})
            await wait_all_tasks_blocked()
            assert await anext(changes) == ResourceUpdated(ONE)
            with pytest.raises(McpError, match="no more"):
                await anext(changes)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_loss_of_the_connection_raises_where_it_is_iterated_over(era: str) -> None:
    async with puppet(era) as (client, server):
        async with client.subscribe(resources=[ONE]) as changes:
            id = changes.id
            await server.say(UPDATED, id, uri=ONE)
            await server.stream.aclose()
            await wait_all_tasks_blocked()
            assert await anext(changes) == ResourceUpdated(ONE)
            for _ in range(2):
                with pytest.raises(OutputClosed):
                    await anext(changes)
            with pytest.raises(NotConnected):
                async with client.subscribe(resources=[TWO]):
                    raise AssertionError


@pytest.mark.skipif(os.name != "posix", reason="it looks for processes in /proc")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_death_of_the_server_is_told_with_its_type(era: Any) -> None:
    others = set(children())  # which other tests of this process share
    with patience():
        async with connect(command(), era=era) as client:
            async with client.subscribe(resources=[library.CONFIG]) as changes:
                (server,) = set(children()) - others
                os.kill(server, signal.SIGKILL)
                with pytest.raises(ServerExited) as caught:
                    await anext(changes)
                assert caught.value.signal == signal.SIGKILL


async def test_the_block_may_go_on_when_the_connection_is_lost() -> None:
    """It is told when it asks, and leaving is no failure."""
    went_on = []
    for era in ("modern", "legacy"):
        async with puppet(era) as (client, server):
            async with client.subscribe(resources=[ONE]):
                await server.stream.aclose()
                await wait_all_tasks_blocked()
                assert isinstance(client.state, Disconnected)
                went_on.append(era)
    assert went_on == ["modern", "legacy"]


async def test_a_server_that_does_not_acknowledge(autojump_clock: Any) -> None:
    async with puppet("modern", request_timeout=3) as (client, server):
        server.silent = {"subscriptions/listen"}
        started = trio.current_time()
        with pytest.raises(CallTimeout, match="acknowledgement"):
            async with client.subscribe(resources=[ONE]):
                raise AssertionError
        assert trio.current_time() - started == pytest.approx(3)
        await wait_all_tasks_blocked()
        [request] = server.sent("subscriptions/listen")
        [cancel] = server.sent("notifications/cancelled")
        assert cancel["params"]["requestId"] == request["id"]


@pytest.mark.parametrize("declares", [True, False])
async def test_a_legacy_server_without_subscriptions_may_still_tell_of_lists(declares) -> None:
    """Whether it says so, or declares what it does not have."""
    resources = {"subscribe": True} if declares else {}
    async with puppet("legacy", {"resources": resources, "tools": {"listChanged": True}}) as (
        client,
        server,
    ):
        server.unknown = {"resources/subscribe", "resources/unsubscribe"}
        async with client.subscribe(resources=[ONE, TWO], lists=["tools", "resources"]) as changes:
            assert (changes.uris, changes.kinds) == (set(), {"tools"})
            await server.say("notifications/tools/list_changed")
            assert await anext(changes) == ListChanged("tools")
        assert len(server.sent("resources/subscribe")) == (2 if declares else 0)
        assert server.sent("resources/unsubscribe") == []


async def test_a_modern_server_without_subscriptions_tells_of_nothing() -> None:
    async with puppet("modern") as (client, server):
        server.unknown = {"subscriptions/listen"}
        async with client.subscribe(resources=[ONE], lists=["tools"]) as changes:
            assert (changes.uris, changes.kinds) == (set(), set())
            await client.request("tools/list")
            await server.stream.aclose()
            with pytest.raises(OutputClosed):
                await anext(changes)


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("declares", [True, False])
async def test_messages_for_the_log_are_asked_for_where_that_can_do_no_harm(era, declares) -> None:
    """A modern server reads of it in each request, whatever it has declared."""
    capabilities: dict[str, Any] = {"logging": {}} if declares else {}
    async with puppet(era, capabilities, log_level="info") as (client, server):
        await client.request("anything")
        meta = server.heard[-1].get("params", {}).get("_meta", {})
        level = meta.get("io.modelcontextprotocol/logLevel")
        assert level == ("info" if era == "modern" else None)
        asked = era == "legacy" and declares
        assert len(server.sent("logging/setLevel")) == asked


async def test_what_the_client_sends_is_what_it_was_told_to() -> None:
    async with puppet("modern") as (client, server):
        async with client.subscribe(resources=[ONE, ONE], lists=["tools"]) as changes:
            [request] = server.sent("subscriptions/listen")
            assert request["id"] == changes.id
            assert request["params"]["notifications"] == {
                "toolsListChanged": True,
                "resourceSubscriptions": [ONE],
            }
            assert "io.modelcontextprotocol/protocolVersion" in request["params"]["_meta"]
        await wait_all_tasks_blocked()
        [cancel] = server.sent("notifications/cancelled")
        assert cancel["params"]["requestId"] == changes.id


async def test_what_belongs_to_nobody_goes_nowhere() -> None:
    async with puppet("modern") as (client, server):
        async with client.subscribe(resources=[ONE], lists=["tools"]) as changes:
            id = changes.id
            await server.say(UPDATED, uri=ONE)
            await server.say(UPDATED, "other", uri=ONE)
            await server.say(UPDATED, id, uri=5)
            await server.say(UPDATED, id)
            await server.say("notifications/prompts/list_changed", id)
            await server.say("notifications/unheard/of", id)
            await server.say(ACKNOWLEDGED, "other", notifications={})
            await server.send(
                {"jsonrpc": "2.0", "method": UPDATED, "params": {"_meta": [], "uri": ONE}}
            )
            await server.send(
                {
                    "jsonrpc": "2.0",
                    "method": UPDATED,
                    "params": {"_meta": {SUBSCRIPTION: [id]}, "uri": ONE},
                }
            )
            await server.say("notifications/tools/list_changed", id)
            assert await anext(changes) == ListChanged("tools")


async def test_a_notification_that_is_not_mcp_changes_nothing_and_is_logged(caplog: Any) -> None:
    caplog.set_level("DEBUG", "trio_mcp")
    async with puppet("modern") as (client, server):
        async with client.subscribe(resources=[ONE]) as changes:
            await server.say(UPDATED, changes.id, uri=5)
            await server.say("notifications/cancelled", requestId=[changes.id])
            await server.say(UPDATED, changes.id, uri=ONE)
            assert await anext(changes) == ResourceUpdated(ONE)
    logged = [each.getMessage() for each in caplog.records]
    assert f'{UPDATED} from the server is not MCP: "uri" must be a string, not a number' in logged
    why = '"requestId" must be a string or an integer, not an array'
    assert f"A cancellation of the peer is not MCP: {why}" in logged


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_parts_of_a_resource_are_told_of_with_it(era: str) -> None:
    """The URI may be that of a part (schema, `ResourceUpdatedNotificationParams`)."""
    async with puppet(era) as (client, server):
        async with client.subscribe(resources=["dir:/a", "dir:/z/"]) as changes:
            id = changes.id
            if era == "legacy":  # there only the URI says whose it is
                await server.say(UPDATED, id, uri="dir:/ab")
                await server.say(UPDATED, id, uri="dir:/")
            for uri in ("dir:/a/b", "dir:/z/y", "dir:/a#part", "dir:/a"):
                await server.say(UPDATED, id, uri=uri)
                assert await anext(changes) == ResourceUpdated(uri)


@pytest.mark.long
async def test_a_flood_of_different_changes_is_bounded() -> None:
    async with puppet("modern") as (client, server):
        async with client.subscribe(resources=["dir:/"]) as changes:
            lines = b"".join(
                line_of(updated(f"dir:/{number}", changes.id)) for number in range(20_000)
            )
            await server.stream.send_all(lines)
            await wait_all_tasks_blocked()
            count = 0
            with pytest.raises(ProtocolError, match="not fetched"):
                async for _ in changes:
                    count += 1
            assert count == 10_000


async def test_overlapping_legacy_subscriptions_are_one_for_the_server() -> None:
    async with puppet("legacy") as (client, server):
        async with client.subscribe(resources=[ONE]) as first:
            async with client.subscribe(resources=[ONE, TWO]) as second:
                await server.say(UPDATED, uri=ONE)
                assert await anext(first) == await anext(second) == ResourceUpdated(ONE)
            assert [each["params"]["uri"] for each in server.sent("resources/unsubscribe")] == [TWO]
            await server.say(UPDATED, uri=ONE)
            assert await anext(first) == ResourceUpdated(ONE)
        subscribed = sorted(each["params"]["uri"] for each in server.sent("resources/subscribe"))
        ended = sorted(each["params"]["uri"] for each in server.sent("resources/unsubscribe"))
        assert subscribed == ended == [ONE, TWO]
        async with client.subscribe(resources=[ONE]):
            assert len(server.sent("resources/subscribe")) == 3, "and it can begin again"


async def test_a_legacy_server_that_refuses_one_end_is_asked_for_the_others() -> None:
    async with puppet("legacy") as (client, server):
        server.unknown = {"resources/unsubscribe"}
        async with client.subscribe(resources=[ONE, TWO]):
            pass
        assert _subscribed_at(server) == set()


async def test_legacy_subscriptions_that_begin_at_the_same_time_are_one_for_the_server() -> None:
    async with puppet("legacy") as (client, server):
        async with trio.open_nursery() as nursery:
            inside = 0
            leave = trio.Event()

            async def follow() -> None:
                nonlocal inside
                async with client.subscribe(resources=[ONE, TWO]) as changes:
                    inside += 1
                    assert await anext(changes) == ResourceUpdated(ONE)
                    await leave.wait()

            for _ in range(5):
                nursery.start_soon(follow)
            await wait_all_tasks_blocked()
            assert inside == 5
            assert len(server.sent("resources/subscribe")) == 2
            await server.say(UPDATED, uri=ONE)
            await wait_all_tasks_blocked()
            leave.set()
        assert len(server.sent("resources/unsubscribe")) == 2


async def test_a_legacy_subscription_that_ends_takes_none_with_it_that_begins() -> None:
    """Here it begins while the server is slow to let go of the first of two resources."""
    async with puppet("legacy") as (client, server):
        leave = [trio.Event(), trio.Event()]

        async def follow(number: int) -> None:
            async with client.subscribe(resources=[ONE, TWO]) as changes:
                assert changes.uris == {ONE, TWO}
                assert _subscribed_at(server) == {ONE, TWO}
                await leave[number].wait()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, 0)
            await wait_all_tasks_blocked()
            server.silent = {"resources/unsubscribe"}
            leave[0].set()
            await wait_all_tasks_blocked()
            [held] = server.sent("resources/unsubscribe")
            nursery.start_soon(follow, 1)
            await wait_all_tasks_blocked()
            server.silent = set()
            await server.answer(held)
            await wait_all_tasks_blocked()
            assert _subscribed_at(server) == {ONE, TWO}
            leave[1].set()
        assert _subscribed_at(server) == set()


def _subscribed_at(server: Puppet) -> set[str]:
    """What a server takes its client to be subscribed to."""
    found: set[str] = set()
    for each in server.heard:
        if each["method"] == "resources/subscribe":
            found.add(each["params"]["uri"])
        elif each["method"] == "resources/unsubscribe":
            found.discard(each["params"]["uri"])
    return found


async def test_a_legacy_subscription_that_is_cancelled_while_it_begins_is_taken_back() -> None:
    async with puppet("legacy") as (client, server):
        server.silent = {"resources/subscribe"}
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def enter() -> None:
                    async with client.subscribe(resources=[ONE]):
                        raise AssertionError

                nursery.start_soon(enter)
                await wait_all_tasks_blocked()
                scope.cancel()
        await wait_all_tasks_blocked()
        assert _subscribed_at(server) == set()


async def test_a_legacy_server_that_does_not_let_go_is_left(autojump_clock: Any) -> None:
    async with puppet("legacy") as (client, server):
        server.silent = {"resources/unsubscribe"}
        started = trio.current_time()
        async with client.subscribe(resources=[ONE]):
            pass
        assert trio.current_time() - started <= 1
        async with client.subscribe(resources=[ONE]) as changes:
            await server.say(UPDATED, uri=ONE)
            assert await anext(changes) == ResourceUpdated(ONE)
