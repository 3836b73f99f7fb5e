"""Streamable HTTP of revision 2026-07-28: every request stands for itself."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.support.client import CAPABILITIES
from tests.support.tools import echo, error_of, failure_of, registry_of, text_of
from tests.transports.http.support import (
    Event,
    LegacyClient,
    ModernClient,
    Response,
    Worker,
    each_manner,
    hosting,
    modern,
    progress_meta,
)
from trio_mcp import Context, Depends, HttpPolicy, Limits, McpError, Registry, SessionOptions
from trio_mcp.compose import Provider, forwarded_entry
from trio_mcp.wire.payloads import ToolDescription

MISMATCH, NO_CAPABILITY, NO_VERSION = -32020, -32021, -32022
VERSION = "io.modelcontextprotocol/protocolVersion"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


def wrapped(text: str | bytes) -> str:
    """A value as base64, as a header carries it."""
    raw = text.encode() if isinstance(text, str) else text
    return f"=?base64?{base64.b64encode(raw).decode()}?="


# -- answers --------------------------------------------------------------------------------------


@pytest.mark.requirement("F1")
async def test_a_request_is_answered_with_json() -> None:
    async with modern(registry_of(echo)) as client:
        response = await client.begin_call("echo", text="grüß dich").end()
        assert response.status == 200
        assert response.headers["content-type"] == "application/json"
        assert response.headers["content-length"] == str(len(response.body))
        assert "mcp-session-id" not in response.headers
        assert text_of(await response.answer()) == "grüß dich"


@pytest.mark.requirement("F1")
async def test_every_request_stands_for_itself() -> None:
    """No handshake, no session; and what an older client would send is ignored."""
    async with modern(registry_of(echo)) as client:
        discovered = await client.request("server/discover")
        assert discovered["result"]["supportedVersions"] == ["2026-07-28"]
        for headers in ({}, {"mcp-session-id": "mine"}, {"last-event-id": "1-1"}):
            response = await client.begin("tools/list", None, **headers).end()
            assert response.status == 200
            assert "mcp-session-id" not in response.headers
            assert (await response.answer())["result"]["tools"][0]["name"] == "echo"


@pytest.mark.requirement("F1")
async def test_a_notification_is_accepted() -> None:
    async with modern(registry_of(echo)) as client:
        for method in ("notifications/cancelled", "notifications/unheard-of"):
            message = {"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}}
            response = await client.post(message)
            assert response.status == 202
            assert response.body == b""


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_there_is_nothing_but_post(method: str) -> None:
    headers = {"mcp-protocol-version": "2026-07-28", "accept": "text/event-stream"}
    async with hosting(registry_of(echo)) as host:
        response = await host.ask(method, headers={**headers, "mcp-session-id": "x"})
        assert response.status == 405
        assert "POST" in response.headers["allow"].split(", ")


async def failing(kind: str) -> str:
    """Fail in some way."""
    if kind == "protocol":
        raise McpError(-32050, "closed", {"opens": "tomorrow"})
    if kind == "internal":
        raise McpError(-32603, "broken")
    raise RuntimeError("the secret of /usr/lib/secret.py")


def gallery() -> Registry:
    """A registry with something of everything."""
    registry = registry_of(echo, failing)

    @registry.resource("data:///pretty näme".replace(" ", "%20").replace("ä", "%C3%A4"))
    async def encoded() -> str:
        return "encoded"

    @registry.resource("text://{+path}")
    async def any_text(path: str) -> str:
        return path

    @registry.prompt
    async def greet(name: str) -> str:
        return f"Greet {name}."

    @registry.prompt(name="größe")
    async def size() -> str:
        return "big"

    return registry


Expected = tuple[str, dict[str, Any], int, int]
ANSWERS: list[Expected] = [
    ("tools/list", {}, 200, 0),
    ("tools/call", {"name": "echo", "arguments": {"text": "x"}}, 200, 0),
    # Failures that are results, or errors of the author's own, are answers like any other.
    ("tools/call", {"name": "echo", "arguments": {}}, 200, 0),
    ("tools/call", {"name": "failing", "arguments": {"kind": "any"}}, 200, 0),
    ("tools/call", {"name": "failing", "arguments": {"kind": "protocol"}}, 200, -32050),
    ("tools/call", {"name": "failing", "arguments": {"kind": "internal"}}, 200, -32603),
    # Invalid parameters.
    ("tools/call", {"name": "nothing"}, 400, -32602),
    ("tools/call", {}, 400, -32602),
    ("tools/call", {"name": 5}, 400, -32602),
    ("resources/read", {"uri": "no:thing"}, 400, -32602),
    ("prompts/get", {"name": "nobody"}, 400, -32602),
    ("tools/list", {"cursor": "nonsense"}, 400, -32602),
    ("subscriptions/listen", {"notifications": 5}, 400, -32602),
    # Methods that are unknown, unknown in this revision, or not for HTTP.
    ("tools/fly", {}, 404, -32601),
    ("initialize", {"protocolVersion": "2025-11-25"}, 404, -32601),
    ("ping", {}, 404, -32601),
    ("logging/setLevel", {"level": "info"}, 404, -32601),
    ("resources/subscribe", {"uri": "no:thing"}, 404, -32601),
    ("shutdown", {}, 404, -32601),
    ("", {}, 404, -32601),
]


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(("method", "params", "status", "code"), ANSWERS)
async def test_the_status_goes_with_the_answer(
    method: str, params: dict[str, Any], status: int, code: int
) -> None:
    async with modern(gallery()) as client:
        request = client.request_of(method, params)
        response = await client.post(request)
        assert response.status == status
        answer = await response.answer()
        assert answer["id"] == request["id"]
        assert ("error" in answer) == bool(code)
        assert not code or answer["error"]["code"] == code
        assert b"secret" not in response.body


@pytest.mark.requirement("A16")
async def test_the_refusal_of_a_shutdown_says_of_which_request_and_server() -> None:
    async with modern(registry_of(echo)) as client:
        request = client.request_of("shutdown")
        error = (await client.post(request)).error
        data = {"server": "test", "method": "shutdown", "requestId": request["id"]}
        assert (error["code"], error["data"]) == (-32601, data)
        assert "connections that are one client's own" in error["message"]
        assert text_of(await client.call("echo", text="still there")) == "still there"


@pytest.mark.requirement("F1")
async def test_a_method_without_a_handler_is_not_found() -> None:
    async with modern(Registry("bare")) as client:
        response = await client.begin("tools/list").end()
        assert response.status == 404
        assert response.error["code"] == -32601


@pytest.mark.requirement("F1")
async def test_the_status_of_an_error_with_a_long_id() -> None:
    async with modern(registry_of(echo)) as client:
        request = {**client.request_of("tools/fly"), "id": "x" * 1024}
        response = await client.post(request)
        assert response.status == 404
        assert (await response.answer())["id"] == request["id"]


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("id", ["error", '"error":', ',"error":{"code":-32601,', 2**53, "\u2028\t"])
async def test_the_status_tells_errors_from_results_whatever_the_id(id: str | int) -> None:
    async def failures() -> dict[str, Any]:
        return {"error": {"code": -32601, "message": "one of many"}}

    async with modern(registry_of(failures)) as client:
        for method, params, status in (
            ("tools/call", {"name": "failures"}, 200),
            ("tools/call", {"name": "missing"}, 400),
            ("tools/fly", {}, 404),
        ):
            response = await client.post({**client.request_of(method, params), "id": id})
            assert response.status == status
            assert (await response.answer())["id"] == id


@pytest.mark.requirement("F1")
async def test_a_result_that_talks_of_errors_is_none() -> None:
    async with modern(registry_of(echo)) as client:
        for text in ('"error"', '{"error":{"code":-32601}}', '"error":' * 1000):
            response = await client.begin_call("echo", text=text).end()
            assert response.status == 200
            assert text_of(await response.answer()) == text


BODIES = [
    (b"", -32600),
    (b"  \r\n\t ", -32600),
    (b"nonsense", -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/list"', -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
    (b"5", -32600),
    (b"[]", -32600),
    (b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}', -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}', -32600),
    (b'{"jsonrpc":"2.0","id":1}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}', -32600),
    # What is no single request or notification.
    (b'{"jsonrpc":"2.0","id":1,"result":{}}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}', -32600),
    (b'[{"jsonrpc":"2.0","method":"notifications/x"}]', -32600),
]


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(("body", "code"), BODIES)
async def test_what_is_no_request_is_refused(body: bytes, code: int) -> None:
    async with modern(registry_of(echo)) as client:
        response = await client.post(body)
        assert response.status == 400
        assert (await response.answer())["error"]["code"] == code


@pytest.mark.requirement("A6", "F1")
async def test_what_cannot_be_read_is_answered_under_its_id_and_logged_without_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    body = b'{"jsonrpc":"2.0","id":"secret","method":"tools/list","params":{"x":2.5e999}}'
    async with modern(registry_of(echo)) as client:
        response = await client.post(body)
        assert response.status == 400
        assert (await response.answer())["id"] == "secret"
    assert f"Malformed message of {len(body)} bytes: Parse error" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.requirement("F1")
async def test_a_batch_of_requests_is_refused() -> None:
    async with modern(registry_of(echo)) as client:
        request = client.request_of("tools/list")
        response = await client.post([request], client.headers_for(request))
        assert response.status == 400
        assert (await response.answer())["error"]["code"] == -32600
        # Without the header it may be a legacy batch, but for what is in it.
        response = await client.post([request], {"mcp-protocol-version": None})
        [[answer]] = await response.messages()
        assert answer["error"]["code"] == -32600


# -- headers --------------------------------------------------------------------------------------

NO_NAME: dict[str, str | bytes | None] = {"mcp-name": None}
HEADERS: list[tuple[str, dict[str, Any], dict[str, str | bytes | None]]] = [
    ("tools/list", {}, {"mcp-protocol-version": None}),
    ("tools/list", {}, {"mcp-protocol-version": "2025-11-25"}),
    ("tools/list", {}, {"mcp-protocol-version": "2099-01-01"}),
    ("tools/list", {}, {"mcp-protocol-version": ""}),
    ("tools/list", {}, {"mcp-protocol-version": wrapped("2026-07-28")}),
    ("tools/list", {}, {"mcp-method": None}),
    ("tools/list", {}, {"mcp-method": "tools/call"}),
    ("tools/list", {}, {"mcp-method": "Tools/List"}),
    ("tools/list", {}, {"mcp-method": wrapped("tools/list")}),
    ("tools/list", {}, {"mcp-method": "tools/list, tools/list"}),
    ("tools/list", {}, {"mcp-method": b"tools/list\x00"}),
    ("tools/call", {"name": "echo"}, NO_NAME),
    ("tools/call", {"name": "echo"}, {"mcp-name": "Echo"}),
    ("tools/call", {"name": "echo"}, {"mcp-name": ""}),
    ("tools/call", {"name": "echo"}, {"mcp-name": "failing"}),
    ("tools/call", {"name": "echo"}, {"mcp-name": wrapped("failing")}),
    ("tools/call", {"name": "echo"}, {"mcp-name": "=?base64?ZWNobw==?"}),
    ("tools/call", {"name": "echo"}, {"mcp-name": "=?BASE64?ZWNobw==?="}),
    ("tools/call", {"name": "echo"}, {"mcp-name": "=?base64?ZWNobw?="}),
    ("tools/call", {"name": "echo"}, {"mcp-name": "=?base64?ZWN obw==?="}),
    ("tools/call", {"name": "echo"}, {"mcp-name": "=?base64?\xff?=".encode("latin-1")}),
    ("tools/call", {"name": "nothing"}, NO_NAME),
    ("prompts/get", {"name": "greet"}, NO_NAME),
    ("prompts/get", {"name": "greet"}, {"mcp-name": "größe".encode()}),
    ("prompts/get", {"name": "größe"}, {"mcp-name": "größe".encode()}),
    ("prompts/get", {"name": "größe"}, {"mcp-name": "größe".encode("latin-1")}),
    ("prompts/get", {"name": "größe"}, {"mcp-name": wrapped("größe".encode("latin-1"))}),
    ("resources/read", {"uri": "text://a"}, NO_NAME),
    ("resources/read", {"uri": "text://a"}, {"mcp-name": "text://b"}),
    ("resources/read", {"uri": "text://=?base64?x?="}, {"mcp-name": "text://=?base64?x?=x"}),
]


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(("method", "params", "headers"), HEADERS)
async def test_headers_that_do_not_match_the_body(
    method: str, params: dict[str, Any], headers: dict[str, Any]
) -> None:
    async with modern(gallery()) as client:
        request = client.request_of(method, params)
        response = await client.post(request, headers)
        assert response.status == 400
        answer = await response.answer()
        assert answer["id"] == request["id"]
        assert answer["error"]["code"] == MISMATCH
        assert answer["error"]["message"].startswith("Header mismatch: ")
        [name] = headers
        assert name in answer["error"]["message"].lower(), "it says which header"


MATCHING: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("tools/call", {"name": "echo", "arguments": {"text": "x"}}, {"mcp-name": wrapped("echo")}),
    ("prompts/get", {"name": "größe"}, {"mcp-name": wrapped("größe")}),
    ("resources/read", {"uri": "text://größe"}, {"mcp-name": wrapped("text://größe")}),
    ("resources/read", {"uri": "text://=?base64?a?="}, {"mcp-name": "text://=?base64?a?="}),
    ("resources/read", {"uri": "text://1"}, {"mcp-method": "resources/read"}),
    ("tools/list", {}, {"mcp-name": "whatever"}),
    ("server/discover", {}, {"mcp-param-text": "whatever"}),
]


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(("method", "params", "headers"), MATCHING)
async def test_headers_that_match_the_body(
    method: str, params: dict[str, Any], headers: dict[str, Any]
) -> None:
    async with modern(gallery()) as client:
        response = await client.begin(method, params, **headers).end()
        assert response.status == 200, response.body
        assert "result" in await response.answer()


@pytest.mark.requirement("F1")
async def test_a_name_that_looks_encoded_has_to_be() -> None:
    async with modern(gallery()) as client:
        uri = "=?base64?dGV4dDovL2E=?="  # which is text://a
        params = {"uri": uri}
        refused = await client.begin("resources/read", params, **{"mcp-name": uri}).end()
        assert (refused.status, refused.error["code"]) == (400, MISMATCH)
        found = await client.begin("resources/read", params, **{"mcp-name": wrapped(uri)}).end()
        assert (found.status, found.error["code"]) == (400, -32602), "there is no such resource"


UNSUPPORTED = ["2099-01-01", "2024-11-05", "2025-11-25", "draft", ""]


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("version", UNSUPPORTED)
async def test_a_version_that_is_not_served(version: str) -> None:
    async with modern(registry_of(echo)) as client:
        request = client.request_of("tools/list", {"_meta": {VERSION: version}})
        response = await client.post(request, {"mcp-protocol-version": version})
        assert response.status == 400
        answer = await response.answer()
        assert answer["id"] == request["id"]
        assert answer["error"]["code"] == NO_VERSION
        assert answer["error"]["data"] == {"supported": ["2026-07-28"], "requested": version}


METAS: list[Any] = [
    None,
    {},
    {"other": 1},
    {VERSION: "2026-07-28"},
    {CAPABILITIES: {}},
    {VERSION: 5, CAPABILITIES: {}},
    {VERSION: "2026-07-28", CAPABILITIES: []},
    {VERSION: "2026-07-28", CAPABILITIES: None},
    {VERSION: "2026-07-28", CAPABILITIES: {}, "io.modelcontextprotocol/clientInfo": "me"},
    "text",
]


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("method", ["tools/list", "server/discover", "subscriptions/listen"])
@pytest.mark.parametrize("meta", METAS)
async def test_required_fields_that_are_missing(method: str, meta: Any) -> None:
    async with modern(registry_of(echo)) as client:
        params = {"notifications": {}, **({} if meta is None else {"_meta": meta})}
        request = {"jsonrpc": "2.0", "id": "a", "method": method, "params": params}
        response = await client.post(request)
        assert response.status == 400
        answer = await response.answer()
        assert answer["id"] == "a"
        assert answer["error"]["code"] == -32602
        assert "_meta" in answer["error"]["message"]


# -- Mcp-Param ------------------------------------------------------------------------------------


def place() -> dict[str, Any]:
    """Arguments that are mirrored into headers, some of them nested."""
    return {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "dry": {"type": ["boolean", "null"]},
            "sure": {"type": "boolean", "x-mcp-header": "Sure"},
            "where": {
                "type": "object",
                "properties": {
                    "tenant": {"type": "string", "x-mcp-header": "TENANT-id"},
                    "deep": {
                        "type": "object",
                        "properties": {"id": {"type": "integer", "x-mcp-header": "deep.id"}},
                    },
                },
            },
            "free": {"type": "string"},
        },
    }


def mirroring(schema: dict[str, Any] | None = None) -> Registry:
    registry = Registry("test")

    async def locate(**arguments: Any) -> str:
        return json.dumps(arguments)

    registry.add_tool(locate, input_schema=schema or place())
    return registry


async def locate(client: ModernClient, arguments: Any, headers: dict[str, Any]) -> Response:
    """Call the tool with exactly these parameter headers."""
    params = {"name": "locate", "arguments": arguments}
    return await client.begin("tools/call", params, **headers).end()


MIRRORED: list[tuple[Any, dict[str, Any]]] = [
    ({}, {}),
    (None, {}),
    ({"region": "us-west1"}, {"mcp-param-region": "us-west1"}),
    ({"region": "us-west1"}, {"mcp-param-region": wrapped("us-west1")}),
    ({"region": "Hello, 世界"}, {"mcp-param-region": "=?base64?SGVsbG8sIOS4lueVjA==?="}),
    ({"region": " padded "}, {"mcp-param-region": "=?base64?IHBhZGRlZCA=?="}),
    ({"region": "line1\nline2"}, {"mcp-param-region": "=?base64?bGluZTEKbGluZTI=?="}),
    ({"region": "=?base64?literal?="}, {"mcp-param-region": wrapped("=?base64?literal?=")}),
    ({"region": "a\tb"}, {"mcp-param-region": "a\tb"}),
    ({"region": ""}, {"mcp-param-region": ""}),
    ({"region": ""}, {"mcp-param-region": "=?base64??="}),
    ({"region": "42"}, {"mcp-param-region": "42"}),
    ({"count": 42}, {"mcp-param-count": "42"}),
    ({"count": 42}, {"mcp-param-count": "42.0"}),
    ({"count": 42.0}, {"mcp-param-count": "42"}),
    ({"count": -7}, {"mcp-param-count": "-7"}),
    ({"count": 0}, {"mcp-param-count": "0"}),
    ({"count": 2**53 - 1}, {"mcp-param-count": "9007199254740991"}),
    ({"count": 2**53 + 1}, {"mcp-param-count": "9007199254740993"}),
    ({"sure": True}, {"mcp-param-sure": "true"}),
    ({"sure": False}, {"mcp-param-sure": "false"}),
    ({"where": {"tenant": "a"}}, {"mcp-param-tenant-id": "a"}),
    ({"where": {"deep": {"id": 5}}}, {"mcp-param-deep.id": "5"}),
    ({"where": {"deep": {}}}, {}),
    ({"where": {}}, {}),
    ({"free": "x"}, {"mcp-param-free": "anything", "mcp-param-dry": "true"}),
    (
        {"region": "x", "count": 1, "sure": True, "where": {"tenant": "y", "deep": {"id": 2}}},
        {
            "mcp-param-region": "x",
            "mcp-param-count": "1",
            "mcp-param-sure": "true",
            "mcp-param-tenant-id": "y",
            "mcp-param-deep.id": "2",
        },
    ),
]


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(("arguments", "headers"), MIRRORED)
async def test_arguments_that_are_mirrored(arguments: Any, headers: dict[str, Any]) -> None:
    async with modern(mirroring()) as client:
        response = await locate(client, arguments, headers)
        assert response.status == 200, response.body
        assert json.loads(text_of(await response.answer())) == (arguments or {})


NOT_MIRRORED: list[tuple[Any, dict[str, Any]]] = [
    ({"region": "us-west1"}, {}),
    ({"region": "us-west1"}, {"mcp-param-region": "us-west2"}),
    ({"region": "us-west1"}, {"mcp-param-region": "US-WEST1"}),
    ({"region": "us-west1"}, {"mcp-param-region": ""}),
    ({"region": "us-west1"}, {"mcp-param-region": "us-west1, us-west1"}),
    ({"region": "us-west1"}, {"mcp-param-region": wrapped("us-west2")}),
    ({"region": "=?base64?literal?="}, {"mcp-param-region": "=?base64?literal?="}),
    ({"region": "größe"}, {"mcp-param-region": "größe".encode()}),
    ({"region": "größe"}, {"mcp-param-region": "größe".encode("latin-1")}),
    ({"region": "a\x01"}, {"mcp-param-region": b"a\x01"}),
    ({"region": "a\x7f"}, {"mcp-param-region": b"a\x7f"}),
    ({"region": "42"}, {"mcp-param-region": "42.0"}),
    ({}, {"mcp-param-region": "us-west1"}),
    ({}, {"mcp-param-region": ""}),
    (None, {"mcp-param-region": "us-west1"}),
    ({"region": None}, {"mcp-param-region": "us-west1"}),
    ({"region": None}, {"mcp-param-region": "null"}),
    ({"count": 42}, {}),
    ({"count": 42}, {"mcp-param-count": "43"}),
    ({"count": 42}, {"mcp-param-count": "4_2"}),
    ({"count": 42}, {"mcp-param-count": "0x2a"}),
    ({"count": 42}, {"mcp-param-count": "forty-two"}),
    ({"count": 42}, {"mcp-param-count": "42abc"}),
    ({"count": 42}, {"mcp-param-count": "42.0000001"}),
    ({"count": 42}, {"mcp-param-count": "nan"}),
    ({"count": 42}, {"mcp-param-count": ""}),
    ({"count": 10}, {"mcp-param-count": wrapped(" 10")}),
    ({"count": 2**53}, {"mcp-param-count": "9007199254740993"}),
    ({"count": 42}, {"mcp-param-count": "9" * 20_000}),
    ({"sure": True}, {"mcp-param-sure": "True"}),
    ({"sure": True}, {"mcp-param-sure": "false"}),
    ({"sure": True}, {"mcp-param-sure": "1"}),
    ({"sure": True}, {}),
    ({"where": {"tenant": "a"}}, {}),
    ({"where": {"tenant": "a"}}, {"mcp-param-tenant-id": "b"}),
    ({"where": {"deep": {"id": 5}}}, {"mcp-param-deep.id": "6"}),
    ({"tenant": "a"}, {"mcp-param-tenant-id": "a"}),
    ({"where": {}}, {"mcp-param-tenant-id": "a"}),
    ({"where": {"tenant": None}}, {"mcp-param-tenant-id": "a"}),
]


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(("arguments", "headers"), NOT_MIRRORED)
async def test_arguments_that_are_not_mirrored_well(
    arguments: Any, headers: dict[str, Any]
) -> None:
    async with modern(mirroring()) as client:
        response = await locate(client, arguments, headers)
        assert response.status == 400
        error = (await response.answer())["error"]
        assert error["code"] == MISMATCH
        assert "mcp-param-" in error["message"].lower()


@pytest.mark.requirement("F1")
async def test_a_forwarded_entry_with_faulty_marks_is_called_without_headers() -> None:
    """Clients over HTTP leave such a tool out; who calls it nevertheless is answered."""
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "a b"}}}

    async def answer(params: Any, context: Context) -> Any:
        return {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]}

    part = Provider("elsewhere")
    await part.replace("tools", [forwarded_entry(ToolDescription("locate", schema), answer)])
    registry = Registry("test")
    registry.mount(part)
    async with modern(registry) as client:
        response = await locate(client, {"region": "x"}, {})
        assert response.status == 200
        assert text_of(await response.answer()) == '{"region": "x"}'


@pytest.mark.requirement("F1")
async def test_null_needs_no_header() -> None:
    schema = place()
    schema["properties"]["region"]["type"] = "string"
    schema["properties"]["region"]["nullable"] = True
    async with modern(mirroring(schema)) as client:
        response = await locate(client, {"region": None}, {})
        assert response.status == 200
        assert "region" in failure_of(await response.answer()), "the schema has a say as well"


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("header", [None, "x", "[]", "null"])
async def test_what_no_header_could_hold_is_for_the_schema_to_refuse(header: str | None) -> None:
    async with modern(mirroring()) as client:
        for value in ([], {"a": 1}):
            response = await locate(client, {"region": value}, {"mcp-param-region": header})
            assert response.status == 200
            assert "region" in failure_of(await response.answer())


@pytest.mark.requirement("F1")
async def test_a_tool_that_takes_the_place_of_another() -> None:
    """What its headers are is asked of the tool that is there."""
    registry = mirroring()
    async with modern(registry) as client:
        assert (await locate(client, {"region": "x"}, {})).status == 400
        registry.remove_tool("locate")

        async def locate_again(region: str) -> str:
            return region

        registry.add_tool(locate_again, name="locate")
        assert (await locate(client, {"region": "x"}, {})).status == 200


# -- streams --------------------------------------------------------------------------------------


async def count(context: Context, to: int) -> str:
    """Report progress."""
    for number in range(to):
        await context.progress(number + 1, total=to, message=f"{number + 1} of {to}")
    return "counted"


def is_stream(response: Response) -> bool:
    return response.headers["content-type"] == "text/event-stream"


@pytest.mark.requirement("F3")
async def test_whatever_is_said_before_makes_a_stream() -> None:
    async with modern(registry_of(count)) as client:
        response = await client.begin_call("count", progress_meta(), to=3).end()
        assert response.status == 200
        assert is_stream(response)
        assert response.headers["x-accel-buffering"] == "no"
        assert "no-cache" in response.headers["cache-control"]
        assert "content-length" not in response.headers
        *told, answer = await response.messages()
        assert [each["params"]["progress"] for each in told] == [1, 2, 3]
        assert {each["params"]["progressToken"] for each in told} == {"p"}
        assert text_of(answer) == "counted"
        assert {each.kind for each in response.events} == {"message"}
        assert all(each.id is None and each.retry is None for each in response.events), (
            "there is nothing to come back to"
        )


@pytest.mark.requirement("F3")
async def test_json_if_nobody_wants_to_hear_it() -> None:
    async with modern(registry_of(count)) as client:
        response = await client.begin_call("count", to=3).end()
        assert response.headers["content-type"] == "application/json"


@pytest.mark.requirement("F3")
async def test_the_stream_comes_while_the_tool_works() -> None:
    worker = Worker()
    async with modern(worker.registry) as client:
        response = client.begin_call("work", progress_meta(), say=2)
        assert await response.started() == 200
        assert (await response.message())["params"]["progress"] == 1
        assert (await response.message())["params"]["progress"] == 2
        assert worker.running == 1
        worker.go_on.set()
        assert text_of(await response.message()) == "done"
        assert await response.message() is None


@pytest.mark.requirement("F3")
async def test_log_messages_are_streamed() -> None:
    async def chat(context: Context) -> str:
        await context.debug("too little")
        await context.warning({"n": 1}, logger="chat")
        return "said"

    async with modern(registry_of(chat)) as client:
        response = await client.begin_call("chat", {LOG_LEVEL: "info"}).end()
        message, answer = await response.messages()
        assert message["params"] == {"level": "warning", "data": {"n": 1}, "logger": "chat"}
        assert text_of(answer) == "said"
        assert not is_stream(await client.begin_call("chat").end())


@pytest.mark.requirement("F3")
async def test_the_forwarded_log_of_a_tool_that_has_no_context() -> None:
    async def mutter() -> str:
        logging.getLogger("mutter").warning("hm")
        return "said"

    registry = registry_of(mutter)
    handler = registry.log_handler()
    logging.getLogger("mutter").addHandler(handler)
    try:
        async with modern(registry) as client:
            response = await client.begin_call("mutter", {LOG_LEVEL: "info"}).end()
            message, answer = await response.messages()
            assert message["params"]["data"] == "hm"
            assert text_of(answer) == "said"
    finally:
        logging.getLogger("mutter").removeHandler(handler)


@pytest.mark.requirement("F3")
async def test_a_failure_at_the_end_of_a_stream() -> None:
    async def fail(context: Context, code: int) -> str:
        await context.progress(1)
        if code:
            raise McpError(code, "no")
        raise RuntimeError("the secret of /usr/lib/secret.py")

    async with modern(registry_of(fail)) as client:
        for code in (-32601, -32602, 0):
            response = await client.begin_call("fail", progress_meta(), code=code).end()
            assert response.status == 200, "it was said already"
            _, answer = await response.messages()
            assert ("error" in answer) == bool(code)
            assert b"secret" not in response.body


@pytest.mark.requirement("F3")
async def test_a_time_out_at_the_end_of_a_stream(autojump_clock: Any) -> None:
    worker = Worker()
    registry = Registry("test")
    registry.add_tool(worker.work, timeout=5)
    async with modern(registry) as client:
        for say in (0, 1):
            response = await client.begin_call("work", progress_meta(), say=say).end()
            *told, answer = await response.messages()
            assert len(told) == say
            assert failure_of(answer) == "Tool work timed out after 5 s"
    assert trio.current_time() == 10


@pytest.mark.requirement("F3")
async def test_large_results_travel_in_one_event() -> None:
    async def write(context: Context, size: int) -> str:
        await context.progress(1)
        return "ä\n" * size

    async with modern(registry_of(write)) as client:
        answer = await client.call("write", progress_meta(), size=1_000_000)
        assert text_of(answer) == "ä\n" * 1_000_000


@pytest.mark.requirement("F3")
async def test_a_quiet_stream_is_kept_alive(autojump_clock: Any) -> None:
    worker = Worker()
    async with modern(worker.registry, HttpPolicy(keep_alive=10)) as client:
        response = client.begin_call("work", progress_meta(), say=1)
        await response.message()
        times = []
        for _ in range(3):
            event = await response.event()
            assert isinstance(event, Event)
            assert event.comment is not None
            assert event.data is None
            times.append(trio.current_time())
        assert times == [10, 20, 30]
        worker.go_on.set()
        assert text_of(await response.message()) == "done"
        assert trio.current_time() == 30


@pytest.mark.requirement("F3")
async def test_no_comments_before_there_is_a_stream(autojump_clock: Any) -> None:
    async def sleep(context: Context) -> str:
        await trio.sleep(50)
        return "rested"

    async with modern(registry_of(sleep), HttpPolicy(keep_alive=10)) as client:
        response = await client.begin_call("sleep", progress_meta()).end()
        assert response.headers["content-type"] == "application/json"
        assert text_of(await response.answer()) == "rested"


# -- questions ------------------------------------------------------------------------------------


async def ask(context: Context) -> str:
    """Ask for a name."""
    answer = await context.elicit("Your name?", str, key="name")
    return f"Hello {answer.value}"


@pytest.mark.requirement("F1")
async def test_a_question_is_a_result() -> None:
    async with modern(registry_of(ask), capabilities={"elicitation": {}}) as client:
        response = await client.begin_call("ask").end()
        assert response.status == 200
        assert not is_stream(response)
        result = (await response.answer())["result"]
        assert result["resultType"] == "input_required"
        assert result["inputRequests"]["name"]["method"] == "elicitation/create"
        params = {
            "name": "ask",
            "arguments": {},
            "inputResponses": {"name": {"action": "accept", "content": {"value": "Bob"}}},
            "requestState": result["requestState"],
        }
        assert text_of(await client.request("tools/call", params)) == "Hello Bob"


@pytest.mark.requirement("F1")
async def test_a_question_ends_a_stream() -> None:
    async def say_and_ask(context: Context) -> str:
        await context.progress(1)
        return await ask(context)

    async with modern(registry_of(say_and_ask), capabilities={"elicitation": {}}) as client:
        response = await client.begin_call("say_and_ask", progress_meta()).end()
        told, answer = await response.messages()
        assert told["method"] == "notifications/progress"
        assert answer["result"]["resultType"] == "input_required"


@pytest.mark.requirement("F1")
async def test_a_client_that_cannot_be_asked() -> None:
    async with modern(registry_of(ask)) as client:
        response = await client.begin_call("ask").end()
        assert response.status == 400
        assert error_of(await response.answer())[0] == NO_CAPABILITY


# -- subscriptions --------------------------------------------------------------------------------


def listening(client: ModernClient, **wanted: Any) -> Response:
    return client.begin("subscriptions/listen", {"notifications": wanted})


async def other_tool() -> str:
    return "other"


@pytest.mark.requirement("F3")
async def test_changes_come_on_the_stream_of_a_subscription() -> None:
    registry = gallery()
    async with modern(registry) as client:
        stream = listening(client, toolsListChanged=True, resourceSubscriptions=["text://a"])
        assert await stream.started() == 200
        assert stream.headers["x-accel-buffering"] == "no"
        acknowledged = await stream.message()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        meta = acknowledged["params"]["_meta"]
        registry.add_tool(other_tool)
        told = await stream.message()
        assert told["method"] == "notifications/tools/list_changed"
        assert told["params"]["_meta"] == meta
        registry.remove_prompt("greet")
        registry.notify_resource_updated("text://b")
        registry.notify_resource_updated("text://a")
        told = await stream.message()
        assert told["method"] == "notifications/resources/updated"
        assert told["params"] == {"_meta": meta, "uri": "text://a"}
        stream.disconnect()


@pytest.mark.requirement("F3")
async def test_a_subscription_carries_nothing_of_other_requests() -> None:
    registry = registry_of(count)
    async with modern(registry) as client:
        stream = listening(client, toolsListChanged=True)
        await stream.message()
        response = await client.begin_call("count", progress_meta(), to=2).end()
        assert len(await response.messages()) == 3
        registry.add_tool(other_tool)
        told = await stream.message()
        assert told["method"] == "notifications/tools/list_changed"
        stream.disconnect()


@pytest.mark.requirement("F3")
@each_manner
async def test_a_client_ends_its_subscription_by_leaving(manner: str) -> None:
    registry = registry_of(echo)
    limits = Limits(max_subscriptions=1)
    async with modern(registry, limits=limits, manner=manner) as client:
        for _ in range(3):
            stream = listening(client, toolsListChanged=True)
            await stream.message()
            stream.disconnect()
            await stream.end()


@pytest.mark.requirement("F5")
async def test_subscriptions_end_in_good_order_when_the_server_stops() -> None:
    async with modern(registry_of(echo)) as client:
        streams = [listening(client, toolsListChanged=True) for _ in range(3)]
        for stream in streams:
            await stream.message()
        client.host.app.stop()
        for stream in streams:
            answer = await stream.message()
            id = stream.events[0].message["params"]["_meta"][SUBSCRIPTION]
            assert answer["id"] == id
            assert answer["result"]["_meta"][SUBSCRIPTION] == id
            assert await stream.message() is None
        assert (await listening(client, toolsListChanged=True).end()).status == 503


@pytest.mark.requirement("F3")
async def test_a_quiet_subscription_is_kept_alive(autojump_clock: Any) -> None:
    async with modern(registry_of(echo)) as client:
        stream = listening(client, toolsListChanged=True)
        await stream.message()
        for number in range(1, 4):
            event = await stream.event()
            assert isinstance(event, Event)
            assert event.comment is not None
            assert trio.current_time() == 15 * number
        stream.disconnect()


# -- cancellations --------------------------------------------------------------------------------


def cancelling(id: Any) -> dict[str, Any]:
    method = "notifications/cancelled"
    return {"jsonrpc": "2.0", "method": method, "params": {"requestId": id}}


ALICE, BOB = ({"authorization": f"Bearer {token}"} for token in ("a", "b"))


@pytest.mark.requirement("B7", "F3")
@pytest.mark.parametrize("kind", [ModernClient, LegacyClient])
@pytest.mark.parametrize("say", [0, 1])
async def test_a_posted_cancellation_is_heeded(kind: Any, say: int) -> None:
    """As bridges send it that turn stdio into HTTP, and leave the request's connection open."""
    worker = Worker()
    policy, sessions = HttpPolicy(tokens={"a": "alice"}), SessionOptions(stateless=True)
    async with hosting(worker.registry, policy, sessions=sessions) as host:
        client = kind(host, headers=ALICE)
        response = client.begin_call("work", progress_meta(), say=say)
        await wait_all_tasks_blocked()
        for id in (99, "1", None, [1]):
            assert (await client.post(cancelling(id))).status == 202
        assert worker.running == 1
        assert (await client.post(cancelling(1))).status == 202
        await response.end()
        assert (worker.running, worker.cancelled) == (0, 1)
        assert len(await response.messages()) == say
        assert response.status == (200 if say else 202)


