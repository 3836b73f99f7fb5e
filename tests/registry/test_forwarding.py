"""A part that is not a registry: nothing that passes through is less than it was (L4)."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.registry.elsewhere import LINK, QUESTION, Elsewhere
from tests.support.client import LEGACY, MODERN, serving
from trio_mcp import Handlers, McpError, Registry, ResourceUpdated, connect
from trio_mcp.compose import Provider, forwarded_entry
from trio_mcp.errors import ResourceNotFound
from trio_mcp.registry import sealing
from trio_mcp.wire.content import (
    CallToolResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from trio_mcp.wire.nested_arrays import MOST_ARRAYS
from trio_mcp.wire.payloads import ToolDescription

pytestmark = pytest.mark.requirement("L4")

each_end = pytest.mark.parametrize("revision", [LEGACY[0], LEGACY[-1], MODERN[-1]])


async def answer(params: dict[str, Any]) -> dict[str, Any]:
    assert params["message"] == QUESTION["message"]
    return {"action": "accept", "content": {"which": "that"}}


ASKED = Handlers(elicitation=answer)


def composed(prefix: str | None = "far") -> tuple[Registry, Elsewhere]:
    part, registry = Elsewhere(), Registry("near")
    registry.mount(part, prefix)
    return registry, part


@each_end
async def test_a_call_keeps_all_that_it_has(revision: str) -> None:
    registry, part = composed()
    told: list[Any] = []
    said: list[Any] = []

    def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total))

    def log(*message: Any) -> None:
        said.append(message)

    async with connect(registry, revision=revision, on_log=log, log_level="debug") as client:
        meta = {"com.example/id": 7, "progressToken": "mine"}
        params = {"name": "far_echo", "arguments": {"text": "hi"}, "_meta": meta}
        result = await client.request("tools/call", params)
        await client.call_tool("far_echo", {}, on_progress=note)
        await wait_all_tasks_blocked()
    link: dict[str, Any] = {**LINK, "uri": "note://far/one"}
    if revision == LEGACY[0]:  # which has no links
        link = {"type": "text", "text": "one: note://far/one"}
    assert result["content"] == [{"type": "text", "text": "hi"}, link]
    assert result["structuredContent"] == {"state": "its state", "called": "echo"}
    assert result["_meta"]["com.example/trace"] == 7
    assert result["com.example/unknown"] == 1
    assert part.sent[0][1]["name"] == "echo"
    assert part.sent[0][1]["_meta"]["progressToken"] == "mine"
    assert told == [(0.5, 1.0)]
    assert len(said) == 2
    assert part.log == ["open", "ready", "closed"]


NESTED: Any = 0
for _ in range(MOST_ARRAYS + 1):
    NESTED = [NESTED]


@pytest.mark.parametrize("value", [float("nan"), NESTED], ids=["NaN", "many arrays"])
async def test_what_cannot_be_sent_is_no_result(value: Any) -> None:
    """The part makes its members itself: no parser has looked at them."""

    async def answer(params: Any, context: Any) -> dict[str, Any]:
        return {"content": [], "structuredContent": {"value": value}}

    part, registry = Provider("part"), Registry("near")
    await part.replace("tools", [forwarded_entry(ToolDescription("t", {"type": "object"}), answer)])
    registry.mount(part)
    async with connect(registry) as client:
        with pytest.raises(McpError, match="Internal error"):
            await client.call_tool("t")


@each_end
async def test_failures_and_errors_keep_their_codes(revision: str) -> None:
    registry, _ = composed(None)
    async with connect(registry, revision=revision) as client:
        failed = await client.call_tool("fail", {})
        assert failed.error == "no luck"
        with pytest.raises(McpError) as caught:
            await client.call_tool("refuse", {})
    assert (caught.value.code, caught.value.message) == (-32042, "visit the page first")
    assert caught.value.data == {"url": "https://example.com"}


@pytest.mark.parametrize("revision", [LEGACY[-1], MODERN[-1]])
@pytest.mark.parametrize("tool", ["ask", "relay"])
async def test_it_asks_the_caller(revision: str, tool: str) -> None:
    registry, part = composed()
    async with connect(registry, revision=revision, handlers=ASKED) as client:
        assert (await client.call_tool(f"far_{tool}", {})).text == "that"
    assert len(part.sent) == {"ask": 0, "relay": 1 + (revision in MODERN)}[tool]


async def test_the_state_of_a_question_is_good_for_nothing_else() -> None:
    registry, part = composed()
    async with serving(registry, revision=MODERN[-1]) as (client, _):
        client.capabilities = {"elicitation": {}}
        params: dict[str, Any] = {"name": "far_relay", "arguments": {"text": "a"}}
        asked = (await client.request("tools/call", params))["result"]
        assert asked["inputRequests"]["q"]["params"] == QUESTION
        assert "theirs" not in asked["requestState"]
        answered = {"q": {"action": "accept", "content": {"which": "b"}}}
        params |= {"inputResponses": answered, "requestState": asked["requestState"]}
        other = {**params, "arguments": {"text": "other"}}
        assert (await client.request("tools/call", other))["error"]["code"] == -32602
        forged = {**params, "requestState": "theirs"}
        assert (await client.request("tools/call", forged))["error"]["code"] == -32602
        result = (await client.request("tools/call", params))["result"]
    assert result["content"][0]["text"] == "b"
    assert [each.get("requestState") for _, each in part.sent] == [None, "theirs"]


@pytest.mark.parametrize("length", [10, 1_100_000])
async def test_what_a_question_is_about_is_taken_in_in_a_thread(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state is sealed with the arguments, and opened with those that come with it."""
    registry, _ = composed()
    loop, on_loop, take_in = threading.get_ident(), [], sealing.hash_binding

    def watched(binding: Any) -> Any:
        if not isinstance(binding, sealing.HashedBinding):
            on_loop.append(threading.get_ident() == loop)
        return take_in(binding)

    monkeypatch.setattr(sealing, "hash_binding", watched)
    async with connect(registry, revision=MODERN[-1], handlers=ASKED) as client:
        assert (await client.call_tool("far_relay", {"text": "x" * length})).text == "that"
    assert on_loop == [length == 10] * 2


