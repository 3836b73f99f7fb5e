"""Many servers as one, and what malicious or dying ones can do to the others."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import memory_stream_pair

from tests.client.support import line_of
from tests.compose.support import Mortal, gateway_of, named, remote_to
from tests.support.tools import echo
from trio_mcp import (
    Connected,
    Connecting,
    Context,
    Disconnected,
    Handlers,
    Limits,
    McpError,
    Registry,
    Remote,
    connect,
)
from trio_mcp.client.client import session_of
from trio_mcp.client.session import ClientRequest
from trio_mcp.compose import Backoff, open_proxy
from trio_mcp.errors import CannotStart, ConfigError
from trio_mcp.registry import catalogue_of

pytestmark = pytest.mark.requirement("L4")
SOON = Backoff(first=0.01, longest=0.05, stable=10)
LIMIT = 120


async def test_many_servers_are_one_under_names_of_their_own() -> None:
    def odd_(text: str) -> str:
        return f"odd {text}"

    long = Registry("long")
    long.add_tool(echo, name="x" * 128)
    servers = {"my git": named("a", echo), "my git_hub": named("b", odd_), "long": long}
    async with gateway_of(servers) as gateway, connect(gateway.registry) as client:
        assert "my_git_echo" in client.tools
        assert (await client.call_tool("my_git_hub_odd_", {"text": "x"})).text == "odd x"
        (name,) = [each for each in client.tools if each.startswith("long_")]
        assert len(name) == 128
        assert (await client.call_tool(name, {"text": "long"})).text == "long"
        assert catalogue_of(gateway.registry).servers() == dict.fromkeys(servers, "connected")


async def test_a_gateway_follows_its_configuration(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"gone": {"command": "/nowhere"}}}))
    kept = named("kept", echo)
    async with gateway_of({"a": kept, "b": named("b", echo)}) as gateway:
        async with connect(gateway.registry) as client:
            with pytest.raises(ConfigError):
                await gateway.load({"a": {"comand": "x"}})
            assert set(client.tools) == {"a_echo", "b_echo"}
            await gateway.load({"a": kept, "c": named("c", echo)})
            await client.refresh_tools()
            assert set(client.tools) == {"a_echo", "c_echo"}
            assert (await client.call_tool("c_echo", {"text": "new"})).text == "new"
            await gateway.load(path)
            await client.refresh_tools()
            assert list(client.tools) == []
            assert catalogue_of(gateway.registry).servers() == {"gone": "disconnected"}
            assert isinstance(gateway.states["gone"], Disconnected)


async def test_an_option_that_does_not_fit_a_new_server_changes_nothing() -> None:
    async with gateway_of({"a": named("a", echo)}, limits=Limits(tool_timeout=5)) as gateway:
        with pytest.raises(ValueError, match=r"Limits\.tool_timeout is for who serves"):
            await gateway.load({"b": ["server"]})
        assert gateway.states == {"a": Connected()}


async def test_names_do_not_depend_on_what_was_loaded_before() -> None:
    def hub_log() -> str:
        return "of git"

    def log() -> str:
        return "of git_hub"

    git, git_hub, other = named("a", hub_log), named("b", log), named("c", echo)
    both = {"git": git, "git_hub": git_hub, "other": other}

    async def told(registry: Registry) -> dict[str, str]:
        async with connect(registry) as client:
            mine = [each for each in client.tools if each != "other_echo"]
            return {each: (await client.call_tool(each)).text for each in mine}

    async with gateway_of(both) as gateway:
        at_once = await told(gateway.registry)
    assert sorted(at_once.values()) == ["of git", "of git_hub"]
    assert at_once["git_hub_log"] == "of git_hub"
    async with gateway_of({"git": git, "other": other}) as gateway:
        alone = await told(gateway.registry)
        assert alone == {"git_hub_log": "of git"}
        await gateway.load(both)
        assert await told(gateway.registry) == at_once
        await gateway.load({"git": git})
        assert await told(gateway.registry) == alone


async def test_a_load_that_is_cancelled_leaves_nothing_half_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = {"a": named("a", echo), "b": named("b", echo)}
    async with gateway_of({"a": servers["a"]}) as gateway:
        mount = gateway.registry.mount

        def cancelled(*args: Any) -> None:
            scope.cancel()
            mount(*args)

        with trio.CancelScope() as scope, monkeypatch.context() as patch:
            patch.setattr(gateway.registry, "mount", cancelled)
            await gateway.load(servers)
        assert scope.cancelled_caught
        assert list(gateway.states) == ["a"]
        await gateway.load(servers)
        async with connect(gateway.registry) as client:
            assert set(client.tools) == {"a_echo", "b_echo"}


async def test_of_two_loads_at_once_the_second_finds_what_the_first_has_left() -> None:
    servers = {"a": named("a", echo)}
    async with gateway_of({}) as gateway:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gateway.load, servers)
            nursery.start_soon(gateway.load, servers)
        assert gateway.states == {"a": Connected()}
        await gateway.load({})
        async with connect(gateway.registry) as client:
            assert list(client.tools) == []


async def test_a_proxy_whose_server_is_not_there_says_so() -> None:
    with pytest.raises(CannotStart):
        async with open_proxy(["/nowhere/at-all"]):
            raise AssertionError


# -- servers that die -----------------------------------------------------------------------


@asynccontextmanager
async def in_front_of(
    open_: Callable[..., Any], *beside: Callable[..., Any], **options: Any
) -> AsyncIterator[tuple[Remote, Registry]]:
    """A registry with a remote server that is opened by a function, and tools of its own."""
    remote = remote_to(
        named("unused"), name="other", backoff=SOON, reconnect_timeout=0.5, **options
    )
    remote.connector = open_
    registry = named("front", *beside)
    registry.mount(remote, "other")
    with trio.fail_after(LIMIT):
        async with remote.running():
            await remote.ready()
            yield remote, registry


async def test_a_server_that_dies_in_a_call_fails_that_and_comes_back() -> None:
    started = trio.Event()

    async def wait() -> None:
        started.set()
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        server = Mortal(nursery, named("mortal", wait, echo))
        async with in_front_of(server.open, echo) as (remote, registry):
            async with connect(registry) as client:
                results: list[Any] = []

                async def call() -> None:
                    results.append(await client.call_tool("other_wait"))

                async with trio.open_nursery() as calls:
                    calls.start_soon(call)
                    await started.wait()
                    server.may_live = False
                    server.die()
                assert "other did not answer" in results[0].error
                assert (await client.call_tool("echo", {"text": "well"})).text == "well"
                while remote.state == Connected():  # it may be told only after the call has failed
                    await trio.lowlevel.checkpoint()
                lost = await client.call_tool("other_echo", {"text": "x"})
                assert lost.error == "Server other is not available"
                server.may_live = True
                while remote.state != Connected():
                    await trio.sleep(0.01)
                assert (await client.call_tool("other_echo", {"text": "back"})).text == "back"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("down", ["modern", "legacy"])
async def test_a_server_that_dies_while_it_asks_leaves_nothing_open(down: Any) -> None:
    asked = trio.Event()

    async def ask(context: Context) -> str:
        return str((await context.elicit("Name?", str)).value)

    async def answer(params: Any) -> Any:
        asked.set()
        server.die()
        await trio.sleep(0.1)
        return {"action": "accept", "content": {"value": "late"}}

    async with trio.open_nursery() as nursery:
        server = Mortal(nursery, named("mortal", ask))
        async with in_front_of(partial(server.open, era="legacy"), era="legacy") as (_, registry):
            handlers = Handlers(elicitation=answer)
            async with connect(registry, era=down, handlers=handlers) as client:
                with pytest.raises(Exception, match=r"did not answer|left before|not available"):
                    result = await client.call_tool("other_ask", timeout=5)
                    raise RuntimeError(result.error)
        nursery.cancel_scope.cancel()


async def test_a_caller_who_never_answers_is_not_waited_for(autojump_clock: object) -> None:
    ended = trio.Event()

    async def ask(context: Context) -> str:
        try:
            return str((await context.elicit("Name?", str)).value)
        finally:
            ended.set()

    remote = remote_to(named("asks", ask), era="legacy", name="other", max_held=1)
    registry = Registry("front")
    registry.mount(remote)
    capabilities = {"elicitation": {}}
    meta = {"io.modelcontextprotocol/clientCapabilities": capabilities}
    async with remote.running() as upstream, connect(registry, era="modern") as client:
        await remote.ready()
        params = {"name": "ask", "arguments": {}, "_meta": meta}
        request = ClientRequest(method="tools/call", params=params)
        held = await session_of(client).exchange(request)
        assert held["resultType"] == "input_required"
        assert len(upstream.suspended) == 1
        with pytest.raises(McpError, match="Too many questions are open"):
            await session_of(client).exchange(request)
        await trio.sleep(301)
        assert len(upstream.suspended) == 0
        await ended.wait()
        late = {**params, "requestState": held["requestState"], "inputResponses": {}}
        with pytest.raises(McpError, match="request state is not acceptable"):
            await session_of(client).exchange(ClientRequest(method="tools/call", params=late))


# -- servers that are malicious ---------------------------------------------------------------


class Malicious:
    """A modern server that says what it likes."""

    def __init__(self, tools: list[Any], flood: bytes = b"") -> None:
        self.tools = tools
        self.flood = flood
        self.listed = 0

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Answer the handshake, the list, and calls."""
        pending = b""
        while chunk := await stream.receive_some():
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                request = json.loads(line)
                if "id" in request and "method" in request:
                    await stream.send_all(self.flood)
                    await stream.send_all(line_of(self.answer(request)))

    def answer(self, request: Any) -> Any:
        """Answer one request."""
        results: dict[str, Any] = {
            "server/discover": {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {"listChanged": True}},
            },
            "tools/list": {"tools": self.tools, "ttlMs": 0, "cacheScope": "private"},
            "tools/call": {"content": [{"type": "text", "text": "done"}]},
        }
        self.listed += request["method"] == "tools/list"
        result = results.get(request["method"], {})
        return {
            "jsonrpc": "2.0",
            "id": request["id"],
            "result": {"resultType": "complete", **result},
        }