@pytest.mark.requirement("B7")
async def test_nobody_cancels_the_requests_of_others() -> None:
    """Other principals, other addresses, other programs; and no request that may be another's."""
    worker = Worker()
    async with hosting(worker.registry, HttpPolicy(tokens={"a": "alice", "b": "bob"})) as host:
        alice, bob = ModernClient(host, ALICE), ModernClient(host, BOB)
        response = alice.begin_call("work")
        await wait_all_tasks_blocked()
        await bob.post(cancelling(1))
        await alice.post(cancelling(1), {"user-agent": "another"})
        assert worker.running == 1
        twin = ModernClient(host, ALICE)
        other = twin.begin_call("work")
        await wait_all_tasks_blocked()
        await alice.post(cancelling(1))
        assert worker.running == 2, "nobody knows which of them is meant"
        worker.go_on.set()
        assert text_of(await response.answer()) == text_of(await other.answer()) == "done"


@pytest.mark.requirement("B7")
@pytest.mark.parametrize("kind", [ModernClient, LegacyClient])
async def test_without_tokens_only_who_has_the_response_cancels_its_request(kind: Any) -> None:
    """Ids can be counted, and all behind one address may run the same program."""
    worker = Worker()
    async with hosting(worker.registry, sessions=SessionOptions(stateless=True)) as host:
        client = kind(host)
        response = client.begin_call("work")
        await wait_all_tasks_blocked()
        for id in range(1, 100):
            assert (await kind(host).post(cancelling(id))).status == 202
        assert worker.running == 1
        response.disconnect()
        await response.end()
        assert (worker.running, worker.cancelled) == (0, 1)