@each_end
async def test_resources_prompts_and_completions(revision: str) -> None:
    registry, part = composed()
    async with connect(registry, revision=revision) as client:
        assert [resource.uri for resource in await client.list_resources()] == ["note://far/one"]
        (template,) = await client.list_resource_templates()
        assert template.uri_template == "note://far/by-id/{id}"
        for uri in ("note://far/one", "note://far/by-id/7", "note://far/hidden/x"):
            (contents,) = (await client.read_resource(uri)).contents
            assert contents.uri == uri
            assert isinstance(contents, TextResourceContents)
            assert contents.text == f"at {uri.replace('far/', '')}"
        with pytest.raises(ResourceNotFound):
            await client.read_resource("note://hidden/x")
        prompt = await client.get_prompt("far_ask", {"about": "us"})
        assert prompt.messages[0].content == TextContent("About us")
        if revision != LEGACY[0]:
            found = await client.complete("about", "u", prompt="far_ask")
            assert found.values == ["u!"]
    assert all("far" not in str(params) for _, params in part.sent)


@pytest.mark.parametrize("revision", [LEGACY[-1], MODERN[-1]])
async def test_subscriptions_reach_it(revision: str) -> None:
    registry, part = composed()
    async with connect(registry, revision=revision) as client:
        async with client.subscribe(resources=["note://far/one"]) as changes:
            assert part.subscribed == ["+note://one"]
            part.notify_resource_updated("note://one")
            part.notify_resource_updated("note://two")
            async for change in changes:
                assert change == ResourceUpdated("note://far/one")
                break
        await wait_all_tasks_blocked()
        assert part.subscribed == ["+note://one", "-note://one"]


async def test_cancellation_reaches_it() -> None:
    registry, part = composed()
    async with connect(registry) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "far_hang", {})
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await wait_all_tasks_blocked()
        assert part.log == ["open", "ready", "cancelled"]


async def test_its_tools_come_and_go() -> None:
    registry, part = composed()
    registry.add_tool(answer, name="far_taken")
    async with connect(registry) as client, client.subscribe(lists=["tools"]) as changes:
        kept = registry.tools["far_echo"]
        refused = await part.replace("tools", [part.tool("echo"), part.tool("fail", title="New")])
        assert refused == []
        assert registry.tools["far_echo"] is kept
        assert list(registry.tools) == ["far_taken", "far_echo", "far_fail"]
        assert registry.tools["far_fail"].description.title == "New"
        async for _ in changes:
            break
        await client.refresh_tools()
        assert list(client.tools) == ["far_taken", "far_echo", "far_fail"]


async def test_a_call_without_a_client() -> None:
    registry, _ = composed()
    async with registry.running():
        result = await registry.call("far_echo", {"text": "hi"})
    assert isinstance(result, CallToolResult)
    assert result.structured_content == {"state": "its state", "called": "echo"}
    assert result.content[1] == ResourceLink("note://far/one", "one")
