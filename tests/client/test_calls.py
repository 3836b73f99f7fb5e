"""Calling tools: arguments, results, failures, time limits, progress, cancellation."""

import json
from datetime import date
from functools import partial
from typing import Any

import pytest
import trio
from attrs import define
from trio.testing import wait_all_tasks_blocked

from tests.client.support import served, tortured
from tests.support.tools import echo, linger, registry_of, wait
from trio_mcp import McpError, TextContent, ToolError, connect
from trio_mcp.client.changes import ChangeStream
from trio_mcp.client.state import Connected, Disconnected
from trio_mcp.client.tools import RemoteTool, ToolTable
from trio_mcp.errors import (
    CallTimeout,
    InvalidArguments,
    InvalidResult,
    NotConnected,
    OutputClosed,
    ProtocolError,
    ToolDisabled,
    ToolFailed,
    UnknownTool,
    WriteFailed,
)
from trio_mcp.middleware import McpRequest, RequestNext
from trio_mcp.wire.revisions import BY_NAME


@define
class Point:
    x: float
    y: float = 0.0


async def place(x: float) -> Point:
    """Make a point."""
    return Point(x, 2 * x)


async def count() -> int:
    """Count to three."""
    return 3


async def refuse() -> None:
    """Fail, and say why."""
    raise ToolError("not like this")


async def heard(torture, method: str) -> list:
    """The params of the notifications and requests that a server got, once it has got them."""
    await wait_all_tasks_blocked()
    return [each["params"] for each in torture.heard if each.get("method") == method]


@pytest.mark.requirement("E4")
@pytest.mark.parametrize("over", ["stream", "memory"])
async def test_a_result_has_blocks_and_structure_and_converts_into_a_type(over) -> None:
    registry = registry_of(echo, place, count, refuse)
    async with served(registry) if over == "stream" else connect(registry) as client:
        result = await client.call_tool("place", {"x": 1.5})
        assert result.success
        assert result.error is None
        assert result.structured_content == {"x": 1.5, "y": 3.0}
        [block] = result.content
        assert isinstance(block, TextContent)
        assert result.value(Point) == Point(1.5, 3.0)
        assert result.duration >= 0
        assert await client.call_tool("place", {"x": 2}, returns=Point) == Point(2, 4)
        assert await client.call_tool("echo", {"text": "ä"}, returns=str) == "ä"
        assert await client.call_tool("count", returns=int) == 3
        with pytest.raises(ProtocolError, match="the result is not"):
            await client.call_tool("echo", {"text": "ä"}, returns=int)


@pytest.mark.requirement("E4", "E5")
@pytest.mark.parametrize("over", ["stream", "memory"])
async def test_a_tool_that_fails_gives_its_words(over) -> None:
    registry = registry_of(refuse)
    async with served(registry) if over == "stream" else connect(registry) as client:
        result = await client.call_tool("refuse")
        assert not result.success
        assert result.error == "not like this"
        with pytest.raises(ToolFailed, match="not like this"):
            await client.call_tool("refuse", returns=str)


@pytest.mark.requirement("E4")
async def test_what_cannot_succeed_is_not_sent() -> None:
    async with tortured() as (client, torture):
        with pytest.raises(UnknownTool, match=r"'nothing'.*echo"):
            await client.call_tool("nothing")
        with pytest.raises(InvalidArguments, match="text"):
            await client.call_tool("echo", {})
        with pytest.raises(InvalidArguments, match="are not JSON, which has no type 'date'"):
            await client.call_tool("echo", {"text": date(2026, 5, 4)})  # type: ignore[dict-item]
        client.tools["echo"].enabled = False
        with pytest.raises(ToolDisabled, match="echo"):
            await client.call_tool("echo", {"text": "x"})
        assert await heard(torture, "tools/call") == []
        client.tools["echo"].enabled = True
        assert await client.call_tool("echo", {"text": "x"}, returns=str) == "x"


@pytest.mark.requirement("E5")
async def test_an_error_of_the_server_is_raised_as_it_is() -> None:
    async with tortured() as (client, _):
        with pytest.raises(McpError, match="I will not") as caught:
            await client.call_tool("refuse")
        assert caught.value.code == -32000
        with pytest.raises(McpError, match="no such method"):
            await client.request("no/such/method")
        assert not (await client.call_tool("fail")).success