# -- disconnects ----------------------------------------------------------------------------------


@pytest.mark.requirement("F3")
@each_manner
@pytest.mark.parametrize("name", ["work", "work_quietly"])
@pytest.mark.parametrize("say", [0, 1, 5])
async def test_a_client_that_leaves_cancels_its_request(manner: str, name: str, say: int) -> None:
    """Whether it has been told something or not; and its place is free again."""
    worker = Worker()
    policy = HttpPolicy(max_concurrent=1)
    async with modern(worker.registry, policy, manner=manner) as client:
        arguments = {"say": say} if name == "work" else {}
        response = client.begin_call(name, progress_meta(), **arguments)
        await wait_all_tasks_blocked()
        assert worker.running == 1
        response.disconnect()
        await response.end()
        assert worker.running == 0
        assert worker.finished == 0
        assert text_of(await client.call("echo", text="x")) == "x"


@pytest.mark.requirement("F3")
@each_manner
async def test_a_client_that_leaves_while_its_body_comes(manner: str) -> None:
    async with modern(registry_of(echo), manner=manner) as client:
        body = json.dumps(client.request_of("tools/list")).encode()
        headers = client.headers_for(json.loads(body))
        for sent in (b"", body[:10]):
            response = client.post_bytes(None, headers)
            if sent:
                response.upload(sent, more=True)
            await wait_all_tasks_blocked()
            response.disconnect()
            await response.end()
            assert response.status == 0


