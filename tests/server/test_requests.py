"""What a request may say, and what it is told when it says something else."""

import json

import pytest

from tests.support.client import modern_meta, serving
from tests.support.errors import own_data
from tests.support.tools import (
    each_revision,
    echo,
    error_of,
    failure_of,
    registry_of,
    some_revisions,
    text_of,
)
from trio_mcp import Registry
from trio_mcp.middleware import McpRequest
from trio_mcp.wire.revisions import META_CLIENT_CAPABILITIES, META_VERSION

OFFERS = [
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
]


@pytest.mark.requirement("A11")
@some_revisions
@pytest.mark.parametrize("method", OFFERS)
async def test_a_bare_registry_has_no_handlers(revision, method):
    async with serving(Registry("bare"), revision=revision) as (client, _):
        answer = await client.request(method, {"name": "x", "uri": "x:y"})
        assert error_of(answer) == (-32601, f"{method} handler not registered")
        assert own_data(answer) == {"server": "bare", "method": method}


@pytest.mark.requirement("A11")
async def test_tools_alone_bring_no_other_handlers():
    async with serving(registry_of(echo)) as (client, _):
        for method in OFFERS[2:]:
            answer = await client.request(method)
            assert error_of(answer) == (-32601, f"{method} handler not registered")


@pytest.mark.requirement("A11")
async def test_a_tool_that_comes_and_goes_while_serving():
    registry = Registry("bare")
    async with serving(registry) as (client, _):
        assert error_of(await client.request("tools/list"))[0] == -32601
        registry.add_tool(echo)
        assert len((await client.request("tools/list"))["result"]["tools"]) == 1
        assert text_of(await client.call("echo", text="x")) == "x"
        registry.remove_tool("echo")
        assert error_of(await client.request("tools/list"))[0] == -32601
        assert error_of(await client.call("echo", text="x"))[0] == -32601


@pytest.mark.requirement("A12")
@some_revisions
@pytest.mark.parametrize(
    "method", ["nonsense", "", "tools", "tools/list ", "notifications/cancelled"]
)
async def test_an_unknown_method(revision, method):
    async with serving(registry_of(echo), revision=revision) as (client, _):
        answer = await client.request(method)
        assert error_of(answer) == (-32601, f"Method not found: {method}")
        assert answer["error"]["data"]["server"] == "test"


@pytest.mark.requirement("A12")
@pytest.mark.parametrize(
    ("message", "id", "code", "words"),
    [
        ({"jsonrpc": "2.0", "id": 1}, 1, -32600, '"method" is missing'),
        ({"jsonrpc": "2.0", "id": 1, "method": 5}, 1, -32600, '"method" must be a string'),
        ({"jsonrpc": "2.0", "id": 1, "method": None}, 1, -32600, '"method" must be a string'),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, 1, -32600, '"jsonrpc" must be "2.0"'),
        ({"jsonrpc": 2.0, "id": 1, "method": "ping"}, 1, -32600, '"jsonrpc" must be "2.0"'),
        ({"id": "a", "method": "ping"}, "a", -32600, '"jsonrpc" must be "2.0"'),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, "", -32600, '"id" must be'),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, "", -32600, '"id" must be'),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, "", -32600, '"id" must be'),
        ({"jsonrpc": "2.0", "id": [], "method": "ping"}, "", -32600, '"id" must be'),
        ({"jsonrpc": "2.0", "id": {}, "method": "ping"}, "", -32600, '"id" must be'),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 5}, 1, -32602, "an object"),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": "x"}, 1, -32602, "an object"),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}, 1, -32602, "an object"),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": False}, 1, -32602, "an object"),
        ({}, "", -32600, '"jsonrpc" must be "2.0"'),
        (5, "", -32600, "must be a JSON object"),
        ("ping", "", -32600, "must be a JSON object"),
        (None, "", -32600, "must be a JSON object"),
    ],
)
async def test_a_wrong_envelope(message, id, code, words):
    async with serving(registry_of(echo)) as (client, _):
        await client.send(message)
        answer = await client.receive()
        assert answer["id"] == id
        assert answer["error"]["code"] == code
        assert words in answer["error"]["message"]
        assert "result" in await client.request("ping")


@pytest.mark.requirement("A12")
@some_revisions
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "Missing tool name"),
        ({"name": None}, "Missing tool name"),
        ({"name": 5}, "The tool name must be a string, not a number"),
        ({"name": True}, "The tool name must be a string, not a boolean"),
        ({"name": ["echo"]}, "The tool name must be a string, not an array"),
        ({"name": {}}, "The tool name must be a string, not an object"),
        ({"name": "sum"}, "Unknown tool: sum"),
        ({"name": ""}, "Unknown tool: "),
        ({"name": "echo", "arguments": []}, "must be an object, not an array"),
        ({"name": "echo", "arguments": "text"}, "must be an object, not a string"),
        ({"name": "echo", "arguments": 5}, "must be an object, not a number"),
        ({"name": "echo", "arguments": False}, "must be an object, not a boolean"),
    ],
)
async def test_a_wrong_tool_call(revision, params, message):
    async with serving(registry_of(echo), revision=revision) as (client, _):
        code, said = error_of(await client.request("tools/call", params))
        assert code == -32602
        assert said.endswith(message) or message in said


@pytest.mark.requirement("A12")
async def test_an_unknown_tool_is_told_the_closest_name():
    async with serving(registry_of(echo)) as (client, _):
        answer = await client.call("ehco")
        data = {"tool": "ehco", "didYouMean": "echo", "requestId": answer["id"]}
        assert answer["error"]["data"] == data
        assert len(json.dumps((await client.call("x" * 100_000))["error"])) < 1000