@pytest.mark.requirement("E5")
@pytest.mark.parametrize(
    ("tool", "answer", "why"),
    [
        ("give", {"content": 7}, "not MCP"),
        ("give", {"content": [{"type": "text"}]}, "not MCP"),
        ("give", {"resultType": "riddle"}, "'riddle'"),
        ("give", {"resultType": [["riddle"]]}, "the resultType is an array$"),
        (
            "give",
            {"resultType": "input_required", "requestState": {}},
            '"requestState" must be a str',
        ),
        ("give", {"resultType": "input_required", "inputRequests": [1]}, "must be an object"),
        ("give", {"resultType": "input_required", "inputRequests": {"a": 1}}, "must be an object"),
        ("give_back", {"result": "text"}, "not an object"),
        ("give_back", {"result": [1]}, "not an object"),
    ],
)
async def test_an_answer_that_is_not_mcp_is_a_protocol_error(tool, answer, why) -> None:
    async with tortured() as (client, _):
        with pytest.raises(ProtocolError, match=why):
            await client.call_tool(tool, answer)
        assert await client.call_tool("echo", {"text": "on"}, returns=str) == "on"


@pytest.mark.requirement("E5")
async def test_an_error_without_a_code_is_an_error_all_the_same() -> None:
    async with tortured() as (client, _):
        with pytest.raises(McpError, match="no code and message"):
            await client.call_tool("give_back", {"error": "bad"})


@pytest.mark.requirement("E4")
async def test_any_number_of_tasks_may_call(autojump_clock) -> None:
    async with served(registry_of(echo, wait)) as client:
        slow: list[str] = []

        async def be_slow() -> None:
            slow.append(await client.call_tool("wait", {"seconds": 4}, returns=str))

        results: dict[int, str] = {}

        async def call(number: int) -> None:
            results[number] = await client.call_tool("echo", {"text": f"{number}"}, returns=str)

        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(be_slow)
            for number in range(500):
                nursery.start_soon(call, number)
        assert results == {number: str(number) for number in range(500)}
        assert slow == ["waited 4"] * 20
        assert trio.current_time() - started < 4.1


@pytest.mark.requirement("E4", "E5")
@pytest.mark.parametrize(
    ("of_tool", "of_call", "seconds"), [(None, None, 5), (2, None, 2), (None, 3, 3), (2, 0.5, 0.5)]
)
async def test_a_call_has_a_time_limit_and_the_server_hears_of_it(
    of_tool, of_call, seconds, autojump_clock
) -> None:
    async with tortured() as (client, torture):
        if of_tool is not None:
            client.tools["forget"].timeout = of_tool
        started = trio.current_time()
        with pytest.raises(CallTimeout, match=f"tool 'forget': no answer within {seconds} s"):
            await client.call_tool("forget", timeout=of_call)
        assert trio.current_time() - started == pytest.approx(seconds)
        assert [each["requestId"] for each in await heard(torture, "notifications/cancelled")] == (
            torture.forgotten
        )
        # the late answer has come by now, and twice
        assert await client.call_tool("echo", {"text": "on"}, returns=str) == "on"


@pytest.mark.requirement("E4")
async def test_time_limits_of_one_tool_do_not_concern_others(autojump_clock) -> None:
    async with served(registry_of(wait, linger), tool_timeout=2) as client:
        with pytest.raises(CallTimeout):
            await client.call_tool("linger", {"seconds": 100, "more": 1})
        assert await client.call_tool("wait", {"seconds": 1.9}, returns=str) == "waited 1.9"
        with pytest.raises(CallTimeout, match="within 2 s"):
            await client.call_tool("wait", {"seconds": 2.1})


@pytest.mark.requirement("E4")
async def test_other_requests_have_a_time_limit_too(autojump_clock) -> None:
    async with tortured(request_timeout=4) as (client, torture):
        torture.REQUESTS = {}
        torture.receive = lambda message: []
        with pytest.raises(CallTimeout, match="resources/list: no answer within 4 s"):
            await client.request("resources/list")


@pytest.mark.requirement("E4")
async def test_a_cancelled_call_is_cancelled_on_the_wire() -> None:
    async with tortured() as (client, torture):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "forget")
                await wait_all_tasks_blocked()
                assert torture.forgotten
                scope.cancel()
        assert [each["requestId"] for each in await heard(torture, "notifications/cancelled")] == (
            torture.forgotten
        )
        assert await client.call_tool("echo", {"text": "on"}, returns=str) == "on"


@pytest.mark.requirement("E4")
async def test_a_cancelled_call_is_cancelled_in_the_server() -> None:
    ended = trio.Event()

    async def sleep() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    registry = registry_of(sleep)
    for over in (served(registry), connect(registry)):
        ended = trio.Event()
        async with over as client:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.call_tool, "sleep")
                    await wait_all_tasks_blocked()
                    scope.cancel()
            with trio.fail_after(60):
                await ended.wait()