@pytest.mark.requirement("F2", "F3")
@each_manner
async def test_a_client_that_leaves_while_it_waits_for_its_turn(manner: str) -> None:
    worker = Worker()
    async with modern(worker.registry, HttpPolicy(max_concurrent=1), manner=manner) as client:
        first = client.begin_call("work")
        await wait_all_tasks_blocked()
        waiting = [client.begin_call("work") for _ in range(3)]
        await wait_all_tasks_blocked()
        for each in (waiting[0], waiting[2]):
            each.disconnect()
            await each.end()
        assert worker.running == 1
        worker.go_on.set()
        assert text_of(await first.answer()) == "done"
        assert text_of(await waiting[1].answer()) == "done"
        assert worker.finished == 2


@pytest.mark.requirement("F3")
@each_manner
@pytest.mark.parametrize("finished", [False, True])
async def test_a_client_that_leaves_while_it_reads_nothing(manner: str, finished: bool) -> None:
    """Neither the tool nor the app stays behind, whichever of them waits for room."""
    worker = Worker()
    limits = Limits(max_outgoing_bytes=1)
    async with modern(worker.registry, limits=limits, manner=manner) as client:
        response = client.begin_call("work", progress_meta(), say=1 if finished else 10)
        response.stall()
        await wait_all_tasks_blocked()
        assert worker.running == (1 if finished else 0), "the tool waits for room"
        worker.go_on.set()
        await wait_all_tasks_blocked()
        response.disconnect()
        await response.end()
        assert worker.running == 0
        assert worker.finished == (1 if finished else 0)
        assert worker.cancelled == (0 if finished else 1)


