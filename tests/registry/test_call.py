"""`Registry.call`: a tool without a server around it (B12)."""

import threading
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from tests.support.tools import echo, registry_of, returning, wait
from trio_mcp import Context, Limits, McpError, Registry, ToolError
from trio_mcp.wire.content import CallToolResult, TextContent

pytestmark = pytest.mark.requirement("B12")


@attrs.define
class Point:
    x: int
    y: int = 0


async def test_it_returns_what_the_function_returned():
    value = object()
    assert await returning(value).call("give") is value
    assert await registry_of(echo).call("echo", {"text": "x"}) == "x"


async def test_arguments_become_what_the_annotations_say():
    async def move(point: Point, *, by: list[int]) -> Point:
        assert isinstance(point, Point)
        return Point(point.x + by[0], point.y + by[1])

    found = await registry_of(move).call("move", {"point": {"x": 1}, "by": [2, 3]})
    assert found == Point(3, 3)


async def test_the_arguments_given_are_left_alone():
    async def spoil(numbers: list[int]) -> None:
        numbers.append(4)

    arguments = {"numbers": [1, 2, 3]}
    await registry_of(spoil).call("spoil", arguments)
    assert list(arguments) == ["numbers"]


@pytest.mark.requirement("B4", "A12")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (None, ["echo", "text"]),
        ({}, ["echo", "text"]),
        ({"text": 5}, ["echo", "text", "string", "number"]),
        ({"text": "x", "other": 1}, ["echo", "other"]),
    ],
)
async def test_arguments_that_do_not_fit(arguments, words):
    with pytest.raises(McpError) as caught:
        await registry_of(echo).call("echo", arguments)
    assert caught.value.code == -32602
    for word in words:
        assert word in caught.value.message


async def test_an_unknown_tool():
    with pytest.raises(McpError, match="Unknown tool: ehco") as caught:
        await registry_of(echo).call("ehco", {"text": "x"})
    assert caught.value.code == -32602
    assert caught.value.data == {"tool": "ehco", "didYouMean": "echo"}


@pytest.mark.parametrize(
    "error", [ValueError("x"), ToolError("x"), McpError(-5, "x"), SystemExit(3)]
)
async def test_exceptions_come_as_they_are(error):
    with pytest.raises(type(error)) as caught:
        await returning(error).call("give")
    assert caught.value is error


@pytest.mark.requirement("B1")
@pytest.mark.parametrize(
    ("limits", "registry_timeout", "tool_timeout", "expected"),
    [
        (None, None, None, 60),
        (Limits(tool_timeout=30), None, None, 30),
        (Limits(tool_timeout=30), 20, None, 20),
        (Limits(tool_timeout=30), 20, 90, 90),
    ],
)
async def test_the_time_limit(limits, registry_timeout, tool_timeout, expected, autojump_clock):
    registry = Registry("test", tool_timeout=registry_timeout)
    registry.add_tool(wait, timeout=tool_timeout)
    assert await registry.call("wait", {"seconds": expected - 0.1}, limits=limits)
    start = trio.current_time()
    with pytest.raises(trio.TooSlowError):
        await registry.call("wait", {"seconds": 1000}, limits=limits)
    assert trio.current_time() - start == pytest.approx(expected)


@pytest.mark.requirement("B3")
async def test_a_stuck_thread_is_left_behind(autojump_clock):
    release = threading.Event()

    def stuck() -> None:
        release.wait()

    try:
        with pytest.raises(trio.TooSlowError):
            await registry_of(stuck, tool_timeout=5).call("stuck")
    finally:
        release.set()


@pytest.mark.requirement("B5")
@pytest.mark.parametrize("value", [{}, {"sum": "3"}, 3, None, CallToolResult([])])
async def test_the_output_is_checked(value):
    registry = Registry("test")
    schema = {
        "type": "object",
        "properties": {"sum": {"type": "integer"}},
        "required": ["sum"],
    }

    @registry.tool(output_schema=schema)
    async def give():
        return value

    with pytest.raises(McpError, match="Invalid handler result") as caught:
        await registry.call("give")
    assert caught.value.code == -32603
    value = {"sum": 3}
    assert await registry.call("give") == {"sum": 3}


async def test_a_result_that_is_an_error_needs_no_structure():
    """The output schema speaks of success, here as on the wire."""
    registry = Registry("test")
    failure = CallToolResult([TextContent("no")], is_error=True)

    @registry.tool(output_schema={"type": "object", "required": ["sum"]})
    async def give():
        return failure

    assert await registry.call("give") is failure


async def test_the_context_of_a_direct_call():
    async def look(context: Context) -> object:
        return context

    context = await registry_of(look).call("look")
    assert context == Context(tool="look")


@pytest.mark.requirement("B13")
async def test_a_direct_call_opens_the_lifespan_unless_it_is_open():
    events = []

    @asynccontextmanager
    async def lifespan(registry):
        events.append("open")
        yield "state"
        events.append("close")

    async def look(context: Context) -> str:
        return context.lifespan

    registry = registry_of(look, lifespan=lifespan)
    assert await registry.call("look") == "state"
    assert events == ["open", "close"]
    async with registry.running():
        assert await registry.call("look") == "state"
        assert await registry.call("look") == "state"
    assert events == ["open", "close"] * 2


async def test_cancellation_passes_through(autojump_clock):
    with trio.move_on_after(3) as scope:
        await registry_of(wait).call("wait", {"seconds": 50})
    assert scope.cancelled_caught
    assert trio.current_time() == 3


@pytest.mark.requirement("B12")
async def test_large_arguments_and_a_large_result_of_one_call() -> None:
    """Both are looked at in a thread."""
    registry = Registry("test")

    @registry.tool
    async def double(numbers: list[float]) -> list[float]:
        return [2 * number for number in numbers]

    doubled = await registry.call("double", {"numbers": [1.5] * 10_000})
    assert doubled == [3.0] * 10_000
