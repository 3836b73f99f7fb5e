"""Our client meets Streamable HTTP servers of the official Python SDK, in both eras."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

from tests.support.processes import ROOT, TIME_LIMIT, Server, python, running
from trio_mcp import Client, Handlers, ListChanged, ResourceNotFound, connect
from trio_mcp.client.negotiation import Era

PROGRAM = ROOT / "tests" / "interop" / "programs" / "official_http.py"

pytestmark = [pytest.mark.needs("sdk-server"), pytest.mark.requirement("F7", "F8")]


async def introduce_oneself(params: dict[str, Any]) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": "Ada"}}


@asynccontextmanager
async def connected(mode: str, era: Era | None = None) -> AsyncIterator[tuple[Client, Server]]:
    """A client of such a server, which ends with the block."""
    async with running(python(PROGRAM, mode)) as server:
        await server.said(b"!")
        port = int(server.stderr.partition(b"port ")[2].partition(b"!")[0])
        handlers = Handlers(elicitation=introduce_oneself)
        async with connect(f"http://127.0.0.1:{port}/mcp", era=era, handlers=handlers) as client:
            yield client, server
            assert client.stray_output == []


async def check_what_all_can_do(client: Client) -> None:
    """Calls, errors, resources, side by side."""
    assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
    assert await client.call_tool("mirror", {"region": "zürich"}, returns=str) == "zürich 1"
    with pytest.raises(ResourceNotFound):
        await client.read_resource("nowhere://at/all")
    assert (await client.read_resource("config://app")).text == "open"
    sums: list[int] = []

    async def add(number: int) -> None:
        sums.append(await client.call_tool("add", {"a": number, "b": 0}, returns=int))

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(add, number)
    assert sorted(sums) == list(range(20))


async def check_progress(client: Client) -> None:
    """Notifications come on the stream of the request."""
    heard: list[Any] = []
    result = await client.call_tool(
        "steps", {"count": 3}, on_progress=lambda *each: heard.append(each)
    )
    assert result.text == "done"
    assert heard == [(number, 3, f"step {number}") for number in (1, 2, 3)]


async def check_cancellation(client: Client, server: Server) -> None:
    """The server is told that nobody waits any more."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(client.call_tool, "wait", timeout=TIME_LIMIT))
        await server.said(b"waiting")
        nursery.cancel_scope.cancel()
    await server.said(b"cancelled")


async def test_a_modern_server_that_streams() -> None:
    async with connected("sessions") as (client, server):
        assert (client.era, client.revision) == ("modern", "2026-07-28")
        await check_what_all_can_do(client)
        await check_progress(client)
        await check_cancellation(client, server)
        assert await client.call_tool("greet", returns=str) == "Hello Ada"
        async with client.subscribe(lists=["tools"]) as changes:
            await client.call_tool("touch")
            assert await anext(changes) == ListChanged("tools")


async def test_a_modern_server_that_answers_with_json() -> None:
    async with connected("stateless", "modern") as (client, _):
        await check_what_all_can_do(client)
        assert await client.call_tool("greet", returns=str) == "Hello Ada"


@pytest.mark.requirement("F10", "F11", "F12")
async def test_a_legacy_server_with_sessions() -> None:
    async with connected("sessions", "legacy") as (client, server):
        assert (client.era, client.revision) == ("legacy", "2025-11-25")
        await check_what_all_can_do(client)
        await check_progress(client)
        await check_cancellation(client, server)
        assert await client.call_tool("greet", returns=str) == "Hello Ada"
        assert await client.call_tool("pause", returns=str) == "resumed"
        await server.said(b"resumed after")
        await check_the_servers_own_stream(client)


async def check_the_servers_own_stream(client: Client) -> None:
    """What belongs to no request comes, too, once that stream is open."""
    messages = client.messages()
    while True:
        await client.call_tool("touch")
        with trio.move_on_after(0.5):
            async for message in messages:
                if json.loads(message).get("method") == "notifications/tools/list_changed":
                    return


async def test_a_legacy_server_without_sessions() -> None:
    async with connected("stateless", "legacy") as (client, _):
        assert client.era == "legacy"
        await check_what_all_can_do(client)


@pytest.mark.requirement("F9")
async def test_headers_are_what_the_server_expects() -> None:
    """The SDK compares every mirrored header with the body."""
    async with connected("stateless") as (client, _):
        for region, count in [(" padded ", -7), ("a\r\nb: c", 2**53 - 1), ("=?base64?x?=", 0)]:
            arguments = {"region": region, "count": count}
            result = await client.call_tool("mirror", arguments, returns=str)
            assert result == f"{region} {count}"
