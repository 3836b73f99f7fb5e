"""What a client decides for itself: its target, its names for tools, and how it takes its leave."""

import json
import sys
from contextlib import AsyncExitStack

import pytest
import trio

from tests.client.http_support import Script, in_memory, said, serving
from tests.client.support import beside, process, tortured
from tests.support.processes import EXAMPLES
from tests.support.tools import echo, registry_of
from trio_mcp import Context, Handlers, Registry, connect, serve_stream
from trio_mcp.errors import CallTimeout, InvalidArguments, NotConnected, UnknownTool

pytestmark = pytest.mark.requirement("E10")


# -- the target in the environment ----------------------------------------------------------------


async def test_the_target_may_come_from_the_environment(monkeypatch) -> None:
    async with serving(Script("modern")) as url:
        monkeypatch.setenv("MCP_SERVER_URL", url)
        async with connect() as client:
            assert "echo" in client.tools


async def test_it_may_be_a_command(monkeypatch, tmp_path) -> None:
    program = tmp_path / "my server.py"
    program.write_text((EXAMPLES / "calculator.py").read_text())
    monkeypatch.setenv("MCP_SERVER_URL", f"'{sys.executable}' -u '{program}'")
    async with connect(connect_timeout=120) as client:
        assert "add" in client.tools


async def test_a_target_that_is_named_counts_more_than_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("MCP_SERVER_URL", "http://127.0.0.1:1/mcp")
    async with connect(registry_of(echo)) as client:
        assert "echo" in client.tools


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (None, TypeError, "or else a URL or a command in the environment variable MCP_SERVER_URL"),
        ("", TypeError, "MCP_SERVER_URL"),
        ("secret.example.com", ValueError, "the variable MCP_SERVER_URL has neither a URL"),
        ("secret 'x", ValueError, "nor a command, with its arguments as in a shell"),
        (" ", ValueError, "the variable MCP_SERVER_URL has neither a URL"),
    ],
)
def test_without_a_target_it_is_told_where_one_is_looked_for(
    monkeypatch, value, error, words
) -> None:
    monkeypatch.delenv("MCP_SERVER_URL", raising=False)
    if value is not None:
        monkeypatch.setenv("MCP_SERVER_URL", value)
    with pytest.raises(error, match=words) as caught:
        connect()
    assert "secret" not in str(caught.value)


# -- names ----------------------------------------------------------------------------------------


async def shout(text: str) -> str:
    """Return the text, louder."""
    return text.upper()


@pytest.mark.parametrize("list_tools", [True, False])
async def test_a_tool_may_have_another_name_on_this_side(list_tools) -> None:
    names = {"repeat": "echo"}
    registry = registry_of(echo, shout)
    async with connect(registry, tool_names=names, list_tools=list_tools) as client:
        assert (await client.call_tool("repeat", {"text": "x"})).text == "x"
        assert (await client.call_tool("shout", {"text": "x"})).text == "X"
        await client.refresh_tools()
        assert [(each.name, each.mcp_name) for each in client.tools.values()] == [
            ("repeat", "echo"),
            ("shout", "shout"),
        ]
        with pytest.raises(UnknownTool):
            await client.call_tool("echo", {"text": "x"})
        with pytest.raises(InvalidArguments, match="tool 'repeat'"):
            await client.call_tool("repeat", {"text": 1})
        client.tools["repeat"].timeout = 9
        await client.refresh_tools()
        assert client.tools["repeat"].timeout == 9


async def test_two_tools_may_change_their_names_with_each_other() -> None:
    names = {"echo": "shout", "shout": "echo"}
    async with connect(registry_of(echo, shout), tool_names=names) as client:
        assert (await client.call_tool("echo", {"text": "x"})).text == "X"
        assert (await client.call_tool("shout", {"text": "x"})).text == "x"


async def test_a_name_that_is_given_away_is_the_owner_s_no_more(caplog) -> None:
    async with connect(registry_of(echo, shout), tool_names={"echo": "shout"}) as client:
        assert [each.mcp_name for each in client.tools.values()] == ["shout"]
    assert "Tool echo is left out: another one is called that here" in caplog.text


