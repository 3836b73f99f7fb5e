"""What a modern request says in headers as well as in its body."""

import logging

import pytest

from tests.client.http_support import ECHO, MODERN, Incoming, Script, serving
from trio_mcp import connect
from trio_mcp.errors import InvalidArguments, UnknownTool
from trio_mcp.wire.errors import McpError

pytestmark = pytest.mark.requirement("F9")

PROPERTIES = {
    "region": {"type": "string", "x-mcp-header": "Region"},
    "count": {"type": "integer", "x-mcp-header": "Count"},
    "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
    "where": {
        "type": "object",
        "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}},
    },
    "plain": {"type": "string"},
}
TOOL = {"name": "größe", "inputSchema": {"type": "object", "properties": PROPERTIES}}


def mirrored(incoming: Incoming) -> dict[str, str]:
    """The headers of a request that mirror something."""
    return {name: value for name, value in incoming.headers.items() if name.startswith("mcp-")}


async def test_version_method_and_name_are_mirrored() -> None:
    script = Script()
    complete = {"resultType": "complete"}
    script.on["resources/read"] = lambda i: i.result({**complete, "contents": []})
    script.on["prompts/get"] = lambda i: i.result({**complete, "messages": []})
    async with serving(script) as url, connect(url) as client:
        await client.call_tool("echo")
        await client.read_resource("file:///ä b")
        await client.get_prompt("two words")
    sent = [mirrored(each) for each in script.requests]
    assert all(each.pop("mcp-protocol-version") == MODERN for each in sent)
    assert sent == [
        {"mcp-method": "server/discover"},
        {"mcp-method": "tools/list"},
        {"mcp-method": "tools/call", "mcp-name": "echo"},
        {"mcp-method": "resources/read", "mcp-name": "=?base64?ZmlsZTovLy/DpCBi?="},
        {"mcp-method": "prompts/get", "mcp-name": "two words"},
    ]
    version = script.requests[0].params["_meta"]["io.modelcontextprotocol/protocolVersion"]
    assert version == MODERN


async def test_marked_arguments_are_mirrored_and_cannot_smuggle_headers_in() -> None:
    script = Script(tools=[TOOL])
    arguments = {
        "region": "us\r\nMcp-Method: evil",
        "count": -7,
        "dry": False,
        "where": {"zone": " ä "},
        "plain": "not mirrored",
    }
    async with serving(script) as url, connect(url) as client:
        await client.call_tool("größe", arguments)
        await client.call_tool("größe", {"region": "us-west1"})
        await client.call_tool("größe", {})
    first, second, third = ({**mirrored(each)} for each in script.asked("tools/call"))
    for each in (first, second, third):
        assert each.pop("mcp-method") == "tools/call"
        assert each.pop("mcp-name") == "=?base64?Z3LDtsOfZQ==?="
        assert each.pop("mcp-protocol-version") == MODERN
    assert first == {
        "mcp-param-region": "=?base64?dXMNCk1jcC1NZXRob2Q6IGV2aWw=?=",
        "mcp-param-count": "-7",
        "mcp-param-dry-run": "false",
        "mcp-param-zone": "=?base64?IMOkIA==?=",
    }
    assert second == {"mcp-param-region": "us-west1"}
    assert third == {}
    assert script.asked("tools/call")[0].params["arguments"] == arguments


async def test_an_argument_that_no_header_holds_is_refused_before_it_is_sent() -> None:
    script = Script(tools=[TOOL])
    async with serving(script) as url, connect(url) as client:
        with pytest.raises(InvalidArguments, match=r"'größe': 'count'.*2\*\*53"):
            await client.call_tool("größe", {"count": 2**53})
    assert script.asked("tools/call") == []


async def test_tools_whose_marks_are_invalid_are_left_out_with_a_warning(caplog) -> None:
    bad = {"type": "object", "properties": {"x": {"type": "number", "x-mcp-header": "X"}}}
    script = Script(tools=[ECHO, {"name": "bad", "inputSchema": bad}])
    with caplog.at_level(logging.WARNING, "trio_mcp.client"):
        async with serving(script) as url, connect(url) as client:
            assert list(client.tools) == ["echo"]
            with pytest.raises(UnknownTool):
                await client.call_tool("bad", {"x": 1})
            assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
    [record] = caplog.records
    assert "bad" in record.getMessage()
    assert "string, integer or boolean" in record.getMessage()


async def test_legacy_servers_are_spared_all_that() -> None:
    bad = {"type": "object", "properties": {"x": {"type": "number", "x-mcp-header": "X"}}}
    script = Script("legacy", tools=[TOOL, {"name": "bad", "inputSchema": bad}])
    async with serving(script) as url, connect(url) as client:
        assert list(client.tools) == ["größe", "bad"]
        await client.call_tool("größe", {"region": "us-west1"})
    [call] = script.asked("tools/call")
    assert mirrored(call).keys() == {"mcp-session-id", "mcp-protocol-version"}


async def test_a_server_that_misses_headers_is_asked_for_its_tools_again() -> None:
    script = Script(tools=[ECHO])

    async def call(incoming: Incoming) -> None:
        if "mcp-param-text" in incoming.headers:
            await script.modern(incoming)
            return
        marked = {"text": {"type": "string", "x-mcp-header": "Text"}}
        script.tools = [{"name": "echo", "inputSchema": {"type": "object", "properties": marked}}]
        await incoming.error(400, -32020, "Header mismatch: Mcp-Param-Text is missing")

    script.on["tools/call"] = call
    async with serving(script) as url, connect(url) as client:
        client.tools["echo"].timeout = 3.0
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
        assert client.tools["echo"].timeout == 3.0
    asked = [each.rpc for each in script.requests]
    assert asked[-3:] == ["tools/call", "tools/list", "tools/call"]


async def test_a_server_that_is_never_content_with_the_headers_is_asked_only_twice() -> None:
    script = Script()
    script.on["tools/call"] = lambda i: i.error(400, -32020, "Header mismatch: as always")
    async with serving(script) as url, connect(url) as client:
        with pytest.raises(McpError, match="as always"):
            await client.call_tool("echo")
    assert len(script.asked("tools/call")) == 2