@asynccontextmanager
async def malicious(server: Malicious) -> AsyncIterator[Registry]:
    """A registry with a malicious server in it, and a tool of its own."""
    async with trio.open_nursery() as nursery:

        def open_(**options: Any) -> Any:
            ours, theirs = memory_stream_pair()
            nursery.start_soon(server.serve, theirs)
            return connect(ours, list_tools=False, **options)

        async with in_front_of(open_, echo) as (_, registry):
            yield registry
        nursery.cancel_scope.cancel()


def tool(name: Any, schema: Any = None) -> Any:
    return {"name": name, "inputSchema": {"type": "object"} if schema is None else schema}


@pytest.mark.long
async def test_what_a_server_lists_is_bounded_and_what_is_nothing_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bomb: Any = {"type": "object"}
    for _ in range(100):
        bomb = {"allOf": [bomb, bomb]} if len(json.dumps(bomb)) < 10_000 else {"not": bomb}
    odd = [
        {**tool("good"), "com.example/new": {"a": [1]}},
        tool("x" * 2**20),
        tool(""),
        tool(7),
        tool("a b"),
        7,
        tool("bomb", bomb),
    ]
    many = [tool(f"t{number}") for number in range(20_000)]
    async with malicious(Malicious(odd + many)) as registry, connect(registry) as client:
        assert {"other_good", "other_bomb", "echo"} <= set(client.tools)
        assert len(client.tools) <= 5001
        assert client.tools["other_good"].details["com.example/new"] == {"a": [1]}
        assert (await client.call_tool("other_good")).text == "done"
        assert (await client.call_tool("echo", {"text": "well"})).text == "well"
    assert "lists 20007 tools; the first 5000 are taken" in caplog.text