async def test_a_tool_has_one_name() -> None:
    with pytest.raises(ValueError, match="two names"):
        connect(registry_of(echo), tool_names={"one": "echo", "two": "echo"})


async def test_over_http_a_tool_goes_by_the_server_s_name() -> None:
    script = Script("modern")
    async with serving(script) as url, connect(url, tool_names={"repeat": "echo"}) as client:
        assert (await client.call_tool("repeat", {"text": "x"})).text == "x"
        assert script.requests[-1].headers["mcp-name"] == "echo"


# -- shutdown -------------------------------------------------------------------------------------


@pytest.mark.parametrize("switch", ["dual", "legacy"])
@pytest.mark.parametrize("asked", [True, False])
async def test_shutdown_is_sent_before_closing_where_it_is_wanted(switch, asked) -> None:
    async with tortured(switch, send_shutdown=asked) as (_, torture):
        assert "shutdown" not in [each.get("method") for each in torture.heard]
    assert (torture.heard[-1].get("method") == "shutdown") == asked


async def test_a_server_that_is_shut_down_has_ended_by_itself() -> None:
    ended = trio.Event()

    async def serve(stream: trio.abc.Stream) -> None:
        await serve_stream(registry_of(echo), stream)
        ended.set()

    async with beside(serve) as stream, connect(stream, send_shutdown=True) as client:
        await client.request("shutdown")  # the second one comes too late, and nobody minds
        await ended.wait()


async def test_an_error_in_the_block_comes_out_after_the_shutdown() -> None:
    with pytest.raises(LookupError, match="mine"):
        async with tortured(send_shutdown=True) as (_, torture):
            raise LookupError("mine")
    assert torture.heard[-1]["method"] == "shutdown"


async def test_who_is_cancelled_does_not_wait_for_a_shutdown(autojump_clock) -> None:
    started = trio.current_time()
    with trio.CancelScope() as scope:
        async with tortured(send_shutdown=True):
            scope.cancel()
    assert trio.current_time() == started


async def test_a_server_that_does_not_answer_holds_nobody_up(autojump_clock) -> None:
    heard: list[bytes] = []

    async def silent(stream: trio.abc.Stream) -> None:
        async for chunk in stream:
            heard.append(chunk)
            if b"server/discover" in chunk:
                result = {"supportedVersions": ["2026-07-28"], "capabilities": {}}
                answer = {"jsonrpc": "2.0", "id": json.loads(chunk)["id"], "result": result}
                await stream.send_all(json.dumps(answer).encode() + b"\n")

    started = trio.current_time()
    async with beside(silent) as stream, connect(stream, send_shutdown=True):
        pass
    assert trio.current_time() - started == 1
    assert any(b'"shutdown"' in each for each in heard)


async def test_what_is_no_server_any_more_is_not_told() -> None:
    async with process(send_shutdown=True) as client:
        with pytest.raises(NotConnected):
            await client.call_tool("exit", {"status": 3})


async def test_over_http_there_is_no_shutdown_and_nobody_minds() -> None:
    async with serving(Script("modern")) as url, connect(url, send_shutdown=True):
        pass


# -- time-outs ------------------------------------------------------------------------------------


@pytest.mark.requirement("E3")
@pytest.mark.parametrize(
    ("published", "expected"),
    [
        (8, 9.0),
        (0.5, 5.0),
        (118.5, 119.5),
        (10**30, 120.0),
        (1e308, 120.0),
        (-1, 5.0),
        ("8", 5.0),
        (None, 5.0),
    ],
)
async def test_a_published_limit_counts_within_bounds(published, expected) -> None:
    script = Script("modern")
    script.tools[0] = script.tools[0] | {"_meta": {"trio-mcp/timeout": published}}
    async with serving(script) as url, connect(url) as client:
        assert client.tools["echo"].timeout == expected