@pytest.mark.requirement("F3")
async def test_a_client_that_leaves_after_the_answer() -> None:
    async with modern(registry_of(echo)) as client:
        response = await client.begin_call("echo", text="x").end()
        response.disconnect()
        assert text_of(await response.answer()) == "x"


# -- company --------------------------------------------------------------------------------------


@pytest.mark.requirement("F2")
async def test_clients_may_use_the_same_id_at_the_same_time() -> None:
    worker = Worker()
    async with hosting(worker.registry) as host:
        clients = [ModernClient(host) for _ in range(5)]
        responses = []
        for number, client in enumerate(clients):
            client.address = ("127.0.0.1", 50000 + number)
            responses.append(client.begin_call("work", progress_meta(), words=f"{number}", say=1))
        for response in responses:
            await response.message()
        assert worker.running == 5
        worker.go_on.set()
        answers = [await response.answer() for response in responses]
        assert [text_of(each) for each in answers] == ["0", "1", "2", "3", "4"]
        assert {each["id"] for each in answers} == {1}


@pytest.mark.requirement("F2")
async def test_calls_of_all_clients_are_bounded_together() -> None:
    worker = Worker()
    async with modern(worker.registry, HttpPolicy(max_concurrent=3)) as client:
        responses = [client.begin_call("work", words=f"{n}") for n in range(10)]
        await wait_all_tasks_blocked()
        assert worker.running == 3
        assert (await client.request("tools/list"))["result"]["tools"], "others need no place"
        worker.go_on.set()
        texts = [text_of(await response.answer()) for response in responses]
        assert texts == [f"{n}" for n in range(10)]
        assert worker.most == 3