async def test_a_flood_that_belongs_to_nothing_harms_nobody() -> None:
    messages: list[Any] = [
        {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
        {"jsonrpc": "2.0", "id": "never asked", "result": {}},
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 10**9}},
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error"}},
        {"jsonrpc": "2.0", "id": 5, "method": "elicitation/create", "params": {"message": "?"}},
    ]
    flood = b"".join(line_of(each) for each in messages) * 200
    server = Malicious([tool("good")], flood)
    async with malicious(server) as registry, connect(registry) as client:
        for _ in range(5):
            assert (await client.call_tool("other_good")).text == "done"
            assert (await client.call_tool("echo", {"text": "well"})).text == "well"
    assert server.listed < 10, "a list that changes in a loop is not asked for in a loop"


async def test_nobody_waits_for_a_server_that_is_just_being_tried_again() -> None:
    """Its registry may be served at any moment of an attempt, which may hang."""
    kept: list[Any] = []

    def fails_then_hangs(**options: Any) -> Any:
        ours, theirs = memory_stream_pair()
        kept.append(theirs)
        if len(kept) == 1:
            raise CannotStart("the first time")
        return connect(ours, connect_timeout=1000, **options)

    async with in_front_of(fails_then_hangs, connect_timeout=1000) as (remote, registry):
        while not isinstance(remote.state, Connecting):
            await trio.sleep(0.001)
        with trio.fail_after(60):
            async with connect(registry) as client:
                assert client.server_info is not None