@pytest.mark.requirement("E4")
@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("on_progress", [None, lambda *_: None], ids=["unheard", "heard"])
async def test_progress_extends_a_call_over_http(era, on_progress, autojump_clock) -> None:
    async def call(incoming) -> None:
        await incoming.start()
        token = incoming.params["_meta"]["progressToken"]
        if incoming.params["arguments"]["text"] == "silence":
            await incoming.until_gone()
            return
        for number in range(7):
            await trio.sleep(3)
            params = {"progressToken": token, "progress": number}
            message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            await incoming.event(message)
        result = said(incoming) | ({"resultType": "complete"} if era == "modern" else {})
        await incoming.event(incoming.answer(result))
        await incoming.end()

    script = Script(era)
    script.on["tools/call"] = call
    async with in_memory(script) as (url, http, _), connect(url, http=http) as client:
        started = trio.current_time()
        result = await client.call_tool("echo", {"text": "x"}, on_progress=on_progress)
        assert result.text == "x"
        assert trio.current_time() - started == 21
        with pytest.raises(CallTimeout, match=r"no answer within 5 s \(to wait longer: call_tool"):
            await client.call_tool("echo", {"text": "silence"}, on_progress=on_progress)


@pytest.mark.requirement("S4")
@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("way", ["in memory", "http"])
async def test_how_long_tools_take_can_be_left_to_the_server(era, way, autojump_clock) -> None:
    async def call(incoming) -> None:
        with trio.move_on_after(3600):
            await incoming.until_gone()
            return
        extra = {"resultType": "complete"} if era == "modern" else {}
        await incoming.json(incoming.answer(said(incoming) | extra))

    registry = Registry("slow", tool_timeout=7200)

    @registry.tool(name="echo")
    async def slow(text: str) -> str:
        await trio.sleep(3600)
        return text

    async with AsyncExitStack() as stack:
        target, options = registry, {}
        if way == "http":
            script = Script(era)
            script.on["tools/call"] = call
            target, http, _ = await stack.enter_async_context(in_memory(script))
            options = {"http": http}
        connection = connect(target, era=era, tool_timeout=None, **options)
        client = await stack.enter_async_context(connection)
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        hint = r"within 7 s \(to wait longer: call_tool.*, where None leaves it to the server\)"
        client.tools["echo"].timeout = 7
        with pytest.raises(CallTimeout, match=hint):
            await client.call_tool("echo", {"text": "x"})


@pytest.mark.requirement("S4")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_time_of_a_tool_stands_still_while_its_question_is_answered(
    era, autojump_clock
) -> None:
    registry = Registry("asking")

    @registry.tool
    async def ask(context: Context) -> bool:
        return (await context.elicit("Really?", bool)).value

    async def think(params: object) -> dict[str, object]:
        await trio.sleep(100)
        return {"action": "accept", "content": {"value": True}}

    async with connect(registry, era=era, handlers=Handlers(elicitation=think)) as client:
        assert await client.call_tool("ask", returns=bool)


@pytest.mark.requirement("E4")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_progress_extends_other_requests_likewise(era, autojump_clock) -> None:
    registry = Registry("slow", version="1")

    @registry.resource("slow://it")
    async def it(context: Context) -> str:
        for number in range(9):
            await context.progress(number)
            await trio.sleep(2)
        return "done"

    @registry.resource("slow://silence")
    async def silence() -> None:
        await trio.sleep(18)

    @registry.prompt
    async def prompt(context: Context) -> str:
        return await it(context)

    async with connect(registry, era=era, request_timeout=4) as client:
        hint = r"within 4 s \(to wait longer: timeout=\.\.\. or connect\(request_timeout=\.\.\.\)\)"
        with pytest.raises(CallTimeout, match=hint):
            await client.read_resource("slow://silence")
        for on_progress in (None, lambda *_: None):
            result = await client.read_resource("slow://it", on_progress=on_progress)
            assert result.text == "done"
            await client.get_prompt("prompt", on_progress=on_progress)
