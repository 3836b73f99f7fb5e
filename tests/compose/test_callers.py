"""Connections of their own for callers that a legacy server may ask something."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tests.compose.support import named
from trio_mcp import Client, Context, Handlers, Registry, Remote, connect
from trio_mcp.client.negotiation import Era
from trio_mcp.compose.upstream import Upstream

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
    part = Remote(named("asks", ask), era="legacy", name="asks", **options)
    registry = Registry("front")
    registry.mount(part)
    async with part.running() as upstream:
        await part.ready()
        yield registry, upstream


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
    async with remote(max_callers=1, patience=0.1) as (registry, upstream):
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