@pytest.mark.requirement("E4")
async def test_progress_reaches_the_call_that_wants_it(caplog) -> None:
    async with tortured() as (client, _):
        seen: list = []
        result = await client.call_tool("progress", on_progress=lambda *each: seen.append(each))
        assert seen == [(1, None, None), (2, 2, "done")]
        second: list = []
        other = await client.call_tool("progress", on_progress=lambda *each: second.append(each))
        assert second == seen
        assert result.text != other.text  # each call has a token of its own
        assert (await client.call_tool("progress")).text not in (result.text, other.text, "None")
        assert (await client.call_tool("progress", timeout=5)).text == "None"  # it is of no use
        meta = {"progressToken": "my own"}
        assert (await client.call_tool("progress", meta=meta)).text == "my own"
    async with tortured(tool_timeout=None) as (client, _):
        assert (await client.call_tool("progress")).text == "None"
    assert "The callback for" not in caplog.text  # what is not MCP is nothing for it


@pytest.mark.requirement("E4")
async def test_progress_of_a_call_that_has_ended_reaches_no_callback(autojump_clock) -> None:
    async with tortured() as (client, torture):
        seen: list = []
        call = partial(client.call_tool, on_progress=lambda *each: seen.append(each))
        with pytest.raises(TypeError):
            await call("forget", {"number": float("nan")})
        assert (await call("echo", {"text": "on"})).text == "on"
        with trio.move_on_after(1):
            await call("forget")
        with pytest.raises(CallTimeout):
            await call("forget", timeout=1)
        tokens = [
            each["params"]["_meta"]["progressToken"]
            for each in torture.heard
            if each["method"] == "tools/call"
        ]
        assert len(set(tokens)) == 3
        await wait_all_tasks_blocked()
        for token in range(max(tokens) + 1):
            params = {"progressToken": token, "progress": 1}
            news = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            await torture.stream.send_all(json.dumps(news).encode() + b"\n")
        await wait_all_tasks_blocked()
        assert not seen


@pytest.mark.requirement("E4")
async def test_a_progress_callback_that_fails_does_no_harm(caplog) -> None:
    async with tortured() as (client, _):

        def fail(*_) -> None:
            raise LookupError("in the callback")

        assert (await client.call_tool("progress", on_progress=fail)).success
        assert "The callback for notifications/progress failed" in caplog.text
        assert (await client.call_tool("echo", {"text": "on"})).text == "on"


@pytest.mark.requirement("E5")
async def test_every_waiter_is_woken_when_the_connection_ends(autojump_clock) -> None:
    async with tortured() as (client, torture):
        woken: list[str] = []

        async def call(number: int) -> None:
            with pytest.raises(OutputClosed):
                await client.call_tool("forget", timeout=1000)
            woken.append(f"call {number}")

        async def watch() -> None:
            states = [state async for state in client.states()]
            assert isinstance(states[0], Connected)
            assert isinstance(states[1], Disconnected)
            assert isinstance(states[1].error, OutputClosed)
            assert len(states) == 2
            woken.append("states")

        async def listen() -> None:
            async for _ in client.messages():
                pass
            woken.append("messages")

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(call, number)
            nursery.start_soon(watch)
            nursery.start_soon(listen)
            await wait_all_tasks_blocked()
            await torture.stream.send_stream.aclose()
        assert len(woken) == 12
        with pytest.raises(OutputClosed):
            await client.ping()


@pytest.mark.requirement("E5")
async def test_leaving_the_block_wakes_those_outside_of_it() -> None:
    async def call(client) -> None:
        with pytest.raises(NotConnected, match="was left"):
            await client.call_tool("forget", timeout=1000)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            async with tortured() as (client, torture):
                nursery.start_soon(call, client)
                await wait_all_tasks_blocked()
                assert torture.forgotten


@pytest.mark.requirement("E5")
async def test_a_write_that_fails_is_told_from_an_end_of_output(autojump_clock) -> None:
    async with tortured() as (client, torture):
        await torture.stream.receive_stream.aclose()
        with pytest.raises(WriteFailed):
            await client.call_tool("echo", {"text": "x"})


# -- output schemas -------------------------------------------------------------------------------

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
BLOCKS = [{"type": "text", "text": "three"}]


def publishing(schema: object) -> str:
    """A server whose tool `give` has this output schema."""
    return f"output-schema:{json.dumps(schema)}"


