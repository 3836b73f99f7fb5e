"""The official Python client, on Trio's loop, judges our server over stdio."""

import runpy
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
import trio
from mcp import MCPError
from mcp.client import stdio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPDeprecationWarning

from tests.interop.stream_client import stream_client
from tests.support.processes import ENVIRONMENT, ROOT

GALLERY = ROOT / "tests" / "interop" / "programs" / "gallery.py"
PIXEL = "bm90IHJlYWxseSBhIHBpY3R1cmU="
TIME_LIMIT = 120  # seconds
REVISIONS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
MODES = list(REVISIONS)
TOOLS = [
    "text",
    "structured",
    "distance",
    "listed",
    "image",
    "mixed",
    "nothing",
    "in_a_thread",
    "refuse",
    "crash",
    "protocol_error",
    "slow",
    "wait",
    "until_waiting",
]

every_mode = pytest.mark.parametrize("mode", MODES)


@asynccontextmanager
async def connected(mode: str, errors: Path) -> AsyncIterator[Client]:
    """A client that has negotiated in a mode, and a server of its own."""
    parameters = StdioServerParameters(
        command=sys.executable, args=[str(GALLERY)], env=dict(ENVIRONMENT)
    )
    with trio.fail_after(TIME_LIMIT), errors.open("w") as errlog:
        async with Client(stdio_client(parameters, errlog), mode=mode) as client:
            yield client


@asynccontextmanager
async def in_this_process(mode: str) -> AsyncIterator[Client]:
    """The same over a stream in memory, for what a process of its own has no part in."""
    registry = runpy.run_path(str(GALLERY))["registry"]
    with trio.fail_after(TIME_LIMIT):
        async with Client(stream_client(registry), mode=mode) as client:
            yield client


@pytest.fixture
def errors(tmp_path: Path) -> Path:
    return tmp_path / "stderr"


async def all_tools(client: Client) -> list[types.Tool]:
    tools, cursor = [], None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        if (cursor := page.next_cursor) is None:
            return tools
        assert len(page.tools) == 4


@pytest.mark.requirement("A8", "A9")
@every_mode
async def test_the_server_introduces_itself(mode: str, errors: Path) -> None:
    async with connected(mode, errors) as client:
        assert client.protocol_version == REVISIONS[mode]
        info = client.server_info
        assert info is not None
        assert (info.name, info.version, info.title) == ("gallery", "1.2.3", "A gallery")
        assert client.instructions == "Look, but do not touch."
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.prompts is None


@pytest.mark.requirement("A8")
async def test_ping(errors: Path) -> None:
    async with connected("legacy", errors) as client:
        with pytest.warns(MCPDeprecationWarning, match="ping"):
            assert await client.send_ping() == types.EmptyResult()


@pytest.mark.requirement("A9")
async def test_a_revision_adopted_without_asking(errors: Path) -> None:
    async with connected(REVISIONS["auto"], errors) as client:
        result = await client.call_tool("text", {"words": "at once"})
        assert result.content == [types.TextContent(text="at once")]


@every_mode
@pytest.mark.requirement("C4")
async def test_tools_are_listed_page_by_page(mode: str) -> None:
    async with in_this_process(mode) as client:
        tools = {tool.name: tool for tool in await all_tools(client)}
        assert list(tools) == TOOLS
        assert tools["text"].title == "Say it"
        assert tools["text"].description == "Return a text."
        assert tools["text"].annotations == types.ToolAnnotations(read_only_hint=True)
        assert tools["distance"].input_schema["required"] == ["point"]
        assert (tools["structured"].output_schema or {})["type"] == "object"
        with pytest.raises(MCPError, match="cursor") as refused:
            await client.list_tools(cursor="nonsense")
        assert refused.value.code == types.INVALID_PARAMS


