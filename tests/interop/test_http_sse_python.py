"""HTTP+SSE: the official Python client meets our server, and our client the official server."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import mcp_types as types
import pytest
import trio
from mcp import MCPError
from mcp.client.client import Client as OfficialClient
from mcp.client.sse import sse_client
from mcp.shared.exceptions import MCPDeprecationWarning

from tests.interop.programs.http_shop import TOOLS, Shop
from tests.interop.test_http_client_python_server import check_cancellation, check_what_all_can_do
from tests.interop.test_http_server_python_client import (
    TIME_LIMIT,
    Person,
    Told,
    check_calls,
    text_of,
)
from tests.support.processes import ROOT, Server, python, running
from trio_mcp import Client, Disconnected, Handlers, HttpPolicy, connect, serve_http
from trio_mcp.errors import ConnectionLost

PROGRAM = ROOT / "tests" / "interop" / "programs" / "official_http.py"

pytestmark = [
    pytest.mark.requirement("F17"),
    # This client leaves the generators that read its streams to the garbage collector.
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]
every_mode = pytest.mark.parametrize("mode", ["legacy", "auto"])
# Without certificates, which take 20 ms to read.
open_sse = partial(sse_client, httpx_client_factory=partial(httpx2.AsyncClient, verify=False))


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """Have what the clients leave behind collected while that is expected."""
    yield
    gc.collect()


# -- the official client --------------------------------------------------------------------------


@asynccontextmanager
async def open_shop(**policy: Any) -> AsyncIterator[tuple[str, Any]]:
    """Serve a shop; yields its URL for HTTP+SSE, and the handle."""
    failure: BaseException | None = None
    with trio.fail_after(TIME_LIMIT):
        async with trio.open_nursery() as nursery:
            start = partial(
                serve_http,
                Shop().registry,
                "127.0.0.1",
                0,
                sse_path="/sse",
                policy=HttpPolicy(**policy),
            )
            handle: Any = await nursery.start(start)
            try:
                yield f"http://127.0.0.1:{handle.port}/sse", handle
            except BaseException as error:  # raised again below, outside of any exception group
                failure = error
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


@asynccontextmanager
async def official(mode: str, **options: Any) -> AsyncIterator[OfficialClient]:
    """The official client of a shop that wants a token."""
    headers = {"authorization": "Bearer secret"}
    async with (
        open_shop(tokens={"secret": "alice"}) as (url, _),
        OfficialClient(open_sse(url, headers), mode=mode, **options) as client,
    ):
        yield client


@every_mode
async def test_what_there_is(mode: str) -> None:
    async with official(mode) as client:
        assert client.server_info is not None
        assert client.server_info.name == "shop"
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        (prompt,) = (await client.get_prompt("greet", {"name": "Bob"})).messages
        assert prompt.content == types.TextContent(text="Greet Bob.")
        (contents,) = (await client.read_resource("stock://tëa")).contents
        assert isinstance(contents, types.TextResourceContents)
        assert contents.text == "some tëa"


@every_mode
async def test_calls_one_by_one_and_side_by_side(mode: str) -> None:
    async with official(mode) as client:
        await check_calls(client)


@every_mode
async def test_failures_progress_and_questions(mode: str) -> None:
    heard = Told()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        await heard((progress, total, message))

    async with official(mode, **Person().callbacks) as client:
        with pytest.raises(MCPError, match="The shop is closed"):
            await client.call_tool("fail", {"kind": "protocol"})
        result = await client.call_tool("steps", {"count": 3}, progress_callback=hear)
        assert text_of(result) == "done"
        assert [each[0] for each in sorted(await heard.next(3))] == [1, 2, 3]
        assert text_of(await client.call_tool("ask")) == "Hello Bob"
        assert text_of(await client.call_tool("ask_model")) == "tiny"
        assert text_of(await client.call_tool("list_roots")) == '["file:///srv"]'


@every_mode
async def test_a_cancelled_call_ends_on_the_server(mode: str) -> None:
    async with official(mode) as client:
        with pytest.raises(MCPError, match=r"(?i)timed out"):
            await client.call_tool("wait", read_timeout_seconds=0.05)
        await client.call_tool("until_waiting", {"calls": 0})


async def test_changes_are_told() -> None:
    told = Told()
    async with official("legacy", message_handler=told) as client:
        with pytest.warns(MCPDeprecationWarning, match="resources/subscribe"):
            await client.subscribe_resource("stock://tea")
        await client.call_tool("touch", {"uris": ["stock://coffee", "stock://tea"]})
        [update] = await told.next(1)
        assert isinstance(update, types.ResourceUpdatedNotification)
        assert update.params.uri == "stock://tea"
        await client.call_tool("add", {"name": "more"})
        [changed] = await told.next(1)
        assert isinstance(changed, types.ToolListChangedNotification)


async def test_many_clients_come_and_go() -> None:
    async with open_shop() as (url, handle):

        async def visit(number: int) -> None:
            async with OfficialClient(open_sse(url), mode="legacy") as client:
                for _ in range(3):
                    words = f"{number}"
                    assert text_of(await client.call_tool("text", {"words": words})) == words

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(visit, number)
        assert handle.server.counters.requests >= 5 * 6


# -- the official server --------------------------------------------------------------------------


async def introduce_oneself(params: dict[str, Any]) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": "Ada"}}


@asynccontextmanager
async def ours(**options: Any) -> AsyncIterator[tuple[Client, Server]]:
    """Our client of an official server, which ends with the block."""
    async with running(python(PROGRAM, "sse")) as server:
        await server.said(b"!")
        port = int(server.stderr.partition(b"port ")[2].partition(b"!")[0])
        handlers = Handlers(elicitation=introduce_oneself)
        url = f"http://127.0.0.1:{port}/sse"
        async with connect(url, handlers=handlers, **options) as client:
            yield client, server
            assert client.stray_output == []


@pytest.mark.needs("sdk-server")
async def test_our_client_of_the_official_server() -> None:
    async with ours() as (client, server):
        assert (client.era, client.revision) == ("legacy", "2025-11-25")
        await check_what_all_can_do(client)
        heard: list[Any] = []
        result = await client.call_tool(
            "steps", {"count": 3}, on_progress=lambda *each: heard.append(each)
        )
        assert result.text == "done"
        assert heard == [(number, 3, f"step {number}") for number in (1, 2, 3)]
        assert await client.call_tool("greet", returns=str) == "Hello Ada"
        await check_cancellation(client, server)


@pytest.mark.needs("sdk-server")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
async def test_our_client_insists_on_a_revision(revision: str) -> None:
    async with ours(revision=revision) as (client, _):
        assert client.revision == revision
        assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3


@pytest.mark.needs("sdk-server")
async def test_the_official_server_goes_away() -> None:
    async with ours() as (client, server):
        server.signal(9)
        assert [type(each) async for each in client.states()][-1] is Disconnected
        with pytest.raises(ConnectionLost):
            await client.call_tool("add", {"a": 1, "b": 2})
