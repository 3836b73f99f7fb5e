"""Many servers side by side: one that fails, hangs or dies harms no other."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import Any

import pytest
import trio

from tests.compose.support import group_of, named
from tests.support.tools import echo
from trio_mcp import (
    Connected,
    Context,
    Disconnected,
    Handlers,
    McpError,
    Registry,
    Remote,
    ServerGroup,
    connect_all,
    serve_http,
)
from trio_mcp.compose import Backoff, open_gateway
from trio_mcp.errors import CannotStart, ClientError, ConfigError, ServerUnavailable, UnknownTool
from trio_mcp.middleware import McpRequest
from trio_mcp.transports import ProcessOptions

pytestmark = pytest.mark.requirement("L3")
QUICK = ProcessOptions(close_timeout=0.1, terminate_timeout=0.5)
SILENT = [sys.executable, "-c", "import time; time.sleep(60)"]


def echo_nothing() -> str:
    return ""


def library() -> Registry:
    registry = named("library", echo)

    @registry.resource("books://all")
    def books() -> str:
        return "none"

    @registry.prompt
    def review(book: str) -> str:
        return f"Review {book}."

    return registry


async def test_the_tools_of_all_are_there_under_names_of_their_own() -> None:
    async with group_of({"a": named("x", echo), "b": named("y", echo)}) as group:
        assert list(group.tools) == ["a_echo", "b_echo"]
        assert group.tools["a_echo"].mcp_name == "echo"
        assert (await group.call_tool("b_echo", {"text": "hi"}, returns=str)) == "hi"
        with pytest.raises(UnknownTool, match="no server has a tool 'c_echo'"):
            await group.call_tool("c_echo")
        with pytest.raises(UnknownTool, match=r"a tool 'echo'; here it is a_echo, b_echo$"):
            await group.call_tool("echo")


async def test_resources_and_prompts_are_those_of_their_server() -> None:
    async with group_of({"lib": library(), "plain": named("y", echo)}) as group:
        assert (await group.read_resource("lib", "books://all")).text == "none"
        assert list(await group.list_resources()) == ["lib"]
        assert [each.name for each in (await group.list_prompts())["lib"]] == ["review"]
        prompt = await group.get_prompt("lib", "review", {"book": "Dune"})
        assert prompt.messages[0].content.text == "Review Dune."


async def test_what_all_have_is_listed_without_those_that_do_not_answer(
    autojump_clock: object,
) -> None:
    async def silent(request: McpRequest, call_next: Any) -> Any:
        if request.method == "resources/list":
            await trio.sleep_forever()
        return await call_next(request)

    @asynccontextmanager
    async def never(registry: Registry) -> AsyncIterator[None]:
        await trio.sleep_forever()
        yield

    mute = Registry("mute", middleware=[silent])
    mute.add_resource("mute://all", echo_nothing)
    servers = {"lib": library(), "mute": mute, "slow": Registry("slow", lifespan=never)}
    async with connect_all(servers, reconnect_timeout=3) as group:
        with trio.fail_after(4):
            assert list(await group.list_resources()) == ["lib"]
        with trio.fail_after(1):
            assert list(await group.list_prompts()) == ["lib"]


async def test_one_that_fails_and_one_that_hangs_harm_no_other() -> None:
    servers = {"good": named("x", echo), "missing": ["/nowhere/at-all"], "silent": SILENT}
    with trio.fail_after(120):
        async with group_of(
            servers, connect_timeout=2, reconnect_timeout=0.1, process_options=QUICK
        ) as group:
            assert group.servers["good"].state == Connected()
            failed = group.servers["missing"].state
            assert isinstance(failed, Disconnected)
            assert isinstance(failed.error, CannotStart)
            assert (await group.call_tool("good_echo", {"text": "hi"})).text == "hi"
            for name in ("missing", "silent"):
                with pytest.raises(ServerUnavailable, match=f"server '{name}' is not available"):
                    await group.call_tool(f"{name}_anything")


async def one_more(registry: Registry, group: ServerGroup) -> None:
    """Register one more tool at the server `a`, and wait until the group has it."""

    @registry.tool
    def more() -> str:
        return "more"

    with trio.fail_after(60):
        while "a_more" not in group.tools:
            await trio.sleep(0.01)


async def test_new_tools_appear_and_what_was_set_holds_on() -> None:
    registry = named("x", echo)
    async with group_of({"a": registry}) as group:
        group.tools["a_echo"].timeout = 77
        await one_more(registry, group)
        assert group.tools["a_echo"].timeout == 77


async def test_lists_are_followed_again_when_that_was_refused(autojump_clock: object) -> None:
    refused: list[str] = []

    async def busy(request: McpRequest, call_next: Any) -> Any:
        if request.method == "subscriptions/listen" and len(refused) < 3:
            refused.append(request.method)
            raise McpError(-32000, "too many subscriptions")
        return await call_next(request)

    registry = Registry("x", middleware=[busy])
    registry.add_tool(echo)
    async with group_of({"a": registry}) as group:
        with trio.fail_after(60):
            while len(refused) < 3:
                await trio.sleep(0.01)
        await one_more(registry, group)


async def test_what_a_server_says_and_asks_comes_with_its_name() -> None:
    logged: list[tuple[object, ...]] = []
    asked: list[str] = []

    async def ask(context: Context) -> str:
        await context.info("going to ask")
        return (await context.elicit("Name?", str)).value or ""

    def handlers(server: str) -> Handlers:
        async def answer(params: object) -> dict[str, object]:
            asked.append(server)
            return {"action": "accept", "content": {"value": server}}

        return Handlers(elicitation=answer)

    options = {"on_log": lambda *said: logged.append(said), "log_level": "info"}
    servers = {"a": named("x", ask), "b": named("y", ask)}
    async with group_of(servers, handlers=handlers, **options) as group:
        assert (await group.call_tool("b_ask")).text == "b"
    assert asked == ["b"]
    assert ("b", "info", "going to ask", None) in logged


async def test_states_are_those_of_all(autojump_clock: object) -> None:
    async with group_of({"a": named("x", echo), "no": ["/nowhere"]}, wait=inf) as group:
        states = group.states()
        first = [await anext(states), await anext(states)]
    rest = [each async for each in states]
    assert [(each.server, type(each.state).__name__) for each in first] == [
        ("a", "Connected"),
        ("no", "Disconnected"),
    ]
    assert rest[-1].state == Disconnected(None)


@pytest.mark.parametrize("cancelled", [False, True])
async def test_states_end_however_the_block_does(cancelled: bool) -> None:
    with trio.CancelScope() as scope, suppress(KeyError):
        async with group_of({"a": named("x", echo)}) as group:
            states = group.states()
            if not cancelled:
                raise KeyError
            scope.cancel()
            await trio.sleep_forever()
    with trio.fail_after(60):
        assert [type(each.state) async for each in states] == [Connected, Disconnected]


async def test_leaving_ends_all_side_by_side() -> None:
    servers = {f"s{number}": SILENT for number in range(4)}
    begin = trio.current_time()
    options = {"connect_timeout": 30, "process_options": ProcessOptions(close_timeout=2)}
    with trio.move_on_after(0.2):
        async with group_of(servers, **options):
            raise AssertionError("it began before the servers were settled")
    assert trio.current_time() - begin < 4 * 2, "one after the other"


async def test_a_configuration_for_no_server_is_refused() -> None:
    with pytest.raises(ConfigError):
        async with group_of({"a": {"comand": "x"}}):
            raise AssertionError


async def test_a_server_over_http_that_goes_away_is_missed_and_welcomed_back() -> None:
    registry = named("web", echo)
    async with trio.open_nursery() as nursery:
        first = await nursery.start(serve_http, registry, "127.0.0.1", 0)
        port = int(first.url.rpartition(":")[2].partition("/")[0])
        options = {"reconnect_timeout": 0.3, "backoff": Backoff(first=0.05, longest=0.1)}
        with trio.fail_after(120):
            async with group_of({"web": first.url, "own": registry}, **options) as group:
                assert (await group.call_tool("web_echo", {"text": "hi"})).text == "hi"
                first.stop()
                with pytest.raises(ClientError):
                    while True:
                        await group.call_tool("web_echo", {"text": "hi"})
                while group.servers["web"].state == Connected():
                    await trio.sleep(0.01)
                with pytest.raises(ServerUnavailable):
                    await group.call_tool("web_echo", {"text": "hi"})
                assert (await group.call_tool("own_echo", {"text": "well"})).text == "well"
                await nursery.start(serve_http, registry, "127.0.0.1", port)
                while group.servers["web"].state != Connected():
                    await trio.sleep(0.01)
                assert (await group.call_tool("web_echo", {"text": "back"})).text == "back"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("opened", [connect_all, open_gateway])
@pytest.mark.parametrize(
    ("url", "why"), [("http://", "has no host"), ("http://x:99999/", "has port 99999")]
)
async def test_a_url_that_leads_nowhere_is_said_at_once(opened: Any, url: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"server 'far': url: the URL {why};"):
        async with opened({"good": named("x", echo), "far": url}):
            raise AssertionError("nothing can make that server come")
    with pytest.raises(ValueError, match=f"^Remote: the URL {why};"):
        Remote(url)


@pytest.mark.parametrize("opened", [connect_all, open_gateway])
async def test_a_package_that_is_missing_is_said_at_once(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    servers = {"good": named("x", echo), "far": "https://far.test/mcp"}
    told = r"^server 'far': url: a URL needs more packages: pip install 'trio-mcp\[http\]'$"
    with pytest.raises(ModuleNotFoundError, match=told):
        async with opened(servers):
            raise AssertionError("nothing can make that package come")