@every_mode
@pytest.mark.requirement("B5")
async def test_results_of_every_kind(mode: str, errors: Path) -> None:
    async with connected(mode, errors) as client:
        await all_tools(client)  # from here on the client checks results against their schemas
        for name in ("text", "in_a_thread"):
            result = await client.call_tool(name, {"words": "grüß dich\n\u2028😀"})
            assert result.content == [types.TextContent(text="grüß dich\n\u2028😀")]
            assert result.is_error is False
        result = await client.call_tool("structured", {"x": 1.5})
        assert result.structured_content == {"x": 1.5, "y": 0.0, "labels": ["here", "ünïcode"]}
        result = await client.call_tool("distance", {"point": {"x": 3, "y": 4}})
        assert result.content == [types.TextContent(text="5.0")]
        result = await client.call_tool("listed", {"count": 3})
        assert result.content == [types.TextContent(text="[0,1,2]")]
        assert result.structured_content == (
            {"result": [0, 1, 2]} if mode == "legacy" else [0, 1, 2]
        )
        result = await client.call_tool("image")
        assert result.content == [types.ImageContent(data=PIXEL, mime_type="image/png")]
        result = await client.call_tool("mixed")
        kinds: list[type[Any]] = [
            types.TextContent,
            types.ImageContent,
            types.AudioContent,
            types.ResourceLink,
            types.EmbeddedResource,
        ]
        assert [type(block) for block in result.content] == kinds
        assert (await client.call_tool("nothing")).content == []


@every_mode
@pytest.mark.requirement("A11", "A12", "B1", "B4", "B6")
async def test_failures_of_every_kind(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    async with in_this_process(mode) as client:
        result = await client.call_tool("refuse")
        assert result.is_error is True
        assert result.content == [types.TextContent(text="Error: not today")]
        result = await client.call_tool("crash")
        assert result.is_error is True
        assert "secret" not in result.model_dump_json()
        with pytest.raises(MCPError, match="The gallery is closed") as raised:
            await client.call_tool("protocol_error")
        assert raised.value.code == -32050
        assert raised.value.error.data == {"opens": "tomorrow"}
        result = await client.call_tool("slow")
        assert result.is_error is True
        assert result.content == [types.TextContent(text="Tool slow timed out after 0.05 s")]

        with pytest.raises(MCPError, match="Unknown tool: textt") as refused:
            await client.call_tool("textt")
        assert refused.value.code == types.INVALID_PARAMS
        for arguments in ({}, {"words": 1}, {"words": "x", "more": 1}):
            result = await client.call_tool("text", arguments)
            assert result.is_error is True
            (block,) = result.content
            assert isinstance(block, types.TextContent)
            assert block.text.startswith("Invalid arguments for tool text: ")
        for ask in (client.list_prompts, client.list_resources):
            with pytest.raises(MCPError, match="handler not registered") as refused:
                await ask()
            assert refused.value.code == types.METHOD_NOT_FOUND
            assert refused.value.error.data["server"] == "gallery"
    assert "the secret of the gallery" in caplog.text


@every_mode
@pytest.mark.requirement("B7")
async def test_a_cancelled_call_ends_on_the_server(mode: str) -> None:
    async with in_this_process(mode) as client:
        with pytest.raises(MCPError, match=r"(?i)timed out"):
            await client.call_tool("wait", read_timeout_seconds=0.05)
        await client.call_tool("until_waiting", {"calls": 0})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait")
            await client.call_tool("until_waiting", {"calls": 1})
            nursery.cancel_scope.cancel()
        await client.call_tool("until_waiting", {"calls": 0})


@pytest.mark.long
@every_mode
@pytest.mark.requirement("A13", "B2", "B8")
async def test_concurrent_calls_and_a_quiet_end(
    mode: str, errors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "PROCESS_TERMINATION_TIMEOUT", 2 * TIME_LIMIT)  # it ends by itself
    async with connected(mode, errors) as client:
        told = {}

        async def call(number: int) -> None:
            words = f"{number} " * 5000
            told[number] = (await client.call_tool("text", {"words": words})).content == [
                types.TextContent(text=words)
            ]

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(call, number)
        assert told == dict.fromkeys(range(50), True)
    assert errors.read_text() == ""