@pytest.mark.requirement("A12")
@pytest.mark.parametrize(
    ("arguments", "argument"),
    [({"text": 5}, "text"), ({}, "text"), ({"text": "x", "more": 1}, "more"), ([], None)],
)
async def test_the_data_of_an_error_has_tool_and_argument(arguments, argument):
    async with serving(registry_of(echo), revision="2025-06-18") as (client, _):
        answer = await client.request("tools/call", {"name": "echo", "arguments": arguments})
        data = {"tool": "echo", "requestId": answer["id"]}
        assert answer["error"]["data"] == data | ({"argument": argument} if argument else {})
        answer = await client.request("tools/fly")
        data = {"server": "test", "method": "tools/fly", "requestId": answer["id"]}
        assert answer["error"]["data"] == data
        answer = await client.request("tools/call")
        assert answer["error"]["data"] == {"requestId": answer["id"]}


@pytest.mark.requirement("B4", "A12")
@each_revision
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"text": 5}, ["text", "string", "number"]),
        ({"text": None}, ["text", "string", "null"]),
        ({}, ["text"]),
        (None, ["text"]),
        ({"text": "x", "other": 1}, ["other"]),
    ],
)
async def test_wrong_arguments_name_the_argument(revision, arguments, words):
    async with serving(registry_of(echo), revision=revision) as (client, _):
        answer = await client.request("tools/call", {"name": "echo", "arguments": arguments})
        if revision >= "2025-11-25":
            said = failure_of(answer)
        else:
            code, said = error_of(answer)
            assert code == -32602
        assert "echo" in said
        for word in words:
            assert word in said


@pytest.mark.requirement("B4")
async def test_a_tool_with_wrong_arguments_does_not_run():
    ran = []

    async def note(count: int) -> None:
        ran.append(count)

    async with serving(registry_of(note)) as (client, _):
        for wrong in ("one", 1.5, True, None, [1]):
            failure_of(await client.call("note", count=wrong))
        await client.call("note", count=7)
    assert ran == [7]


async def test_a_meta_of_the_wrong_type_is_nothing():
    async with serving(registry_of(echo)) as (client, _):
        for meta in (5, "x", [], None, {"progressToken": 1}):
            answer = await client.request(
                "tools/call", {"name": "echo", "arguments": {"text": "x"}, "_meta": meta}
            )
            assert text_of(answer) == "x"


async def test_a_request_that_is_not_modern_enough_is_legacy():
    """Client info alone does not make a request a modern one."""
    key = "io.modelcontextprotocol/clientInfo"
    async with serving(registry_of(echo)) as (client, _):
        answer = await client.request("ping", {"_meta": {key: modern_meta()[key]}})
        assert answer["result"] == {}


@pytest.mark.requirement("A12")
@pytest.mark.parametrize("method", ["notifications/x", "tools/call", "initialize", "nonsense", ""])
@pytest.mark.parametrize("params", [None, {}, {"name": "echo"}, [1], "x"])
async def test_a_notification_is_never_answered(method, params):
    async with serving(registry_of(echo)) as (client, _):
        await client.send({"jsonrpc": "2.0", "method": method, "params": params})
        assert "result" in await client.request("ping")  # asserts that this id is answered next


async def test_responses_to_nothing_are_ignored():
    async with serving(registry_of(echo)) as (client, _):
        await client.send(
            {"jsonrpc": "2.0", "id": 1, "result": {}},
            {"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "no"}},
            {"jsonrpc": "2.0", "id": "x", "error": None},
        )
        assert "result" in await client.request("ping")


@pytest.mark.parametrize("id", [0, -1, "", "0", "é", 2**63, "x" * 1000])
async def test_any_id_comes_back_as_it_was(id):
    async with serving(registry_of(echo)) as (client, _):
        await client.send({"jsonrpc": "2.0", "id": id, "method": "ping"})
        assert await client.receive() == {"jsonrpc": "2.0", "id": id, "result": {}}


@pytest.mark.requirement("A11")
async def test_an_error_of_our_own_is_internal(monkeypatch, caplog):
    async with serving(registry_of(echo)) as (client, _):
        monkeypatch.setattr("trio_mcp.server.lists.ListCache.page", lambda *_: 1 / 0)
        assert error_of(await client.request("tools/list")) == (-32603, "Internal error")
        assert "ZeroDivisionError" in caplog.text
        assert text_of(await client.call("echo", text="x")) == "x"


@pytest.mark.requirement("A12")
@pytest.mark.parametrize(
    ("method", "params", "data"),
    [
        ("tools/call", {"name": 5}, {"got": "a number"}),
        ("prompts/get", {}, {"parameter": "name", "expected": "a string", "got": "nothing"}),
        (
            "prompts/get",
            {"name": []},
            {"parameter": "name", "expected": "a string", "got": "an array"},
        ),
        (
            "prompts/list",
            {"_meta": {META_VERSION: 7, META_CLIENT_CAPABILITIES: {}}},
            {"parameter": f"_meta.{META_VERSION}", "expected": "a string", "got": "a number"},
        ),
    ],
)
async def test_the_data_of_an_error_says_what_was_expected_and_what_came(method, params, data):
    registry = registry_of(echo)
    registry.add_prompt(lambda topic: topic, name="ask")
    async with serving(registry, revision="2025-11-25") as (client, _):
        assert own_data(await client.request(method, params)) == data


@pytest.mark.requirement("A12")
async def test_middleware_around_requests_changes_nothing_of_it():
    async def pass_on(request: McpRequest, call_next):
        return await call_next(request)

    registry = Registry("bare", middleware=[pass_on])
    async with serving(registry) as (client, _):
        answer = await client.request("tools/list")
        assert own_data(answer) == {"server": "bare", "method": "tools/list"}
