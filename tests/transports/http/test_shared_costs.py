"""How often each kind of request asks the store: the table of the documentation is measured."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.auth.server.support import call, proof
from tests.docs.test_readme import table
from tests.features import notebook
from tests.support.processes import ROOT
from tests.support.tools import echo, registry_of
from tests.transports.http.fleet import Unsteady, fleet
from tests.transports.http.support import LegacyClient, ModernClient, Worker, progress_meta
from tests.transports.http.test_app_sse import ALICE, BOB, PATH, TOKENS, SseClient
from tests.transports.http.test_shared_records import (
    HOW,
    ISSUER,
    KEY,
    TOKEN,
    asking,
    first_round,
    opaque,
    protected_by,
    second_round,
)
from trio_mcp import Registry, SessionOptions
from trio_mcp.auth import DPoP

pytestmark = pytest.mark.requirement("M5")

PAGE = ROOT / "docs" / "guides" / "deploy" / "instances.md"
Measure = Callable[[Callable[[], Awaitable[Any]]], Awaitable[int]]


def echoing() -> Registry:
    return registry_of(echo)


def measure_of(store: Unsteady) -> Measure:
    async def measure(do: Callable[[], Awaitable[Any]]) -> int:
        await wait_all_tasks_blocked()
        before = store.asked
        await do()
        await wait_all_tasks_blocked()
        return store.asked - before

    return measure


async def in_sessions(found: dict[str, int]) -> None:
    store, worker = Unsteady(), Worker()
    worker.go_on.set()
    measure = measure_of(store)
    async with fleet(lambda: worker.registry, store=store, size=2) as those:
        await LegacyClient(those.hosts[0]).initialize()  # then sessions are counted
        client = LegacyClient(those.hosts[0])

        async def echo() -> None:
            await client.call("echo", text="hi")

        async def work(say: int) -> None:
            await client.begin_call("work", progress_meta(), say=say).messages()

        found["`initialize` of a session"] = await measure(client.initialize)
        found["a call in a session"] = await measure(echo)
        with_one = await measure(lambda: work(1))
        found["a call that is answered by a stream of events"] = with_one - 1
        found["each event before the result"] = (await measure(lambda: work(11)) - with_one) // 10
        client.host = those.hosts[1]
        found["the first request of a session at another instance"] = await measure(echo)
        assert await measure(echo) == found["a call in a session"]


async def over_http_sse(found: dict[str, int]) -> None:
    store = Unsteady()
    measure = measure_of(store)
    async with fleet(echoing, store=store, size=2, sse_path=PATH) as those:
        client = SseClient(those.hosts[0])
        found["the beginning of a stream of HTTP+SSE"] = await measure(client.connect)
        assert await measure(lambda: client.ask(client.initialize_request())) == 0
        client.host = those.hosts[1]
        found["a message for such a stream, posted to another instance"] = await measure(
            lambda: client.call("echo", text="hi")
        )


async def with_questions(found: dict[str, int]) -> None:
    store = Unsteady()
    measure = measure_of(store)
    async with fleet(asking, store=store, size=2) as those:
        modern = ModernClient(those.hosts[0])
        found["a modern request"] = await measure(lambda: modern.call("echo", text="hi"))
        assert await measure(lambda: first_round(those.hosts[0])) == 0
        params = await first_round(those.hosts[0])
        found["a modern request that brings a `requestState`"] = await measure(
            lambda: second_round(those.hosts[1], params)
        )


async def with_tokens(found: dict[str, int]) -> None:
    store, issuer = Unsteady(), opaque(good={})
    measure = measure_of(store)
    async with fleet(echoing, protected_by(ISSUER, dpop=DPoP()), size=2, store=store) as those:

        async def prove() -> None:
            response = await call(those.hosts[0], TOKEN, scheme="DPoP", dpop=proof(KEY, TOKEN))
            assert response.status == 200

        await prove()
        found["a request with a DPoP proof"] = await measure(prove)
    async with fleet(echoing, protected_by(issuer, verifier=HOW), size=2, store=store) as those:
        here, there = those.hosts
        first = "an opaque token that no instance has asked about"
        found[first] = await measure(lambda: call(here, "good"))
        found["one that another instance has asked about"] = await measure(
            lambda: call(there, "good")
        )
        assert await measure(lambda: call(there, "good")) == 0


async def with_state(found: dict[str, int]) -> None:
    store = Unsteady()
    measure = measure_of(store)
    async with fleet(notebook.make, TOKENS, size=2, store=store) as those:
        await ModernClient(those.hosts[0], BOB).call(
            "remember", note="a"
        )  # then states are counted
        alice = ModernClient(those.hosts[0], ALICE)

        async def remember() -> None:
            await alice.call("remember", note="a")

        async def look() -> None:
            await alice.request("resources/read", {"uri": "notes://all"})

        found["the first call of a caller with `state=`"] = await measure(remember)
        found["a call that changes the state"] = await measure(remember)
        found["a call that reads the state"] = await measure(look)


async def test_what_requests_ask_of_the_store(mock_clock: Any) -> None:
    found: dict[str, int] = {}
    for measured in (in_sessions, over_http_sse, with_questions, with_tokens, with_state):
        await measured(found)
    told = {each: int(number) for each, number in table(PAGE, "Operations for")}
    assert found == told


async def test_what_only_waits_polls_no_store(autojump_clock: Any) -> None:
    """Instances and sessions tell now and then that they are alive, and that is all."""

    async def asked_while(waiting: int) -> int:
        store = Unsteady()
        async with fleet(echoing, store=store, size=2) as those:
            for number in range(waiting):
                host = those.hosts[number % 2]
                client = LegacyClient(host)
                await client.initialize()
                await client.get().started()
                wanted = {"notifications": {"toolsListChanged": True}}
                await ModernClient(host).begin("subscriptions/listen", wanted).message()
            await trio.sleep(1)
            before = store.asked
            await trio.sleep(3600)
            return store.asked - before

    of_instances = await asked_while(0)
    assert of_instances / 2 <= 3600 / 2
    of_sessions = await asked_while(20) - of_instances
    assert of_sessions / 20 <= 3600 / (SessionOptions().session_idle / 10)