@pytest.mark.requirement("F2")
async def test_calls_wait_their_turn() -> None:
    """Who has waited longest comes first, whoever else comes meanwhile."""
    order: list[int] = []
    gates = [trio.Event() for _ in range(6)]

    async def pass_through(number: int) -> str:
        order.append(number)
        await gates[number].wait()
        return ""

    async with modern(registry_of(pass_through), HttpPolicy(max_concurrent=1)) as client:
        responses = []
        for number in range(6):
            responses.append(client.begin_call("pass_through", number=number))
            await wait_all_tasks_blocked()
        for gate in gates:
            gate.set()
        for response in responses:
            await response.end()
    assert order == [0, 1, 2, 3, 4, 5]


@pytest.mark.requirement("F2")
async def test_subscriptions_take_no_place() -> None:
    async with modern(registry_of(echo), HttpPolicy(max_concurrent=1)) as client:
        streams = [listening(client, toolsListChanged=True) for _ in range(5)]
        for stream in streams:
            await stream.message()
        assert text_of(await client.call("echo", text="x")) == "x"
        for stream in streams:
            stream.disconnect()


@pytest.mark.requirement("F2")
async def test_a_reader_that_stalls_stops_its_own_speaker_only() -> None:
    said: list[int] = []

    async def pour(context: Context) -> str:
        for number in range(300):
            await context.log("info", "x" * 10_000)
            said.append(number)
        return "poured"

    async with modern(registry_of(pour, echo), limits=Limits(max_outgoing_bytes=50_000)) as client:
        response = client.begin_call("pour", {LOG_LEVEL: "info"})
        response.stall()
        await wait_all_tasks_blocked()
        assert len(said) < 10, "it waits for its reader"
        assert text_of(await client.call("echo", text="x")) == "x"
        response.resume()
        *told, answer = await response.messages()
        assert len(told) == 300
        assert text_of(answer) == "poured"


