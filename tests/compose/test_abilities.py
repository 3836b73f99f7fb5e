"""What a server shows only to some clients, its proxy shows to callers like these, and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.auth.server.support import ISSUER, Issuer, ec_key, protected
from tests.compose.support import Mortal, remote_to
from tests.transports.http.support import ModernClient
from trio_mcp import (
    Context,
    Handlers,
    ListChanged,
    McpError,
    Registry,
    Remote,
    connect,
    serve_http,
)
from trio_mcp.client.negotiation import Era
from trio_mcp.compose import open_proxy, searchable

pytestmark = pytest.mark.requirement("L4")

both_eras = pytest.mark.parametrize("down", ["modern", "legacy"])
all_eras = pytest.mark.parametrize("up", ["modern", "legacy"])

PLAIN = Handlers()


async def answer(params: dict[str, Any]) -> dict[str, Any]:
    """Answer any question."""
    return {"action": "accept", "content": {"value": "Ada"}}


ELICITS = Handlers(elicitation=answer)
SAMPLES = Handlers(sampling=answer)
HAS_ROOTS = Handlers(roots=[])


def shows(shown: Any, caller: Context) -> bool:
    """Show what needs nothing that the caller cannot do."""
    needed = [tag for tag in ("elicitation", "sampling") if tag in shown.tags]
    excluded = "plain" in shown.tags and caller.capabilities
    return not excluded and all(tag in caller.capabilities for tag in needed)


def server() -> Registry:
    """A server whose lists depend on what its client can do."""
    registry = Registry("picky", visible=shows)

    @registry.tool
    async def always() -> str:
        """Do something."""
        return "done"

    @registry.tool(tags=["elicitation"])
    async def ask(context: Context) -> str:
        """Ask for a name."""
        return str((await context.elicit("Name?", str)).value)

    @registry.tool(tags=["sampling"])
    async def think() -> str:
        """Have a model think."""
        return "thought"

    @registry.tool(tags=["plain"])
    async def make_do() -> str:
        """Do without."""
        return "done without"

    @registry.prompt(tags=["sampling"])
    async def muse() -> str:
        """Muse."""
        return "Muse!"

    return registry


@asynccontextmanager
async def in_front(up: Era, way: str, **options: Any) -> AsyncIterator[Any]:
    """A registry in front of the server; or the URL of what serves that."""
    front = Registry("front")
    remote = remote_to(server(), era=up, **options)
    front.mount(remote)
    async with remote.running():
        await remote.ready()
        if way == "in memory":
            yield front
            return
        async with trio.open_nursery() as nursery:
            yield (await nursery.start(serve_http, front, "127.0.0.1", 0)).url
            nursery.cancel_scope.cancel()


@all_eras
@both_eras
@pytest.mark.parametrize("way", ["in memory", "http"])
async def test_each_caller_is_shown_what_one_like_it_is_shown(up: Era, down: Era, way: str) -> None:
    async with in_front(up, way) as target:
        for handlers in (PLAIN, SAMPLES, ELICITS, PLAIN, HAS_ROOTS, SAMPLES):
            async with (
                connect(server(), era=up, handlers=handlers) as direct,
                connect(target, era=down, handlers=handlers) as client,
            ):
                assert client.tools.keys() == direct.tools.keys()
                if handlers is SAMPLES:
                    assert [prompt.name for prompt in await client.list_prompts()] == ["muse"]
                    assert (await client.get_prompt("muse")).messages
                    assert (await client.call_tool("think")).text == "thought"
                if handlers is ELICITS:
                    assert (await client.call_tool("ask")).text == "Ada"
                if handlers is PLAIN:
                    assert (await client.call_tool("make_do")).text == "done without"
                    with pytest.raises(McpError, match="think"):
                        await client.request("tools/call", {"name": "think"})


@all_eras
@both_eras
async def test_a_tool_may_be_called_before_anything_is_listed(up: Era, down: Era) -> None:
    async with in_front(up, "in memory") as front:
        async with connect(front, era=down, handlers=SAMPLES, list_tools=False) as client:
            assert (await client.call_tool("think")).text == "thought"
            assert (await client.get_prompt("muse")).messages
        async with connect(front, era=down, list_tools=False) as client:
            with pytest.raises(McpError, match="think"):
                await client.call_tool("think")


@both_eras
@pytest.mark.parametrize("up", ["modern", "legacy"])
async def test_what_comes_and_goes_does_so_for_those_who_see_it(
    up: Era, down: Era, autojump_clock: object
) -> None:
    behind, front = server(), Registry("front")
    remote = remote_to(behind, era=up)
    front.mount(remote)
    async with (
        remote.running(),
        connect(front, era=down, handlers=SAMPLES) as client,
        connect(front, era=down) as plain,
    ):
        async with client.subscribe(lists=["tools"]) as changes:
            await trio.sleep(1)

            @behind.tool(tags=["sampling"])
            async def dream() -> str:
                """Have a model dream."""
                return "dreamt"

            assert await anext(changes) == ListChanged("tools")
            await trio.sleep(1)
            await client.refresh_tools()
            await plain.refresh_tools()
            assert "dream" in client.tools
            assert "dream" not in plain.tools
            behind.remove_tool("dream")
            await trio.sleep(1)
            await client.refresh_tools()
            assert "dream" not in client.tools


@both_eras
async def test_callers_with_the_same_abilities_share_what_is_listed_for_them(
    down: Era, autojump_clock: object
) -> None:
    front = Registry("front")
    remote = remote_to(server(), era="legacy", caller_idle=10)
    front.mount(remote)
    async with remote.running() as upstream:
        async with connect(front, era=down, handlers=SAMPLES) as first:
            async with connect(front, era=down, handlers=SAMPLES) as second:
                assert first.tools.keys() == second.tools.keys() == {"always", "think"}
                assert len(upstream.callers.open) == 1
            await trio.sleep(11)
            assert not upstream.callers.open, "closed when it was idle"
            await first.refresh_tools()
            assert first.tools.keys() == {"always", "think"}


@all_eras
@both_eras
async def test_tools_may_be_found_and_called_before_anything_is_listed(up: Era, down: Era) -> None:
    call = {"name": "think", "arguments": {}}
    for first, arguments, said in (
        ("search_tools", {"query": "model"}, "Have a model think"),
        ("call_tool", call, "thought"),
    ):
        async with in_front(up, "in memory") as front:
            for handlers, there in ((SAMPLES, True), (PLAIN, False)):
                async with connect(
                    searchable(front), era=down, handlers=handlers, list_tools=False
                ) as client:
                    result = await client.call_tool(first, arguments)
                    assert (said in (result.text or result.error or "")) is there


@pytest.mark.parametrize("first", ["tools/call", "tools/list"])
async def test_who_is_the_first_to_see_a_tool_needs_its_scopes_as_well(first: str) -> None:
    inner, front = Registry("inner", scopes=["models"]), Registry("front")
    remote = remote_to(server())
    inner.mount(remote)
    front.mount(inner)
    call = {"name": "think", "arguments": {}}
    issuer = Issuer(ISSUER, ec_key())
    async with remote.running(), protected(issuer, registry=front) as host:
        await remote.ready()
        tokens = [issuer.token(scope=scope) for scope in ("mcp", "mcp models")]
        poor, rich = [ModernClient(host, {"authorization": f"Bearer {token}"}) for token in tokens]
        for client in (poor, rich):
            client.capabilities = {"sampling": {}}
        answer = await poor.begin(first, call if first == "tools/call" else None).end()
        assert b"thought" not in answer.body
        refused = await poor.begin("tools/call", call).end()
        assert refused.status == 403
        assert 'scope="mcp models"' in refused.headers["www-authenticate"]
        assert (await rich.request("tools/call", call))["result"]["content"][0]["text"] == "thought"


@all_eras
@both_eras
async def test_tools_are_found_by_those_who_are_shown_them(up: Era, down: Era) -> None:
    async with in_front(up, "in memory") as front:
        registry = searchable(front)
        for handlers, there in ((SAMPLES, True), (PLAIN, False)):
            async with connect(registry, era=down, handlers=handlers) as client:
                found = await client.call_tool("search_tools", {"query": "model"})
                assert ("think" in found.text) is there
                called = await client.call_tool("call_tool", {"name": "think", "arguments": {}})
                assert called.success is there


@both_eras
async def test_a_server_that_is_slow_for_one_caller_holds_it_up_for_a_bounded_time(
    down: Era, autojump_clock: object
) -> None:
    async with trio.open_nursery() as nursery:
        mortal = Mortal(nursery, server())
        remote = Remote(["unused"], era="legacy", wait=3)
        remote.connector = partial(mortal.open, era="legacy")
        front = Registry("front")
        front.mount(remote)
        async with remote.running():
            await remote.ready()
            mortal.may_live = False
            begun = trio.current_time()
            async with connect(front, era=down, handlers=SAMPLES) as client:
                assert trio.current_time() - begun <= 3
                assert client.tools.keys() == {"always", "make_do"}
            mortal.die()
        nursery.cancel_scope.cancel()


@all_eras
@pytest.mark.parametrize(
    ("declared", "there"),
    [
        ({"sampling": 5, "roots": [], "elicitation": None}, {"always", "make_do"}),
        ({"sampling": {"x" * 1000: {}, "tools": "y" * 1000}}, {"always", "think"}),
        ({"experimental": {"x": 1}, "nonsense": {}}, {"always", "make_do"}),
        ({}, {"always", "make_do"}),
    ],
)
async def test_of_what_callers_declare_only_what_the_protocol_has_counts(
    up: Era, declared: dict[str, Any], there: set[str], autojump_clock: object
) -> None:
    front = Registry("front")
    remote = remote_to(server(), era=up)
    front.mount(remote)
    async with remote.running(), connect(front, era="modern") as client:
        meta = {"io.modelcontextprotocol/clientCapabilities": declared}
        listed: Any = await client.request("tools/list", {"_meta": meta})
        assert {tool["name"] for tool in listed["tools"]} == there


@all_eras
async def test_a_proxy_on_stdio_has_its_client_as_the_only_caller(up: Era) -> None:
    async with open_proxy(server(), era=up) as registry:
        async with connect(registry, handlers=ELICITS) as client:
            await wait_all_tasks_blocked()
            assert client.tools.keys() == {"always", "ask"}