@pytest.mark.requirement("E4", "E5")
@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"structuredContent": {"n": 3}}, None),
        ({"structuredContent": {"n": "3"}}, "Result 'n' must be an integer, but a string came"),
        ({"structuredContent": {}}, "Missing required result 'n'"),
        ({"structuredContent": [3]}, "must be an object"),
        ({"structuredContent": None}, "must be an object"),
        ({}, "has no structuredContent"),
        ({"isError": True}, None),
        ({"isError": True, "structuredContent": {"n": "3"}}, None),
    ],
)
async def test_a_result_has_to_fit_the_output_schema_of_its_tool(given, problem) -> None:
    async with tortured(publishing(NUMBER)) as (client, _):
        assert client.tools["give"].output_schema == NUMBER
        call = partial(client.call_tool, "give", {"content": BLOCKS, **given})
        if problem is None:
            assert (await call()).content
        else:
            with pytest.raises(InvalidResult, match=f"tool 'give': .*{problem}") as caught:
                await call()
            assert isinstance(caught.value, ProtocolError)


UNUSABLE = [
    {"type": "strin"},
    {"$ref": "https://127.0.0.1:9/x"},
    {"type": "object", "properties": [1]},
    {"type": "object", "required": 5},
    {"type": "object", "required": [{}]},
]


@pytest.mark.requirement("E4")
@pytest.mark.parametrize("schema", UNUSABLE)
async def test_an_input_schema_that_cannot_be_used_checks_nothing(schema, caplog) -> None:
    assert await RemoteTool("give", None, schema).check({"n": "3"}) is None
    assert "Tool give: arguments are not checked here: the schema " in caplog.text


@pytest.mark.requirement("E4")
@pytest.mark.parametrize("schema", [*UNUSABLE, [], 3])
async def test_an_output_schema_that_cannot_be_used_checks_nothing(schema) -> None:
    async with tortured(publishing(schema)) as (client, _):
        result = {"content": BLOCKS, "structuredContent": {"n": "3"}}
        assert (await client.call_tool("give", result)).structured_content == {"n": "3"}


@pytest.mark.requirement("E4")
@pytest.mark.parametrize("revision", list(BY_NAME))
async def test_what_our_servers_give_fits_what_they_publish(revision) -> None:
    registry = registry_of(echo, place, count, refuse)
    async with connect(registry, revision=revision) as client:
        assert (await client.call_tool("place", {"x": 1.5}, returns=Point)) == Point(1.5, 3.0)
        assert (await client.call_tool("count", returns=int)) == 3
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        assert (await client.call_tool("refuse")).error == "not like this"


@pytest.mark.requirement("E5")
async def test_of_what_a_server_agrees_to_tell_of_a_bounded_part_is_kept() -> None:
    stream = ChangeStream(["tools"], ["a:0"])
    stream.agree({"resourceSubscriptions": [f"a:{number}" for number in range(20_000)]})
    assert "a:0" in stream.uris
    assert len(stream.uris) == 10_000


@pytest.mark.requirement("E5")
def test_of_many_tools_that_are_left_out_a_few_are_named(caplog) -> None:
    table = ToolTable(5.0, 60.0, {})
    names = [f"t{number}" for number in range(25)]
    found = {name: RemoteTool(name, None, {}) for name in names}
    table.update(found, dict.fromkeys(names[1:], "no header"))
    assert list(table.tools) == ["t0"]
    told = [each.getMessage() for each in caplog.records]
    assert told[:-1] == [f"Tool t{number} is left out: no header" for number in range(1, 11)]
    assert told[-1] == "14 more tools are left out"


@pytest.mark.requirement("E4")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_without_a_list_has_nothing_in_it(era) -> None:
    registry = registry_of(echo)
    async with connect(registry, era=era) as client:
        assert await client.list_resources() == []
        assert await client.list_resource_templates() == []
        assert await client.list_prompts() == []
        with pytest.raises(McpError, match="resources/list handler not registered"):
            await client.list_all("resources/list", "resources")
        registry.add_resource("x://y", lambda: "x", name="late")
        assert [each.name for each in await client.list_resources()] == ["late"]


@pytest.mark.requirement("E4")
async def test_a_list_that_fails_is_not_empty() -> None:
    async def refuse(request: McpRequest, call_next: RequestNext) -> Any:
        if request.method == "prompts/list":
            raise McpError(-32603, "not now")
        return await call_next(request)

    async with connect(registry_of(echo, middleware=[refuse])) as client:
        with pytest.raises(McpError, match="not now"):
            await client.list_prompts()