@pytest.mark.requirement("F2")
async def test_a_tool_has_a_bound_of_its_own() -> None:
    worker = Worker()
    registry = registry_of(echo)
    registry.add_tool(worker.work, max_concurrent=2)
    async with hosting(registry) as host:
        clients = [ModernClient(host) for _ in range(5)]
        responses = [client.begin_call("work") for client in clients]
        await wait_all_tasks_blocked()
        assert worker.running == 2
        assert text_of(await clients[0].call("echo", text="x")) == "x"
        worker.go_on.set()
        for response in responses:
            assert text_of(await response.answer()) == "done"
        assert worker.most == 2


# -- telling clients apart ------------------------------------------------------------------------


async def test_clients_that_cannot_be_told_apart_have_no_connection_in_common() -> None:
    async def name(context: Context) -> str:
        return json.dumps([context.connection_id, context.client_address])

    async with hosting(registry_of(name)) as host:
        sessions = [LegacyClient(host), LegacyClient(host)]
        for client in sessions:
            await client.initialize()
        alone = [ModernClient(host), ModernClient(host), LegacyClient(host)]
        named = [json.loads(text_of(await client.call("name"))) for client in [*sessions, *alone]]
    assert {address for _, address in named} == {"127.0.0.1"}
    connections = [connection for connection, _ in named]
    assert connections[2:] == [None, None, None]
    assert None not in connections[:2]
    assert connections[0] != connections[1]


# -- parameters from functions --------------------------------------------------------------------


@pytest.mark.requirement("Q3")
async def test_a_dependency_says_something_before_and_after_its_function() -> None:
    async def opened(context: Context) -> AsyncIterator[str]:
        await context.progress(1)
        yield "open"
        await context.progress(2)

    async def show(given: str = Depends(opened)) -> str:
        return given

    async with modern(registry_of(show)) as client:
        response = await client.begin_call("show", progress_meta()).end()
        *told, answer = await response.messages()
        assert [message["params"]["progress"] for message in told] == [1, 2]
        assert text_of(answer) == "open"
