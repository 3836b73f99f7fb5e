"""Connections of their own for callers that a legacy server may ask something."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.compose.support import named, remote_to
from tests.support.processes import TIME_LIMIT
from trio_mcp import Client, Context, Handlers, Registry, connect
from trio_mcp.client.negotiation import Era
from trio_mcp.compose import Provider
from trio_mcp.compose.upstream import Upstream
from trio_mcp.middleware import McpRequest
from trio_mcp.wire.payloads import LoggingLevel

pytestmark = pytest.mark.requirement("L4")

both_eras = pytest.mark.parametrize("down", ["modern", "legacy"])


async def ask(context: Context) -> str:
    """Ask for a name."""
    return str((await context.elicit("Name?", str)).value)


@asynccontextmanager
async def caller(registry: Registry, name: str, down: Era) -> AsyncIterator[Client]:
    """A client whose person says a name, after a while."""

    async def answer(params: Any) -> Any:
        await trio.sleep(0.5)
        return {"action": "accept", "content": {"value": name}}

    async with connect(registry, era=down, handlers=Handlers(elicitation=answer)) as client:
        yield client


@asynccontextmanager
async def remote(**options: Any) -> AsyncIterator[tuple[Registry, Upstream]]:
    """A registry with a legacy server in it."""
    part = remote_to(named("asks", ask), era="legacy", name="asks", **options)
    registry = Registry("front")
    registry.mount(part)
    async with part.running() as upstream:
        await part.ready()
        yield registry, upstream


@both_eras
async def test_a_question_is_answered_though_another_call_ends_meanwhile(
    down: Era, autojump_clock: object
) -> None:
    """The server does not say which of its caller's calls a question is for."""
    asked: list[str] = []

    async def quick() -> str:
        await trio.sleep(0.2)
        return "quick"

    part = remote_to(named("asks", ask, quick), era="legacy")
    registry = Registry("front")
    registry.mount(part)
    async with part.running(), caller(registry, "Ann", down) as client:

        async def call() -> None:
            asked.append((await client.call_tool("ask")).text)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            nursery.start_soon(client.call_tool, "quick")
    assert asked == ["Ann"]


@both_eras
async def test_each_caller_is_asked_its_own_questions(down: Era, autojump_clock: object) -> None:
    answers: dict[str, str] = {}

    async def call(client: Client, name: str) -> None:
        answers[name] = (await client.call_tool("ask", timeout=100)).text

    async with remote() as (registry, upstream):
        async with caller(registry, "Ada", down) as ada, caller(registry, "Bob", down) as bob:
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(call, ada, "Ada")
                    nursery.start_soon(call, bob, "Bob")
            assert len(upstream.callers.open) == 2, "one for each caller, not for each call"
        await trio.sleep(301)
        assert len(upstream.callers.open) == 0, "closed when they were idle"
    assert answers == {"Ada": "Ada", "Bob": "Bob"}


@both_eras
async def test_there_are_no_more_connections_than_there_may_be(
    down: Era, autojump_clock: object
) -> None:
    async with remote(max_callers=1, reconnect_timeout=0.1) as (registry, upstream):
        async with caller(registry, "Ada", down) as ada, caller(registry, "Bob", down) as bob:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ada.call_tool, "ask")
                await trio.sleep(0.2)
                refused = await bob.call_tool("ask")
                assert refused.error == "Server asks is not available"
            assert (await bob.call_tool("ask", timeout=100)).text == "Bob", (
                "the idle one has made room"
            )
            assert len(upstream.callers.open) == 1


class Witness(Provider):
    """Sees whose roots have changed."""

    def __init__(self) -> None:
        super().__init__("witness")
        self.seen: list[str] = []
        self.news = trio.Event()

    def roots_changed(self, state: Any, connection_id: str, principal: str | None) -> None:
        self.seen.append(connection_id)
        self.news.set()


async def test_a_server_is_told_whose_roots_have_changed() -> None:
    async def where(context: Context) -> list[str]:
        """Say which connection this is, and what it may see."""
        return [context.connection_id or "", *(each.uri for each in await context.roots())]

    behind, witness, front = named("behind", where), Witness(), Registry("front")
    behind.mount(witness)
    front.mount(remote_to(behind, era="legacy"))
    options: dict[str, Any] = {"era": "legacy", "handlers": Handlers(roots=["file:///a"])}
    async with connect(front, **options) as ada, connect(front, **options) as bob:
        mine = await ada.call_tool("where", returns=list[str])
        his = await bob.call_tool("where", returns=list[str])
        assert mine[0] != his[0]
        await ada.set_roots(["file:///b"])
        with trio.fail_after(TIME_LIMIT):
            await witness.news.wait()
        assert await ada.call_tool("where", returns=list[str]) == [mine[0], "file:///b"]
        assert await bob.call_tool("where", returns=list[str]) == his
    assert witness.seen == [mine[0]]


@pytest.mark.parametrize("up", ["modern", "legacy"])
@both_eras
async def test_each_caller_hears_as_much_as_it_wants(up: Era, down: Era) -> None:
    async def work(context: Context) -> None:
        """Say what is done."""
        for level in ("debug", "info", "error"):
            await context.log(level, level)

    front, part = Registry("front"), remote_to(named("behind", work), era=up)
    front.mount(part)
    callers: list[tuple[LoggingLevel, list[str]]] = [
        ("info", ["info", "error"]),
        ("debug", ["debug", "info", "error"]),
        ("error", ["error"]),
        ("info", ["info", "error"]),
    ]
    async with part.running():  # all of them share its connection
        for wanted, heard in callers:
            said: list[str] = []
            on_log = partial(_note, said)
            async with connect(front, era=down, log_level=wanted, on_log=on_log) as client:
                await client.call_tool("work")
            assert said == heard


async def test_a_level_that_a_cancelled_call_has_asked_for_is_asked_for_again() -> None:
    asked, said = trio.Event(), list[str]()

    async def work(context: Context) -> None:
        await context.log("debug", "details")

    async def slow(request: McpRequest, call_next: Any) -> Any:
        if request.method == "logging/setLevel" and not asked.is_set():
            asked.set()
            await trio.sleep_forever()
        return await call_next(request)

    behind, front = Registry("behind", middleware=[slow]), Registry("front")
    behind.add_tool(work)
    front.mount(remote_to(behind, era="legacy"))
    async with connect(front, log_level="debug", on_log=partial(_note, said)) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "work")
            await asked.wait()
            nursery.cancel_scope.cancel()
        await wait_all_tasks_blocked()
        await client.call_tool("work")
    assert said == ["debug"]


def _note(said: list[str], level: str, *_: object) -> None:
    said.append(level)
