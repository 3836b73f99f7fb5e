"""Calls over HTTP that go on although they were cancelled, and calls that a shutdown cuts off."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.support.tools import echo, registry_of, text_of
from tests.transports.http.sockets import served
from tests.transports.http.support import (
    LegacyClient,
    ModernClient,
    each_manner,
    hosting,
    progress_meta,
)
from trio_mcp import Context, HttpPolicy, Limits, Registry

CANCELLED = {"code": -32603, "message": "Request cancelled"}


async def silent(seconds: float) -> str:
    """Works without a context, and is not to be interrupted."""
    with trio.CancelScope(shield=True):
        await trio.sleep(seconds)
    return "late"


async def chatty(seconds: float, context: Context) -> str:
    """Says something before and after."""
    await context.progress(1)
    with trio.CancelScope(shield=True):
        await trio.sleep(seconds)
        await context.progress(2)
    return "late"


def stubborn() -> Registry:
    registry = registry_of(echo)
    for tool in (silent, chatty):
        registry.add_tool(tool, timeout=5)
    return registry


async def client_of(host: Any, kind: Any) -> Any:
    client = kind(host)
    if kind is LegacyClient:
        await client.initialize()
    return client


@pytest.mark.requirement("B1", "F2")
@each_manner
@pytest.mark.parametrize("kind", [ModernClient, LegacyClient])
@pytest.mark.parametrize("name", ["silent", "chatty"])
async def test_a_tool_that_ignores_its_time_limit_is_answered_for(
    name: str, kind: Any, manner: str, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with hosting(stubborn(), manner=manner) as host:
        client = await client_of(host, kind)
        began = trio.current_time()
        response = client.begin_call(name, progress_meta(), seconds=100)
        await response.complete()
        spoke = [await response.message() for _ in range(2)] if response.is_stream else []
        *told, answer = spoke or [response.json()]
        assert 5.9 < trio.current_time() - began < 6.1
        assert text_of(answer) == f"Tool {name} timed out after 5 s"
        assert answer["result"]["isError"] is True
        assert len(told) == (name == "chatty")
        assert "goes on after its time limit" in caplog.text
        if kind is ModernClient and name == "silent":
            assert response.headers["connection"] == "close", "its task is still taken"
        assert text_of(await client.call("echo", text="x")) == "x"
        await trio.sleep(100)
        assert trio.current_time() - began > 105, "and its late result goes nowhere"


@pytest.mark.requirement("B7")
async def test_nobody_is_answered_who_has_cancelled(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with hosting(stubborn()) as host:
        client = await client_of(host, LegacyClient)
        response = client.begin_call("silent", seconds=20)
        await trio.sleep(1)
        assert await client.notify("notifications/cancelled", {"requestId": 2}) == 202
        assert await response.end()
        assert response.body == b""
        assert "goes on" not in caplog.text


@pytest.mark.requirement("F5")
@pytest.mark.parametrize("kind", [ModernClient, LegacyClient])
async def test_calls_that_a_shutdown_cuts_off_are_answered(kind: Any, autojump_clock: Any) -> None:
    async def forever() -> None:
        await trio.sleep_forever()

    policy = HttpPolicy(max_concurrent=2)
    async with hosting(registry_of(forever), policy) as host:
        client = await client_of(host, kind)
        responses = [client.begin_call("forever") for _ in range(3)]  # one waits for a place
        await trio.testing.wait_all_tasks_blocked()
        host.app.stop()
        await trio.sleep(3)
        host.app.cancel_calls()
        for response in responses:
            assert (await response.answer())["error"] == CANCELLED


@pytest.mark.requirement("F5")
async def test_a_server_that_stops_answers_what_it_cuts_off() -> None:
    async def forever() -> None:
        begun.set()
        await trio.sleep_forever()

    begun = trio.Event()
    options = {"limits": Limits(shutdown_grace=0, cancel_timeout=1)}
    async with served(registry_of(forever), **options) as server:
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                reply = await server.ask(server.call("forever"))
                assert reply.json()["error"] == CANCELLED

            nursery.start_soon(call)
            await begun.wait()
            server.handle.stop()
