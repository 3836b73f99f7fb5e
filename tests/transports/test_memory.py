"""Registries in the same process: `handle_message`, `Embedded`, and a client beside it."""

import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field

from tests.peer.test_connection import Work
from tests.support import official
from tests.support.client import CLIENT_INFO, REVISIONS, modern_meta
from trio_mcp import Context, Limits, Registry, connect, handle_message
from trio_mcp.errors import NotConnected
from trio_mcp.peer import connection
from trio_mcp.peer.time_limits import TimeLimit
from trio_mcp.transports.memory import Embedded
from trio_mcp.transports.memory_connection import (
    MemoryConnection,
    MemoryLines,
    memory_lines_pair,
)
from trio_mcp.wire.answers import Result
from trio_mcp.wire.jsonrpc import Request, decode
from trio_mcp.wire.nested_arrays import MOST_ARRAYS


def request(method: str, params=None, id="q") -> bytes:
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return json.dumps(message if params is None else {**message, "params": params}).encode()


def call(name: str, id="q", **arguments) -> bytes:
    return request("tools/call", {"name": name, "arguments": arguments}, id)


@pytest.fixture
def registry() -> Registry:
    registry = Registry("embedded", version="1.0")

    @registry.tool
    async def add(a: float, b: float) -> float:
        return a + b

    @registry.tool
    async def sleep(seconds: float) -> str:
        await trio.sleep(seconds)
        return "slept"

    @registry.tool
    async def change(things: list[str]) -> list[str]:
        things.append("changed")
        return things

    return registry


@pytest.mark.requirement("D2")
@pytest.mark.parametrize("newline", [b"", b"\n"])
async def test_a_request_is_answered_with_one_message(registry, newline):
    answer = json.loads(await handle_message(registry, call("add", a=1, b=2) + newline))
    official.judge(answer, "2025-11-25", "tools/call")
    assert answer["id"] == "q"
    assert answer["result"]["content"] == [{"type": "text", "text": "3.0"}]


@pytest.mark.requirement("D2")
async def test_modern_requests_are_answered_too(registry):
    meta = {"_meta": modern_meta()}
    answer = json.loads(await handle_message(registry, request("server/discover", meta)))
    official.judge(answer, "2026-07-28", "server/discover")


@pytest.mark.requirement("D2")
@pytest.mark.parametrize(
    "message",
    [
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b"",
        b" \n",
    ],
)
async def test_what_wants_no_answer_gets_none(registry, message):
    assert await handle_message(registry, message) is None


@pytest.mark.requirement("D2")
@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"5", -32600),
        (b"[]", -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (request("no/such"), -32601),
        (request("shutdown"), -32601),
        (request("tools/call", {"name": "no"}), -32602),
    ],
)
async def test_bad_input_is_an_error(registry, message, code):
    answer = json.loads(await handle_message(registry, message))
    official.judge(answer, "2025-11-25")
    assert answer["error"]["code"] == code


@pytest.mark.requirement("D2")
async def test_a_batch_is_answered_with_a_batch(registry):
    batch = b"[" + call("add", 1, a=1, b=2) + b"," + request("ping", id=2) + b",7]"
    answers = json.loads(await handle_message(registry, batch))
    assert {each["id"] for each in answers} == {1, 2, ""}
    notification = b'[{"jsonrpc":"2.0","method":"notifications/initialized"}]'
    assert await handle_message(registry, notification) is None
    long = b"[" + b",".join([request("ping")] * 3) + b"]"
    answer = json.loads(await handle_message(registry, long, limits=Limits(max_batch=2)))
    assert answer["error"]["code"] == -32600


@pytest.mark.requirement("D2")
async def test_a_time_limit_holds(registry, autojump_clock):
    limits = Limits(tool_timeout=3)
    answer = json.loads(await handle_message(registry, call("sleep", seconds=9), limits=limits))
    assert trio.current_time() == pytest.approx(3)
    assert answer["result"]["isError"] is True


@pytest.mark.requirement("D2")
async def test_cancelling_the_host_cancels_the_call(registry, autojump_clock):
    with trio.move_on_after(1) as scope:
        await handle_message(registry, call("sleep", seconds=9))
    assert scope.cancelled_caught
    assert trio.current_time() == pytest.approx(1)


async def test_a_call_can_be_cancelled_by_a_message(registry, autojump_clock):
    embedded = Embedded(registry, Limits(max_concurrent_calls=1))
    answers = {}

    async def ask(id: str) -> None:
        answers[id] = await embedded.handle(call("sleep", id, seconds=9))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "runs")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, "waits")
        await trio.testing.wait_all_tasks_blocked()
        duplicate = json.loads(await embedded.handle(call("sleep", "runs", seconds=9)))
        assert duplicate["error"]["code"] == -32600
        for id in ("waits", "runs"):
            message = {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": id},
            }
            assert await embedded.handle(json.dumps(message).encode()) is None
    assert answers == {"runs": None, "waits": None}
    assert trio.current_time() == 0


async def test_concurrency_is_bounded(registry, autojump_clock):
    embedded = Embedded(registry, Limits(max_concurrent_calls=2))
    async with trio.open_nursery() as nursery:
        for id in range(6):
            nursery.start_soon(embedded.handle, call("sleep", id, seconds=1))
    assert trio.current_time() == pytest.approx(3)


@pytest.mark.requirement("D4")
@pytest.mark.parametrize("nothing", [None, {}, "registry", object()])
async def test_with_nothing_to_serve_there_is_no_server(nothing):
    with pytest.raises(TypeError, match="a Registry is needed"):
        Embedded(nothing)
    with pytest.raises(TypeError, match="a Registry is needed"):
        await handle_message(nothing, request("ping"))


@pytest.mark.requirement("D4")
async def test_the_registry_is_never_closed():
    events = []

    @asynccontextmanager
    async def lifespan(registry):
        events.append("open")
        yield "state"
        events.append("closed")

    registry = Registry("embedded", lifespan=lifespan)

    @registry.tool
    async def state(context: Context) -> str:
        return context.lifespan

    async with registry.running():
        for _ in range(2):
            answer = json.loads(await handle_message(registry, call("state")))
            assert answer["result"]["content"][0]["text"] == "state"
            async with connect(registry) as client:
                assert await client.call_tool("state", returns=str) == "state"
        assert events == ["open"]
    assert events == ["open", "closed"]


@pytest.mark.requirement("D1")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_client_and_a_server_in_one_process(registry, era):
    async with connect(registry, era=era) as client:
        assert client.era == era
        assert client.revision in REVISIONS
        assert list(client.tools) == ["add", "sleep", "change"]
        assert await client.call_tool("add", {"a": 1, "b": 2}, returns=float) == 3
        assert client.server_info.name == "embedded"


@pytest.mark.requirement("D1")
async def test_neither_side_can_change_what_the_other_holds(registry):
    things = ["mine"]
    async with connect(registry) as client:
        result = await client.call_tool("change", {"things": things}, returns=list[str])
        assert (things, result) == (["mine"], ["mine", "changed"])
        client.tools["add"].input_schema.clear()
        await client.refresh_tools()
        assert client.tools["add"].input_schema["required"] == ["a", "b"]


@pytest.mark.requirement("D1")
async def test_the_shorter_of_two_time_limits_counts(registry, autojump_clock):
    async with connect(registry, tool_timeout=2, limits=Limits(tool_timeout=5)) as client:
        with pytest.raises(TimeoutError, match="no answer within 2 s"):
            await client.call_tool("sleep", {"seconds": 9})
        assert trio.current_time() == pytest.approx(2)
        result = await client.call_tool("sleep", {"seconds": 9}, timeout=30)
        assert trio.current_time() == pytest.approx(7)
        assert "timed out after 5 s" in result.error


async def test_the_client_introduces_itself(registry):
    @registry.tool
    async def who(context: Context) -> str:
        return context.client.name

    async with connect(registry) as client:
        assert await client.call_tool("who", returns=str) == "trio-mcp" != CLIENT_INFO["name"]


@pytest.mark.requirement("D1")
async def test_a_call_that_waits_for_a_slot_keeps_its_deadline(registry, autojump_clock):
    async with connect(registry, limits=Limits(max_concurrent_calls=1)) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(client.call_tool, "sleep", {"seconds": 9}, timeout=30))
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(TimeoutError):
                await client.call_tool("sleep", {"seconds": 1}, timeout=2)
            assert trio.current_time() == pytest.approx(2)
        assert trio.current_time() == pytest.approx(9)


@pytest.mark.requirement("D1")
@pytest.mark.parametrize("slots", [1, 9])
async def test_no_call_outlives_the_block(registry, autojump_clock, slots):
    woken = []

    async def sleep(client) -> None:
        with pytest.raises(NotConnected, match="block"):
            await client.call_tool("sleep", {"seconds": 50}, timeout=99)
        woken.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        async with connect(registry, limits=Limits(max_concurrent_calls=slots)) as client:
            for _ in range(3):
                nursery.start_soon(sleep, client)
            await trio.testing.wait_all_tasks_blocked()
    assert woken == [0, 0, 0]
    with pytest.raises(NotConnected):
        await client.call_tool("add", {"a": 1, "b": 1})


@pytest.mark.requirement("D1")
async def test_a_call_is_a_checkpoint_although_its_tool_has_none(registry):
    async with connect(registry) as client:
        with trio.testing.assert_checkpoints():
            await client.call_tool("add", {"a": 1, "b": 2})
        with trio.move_on_after(0) as scope:
            while True:
                await client.call_tool("add", {"a": 1, "b": 2})
        assert scope.cancelled_caught


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The lines that are sent in memory, by whoever connects after this."""
    lines: list[bytes] = []
    send, send_nowait = MemoryLines.send, MemoryLines.send_nowait

    async def watch(way: MemoryLines, some: list[bytes]) -> None:
        lines.extend(some)
        await send(way, some)

    def watch_nowait(way: MemoryLines, line: bytes) -> int:
        size = send_nowait(way, line)
        lines.extend([line] if size else [])
        return size

    monkeypatch.setattr(MemoryLines, "send", watch)
    monkeypatch.setattr(MemoryLines, "send_nowait", watch_nowait)
    return lines


@pytest.mark.requirement("D1")
async def test_what_needs_no_waiting_becomes_no_line(registry, sent):
    async with connect(registry) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
        sent.clear()
        assert await client.call_tool("add", {"a": 1, "b": 2}, returns=float) == 3
        result = await client.call_tool("sleep", {"seconds": 0})
        assert result.text == "slept"
        await client.call_tool("change", {"things": ["x" * 5_000]})
        assert not sent


@pytest.mark.requirement("D1")
async def test_what_would_take_long_to_copy_becomes_a_line(registry, sent):
    async with connect(registry) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
        sent.clear()
        await client.call_tool("change", {"things": ["x" * 20_000]})
        assert len(sent) == 2  # the request and its answer


NESTED: Any = 0
for _ in range(MOST_ARRAYS + 1):
    NESTED = [NESTED]


@pytest.mark.requirement("D1")
@pytest.mark.parametrize(
    "value",
    [1, None, [None, "null"], 2**70, 1e300, {"text": "\u20ac\n", "deep": [[{}]]}, "x" * 100_000],
    ids=lambda value: str(value)[:9],
)
async def test_values_arrive_as_over_any_other_transport(value):
    registry = Registry("echo")

    @registry.tool
    async def echo(value: Any) -> dict[str, Any]:
        return {"value": value}

    async with connect(registry) as client:
        result = await client.call_tool("echo", {"value": value})
        assert result.structured_content == {"value": value}
        for unsendable in (float("nan"), b"bytes", {1: 2}, NESTED):
            with pytest.raises(TypeError):
                await client.request("tools/call", {"name": "echo", "value": unsendable})
            with pytest.raises(TypeError):
                await client.call_tool("echo", {"value": "a text"}, meta={"value": unsendable})


@pytest.mark.requirement("D1")
async def test_a_result_that_its_tool_keeps_is_the_tools_own():
    registry, kept = Registry("kept"), {"things": ["mine"]}

    @registry.tool
    async def things() -> dict[str, Any]:
        return kept

    async with connect(registry) as client:
        result = await client.call_tool("things")
        result.structured_content["things"].append("changed")
        kept["things"].append("more")
        assert result.structured_content == {"things": ["mine", "changed"]}
        assert kept == {"things": ["mine", "more"]}


@pytest.mark.requirement("D1")
async def test_a_listener_is_shown_each_line(registry):
    async with connect(registry) as client:
        lines = client.messages()
        for number in (1, 2):
            await client.call_tool("add", {"a": number, "b": 0})
            line = json.loads(await anext(lines))
            assert line["result"]["structuredContent"] == number
        del lines
        await client.call_tool("add", {"a": 3, "b": 0})


@pytest.mark.requirement("D1")
async def test_a_result_does_not_overtake_what_was_said_before():
    registry, heard = Registry("talkative"), []

    @registry.tool
    async def talk(context: Context) -> str:
        for number in range(3):
            await context.progress(number)
        return "done"

    async with connect(registry) as client:

        async def call(index: int) -> None:
            own: list[float] = []
            await client.call_tool("talk", on_progress=lambda done, *_: own.append(done))
            heard.append(own)

        async with trio.open_nursery() as nursery:
            for index in range(20):
                nursery.start_soon(call, index)
    assert heard == [[0, 1, 2]] * 20


@pytest.mark.requirement("D1", "L5")
async def test_no_code_of_the_server_sees_the_callers_context_variables():
    whose: ContextVar[str] = ContextVar("whose", default="server")
    seen = []

    def is_visible(*_: object) -> bool:
        seen.append(whose.get())
        return True

    registry = Registry("private", visible=is_visible)

    @registry.tool
    async def look() -> str:
        seen.append(whose.get())
        return "looked"

    async with connect(registry) as client:
        whose.set("client")
        del seen[:]
        await client.call_tool("look")
    assert len(seen) > 1
    assert set(seen) == {"server"}


@pytest.mark.requirement("D1", "L1")
async def test_a_call_from_another_thread_is_refused_before_it_is_sent(registry):
    called = []

    @registry.tool
    async def note() -> None:
        called.append("note")

    async with connect(registry) as client:
        await client.call_tool("note")
        with pytest.raises(RuntimeError, match="this client runs on Trio"):
            await trio.to_thread.run_sync(lambda: client.call_tool("note").send(None))
        await client.call_tool("note")
    assert called == ["note", "note"]


@define(slots=False)
class Side:
    """What one side of a connection in memory does with what it is asked."""

    seen: list[int] = field(factory=list)
    seconds: float = 0
    """How long a call lasts; without that it is answered at once."""
    hear: Callable[[], object] = lambda: None
    """Called for each call."""

    def begin(self, request: Request, in_batch: bool) -> Any:
        self.seen.append(request.params["number"])
        self.hear()
        return Work(request.id, self.seconds) if self.seconds else Result({})


class Pair:
    """Both sides of a connection in memory, without anything around them."""

    def __init__(self, **limits: Any) -> None:
        ours, theirs = memory_lines_pair()
        self.side = Side()
        self.client = MemoryConnection(ours, Side(), Limits())
        self.server = MemoryConnection(theirs, self.side, Limits(**limits))
        self.ended: list[int] = []

    def ask(self, number: int, **more: Any) -> object:
        limit = TimeLimit(trio.current_time() + 100)
        params = {"number": number, **more}
        return self.client.requests.begin(
            "ask", params, limit, lambda _: self.ended.append(number), None
        )

    async def run(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self.client.run)
        nursery.start_soon(self.server.run)
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.requirement("D1")
async def test_nothing_overtakes_a_line_that_is_not_read_yet(nursery):
    pair = Pair()
    await pair.run(nursery)
    pair.ask(1, null=None)  # which has to be a line
    pair.ask(2)
    assert not pair.side.seen
    await trio.testing.wait_all_tasks_blocked()
    assert pair.side.seen == pair.ended == [1, 2]
    pair.ask(3)
    assert pair.side.seen == [1, 2, 3]
    nursery.cancel_scope.cancel()


@pytest.mark.requirement("D1")
async def test_nothing_overtakes_a_line_that_is_being_decoded(nursery, monkeypatch):
    pair, go_on = Pair(), trio.Event()
    await pair.run(nursery)

    async def slowly(frame: bytes, limits: Limits) -> Any:
        await go_on.wait()
        return decode(frame)

    monkeypatch.setattr(connection, "decoded", slowly)
    pair.ask(1, rows=[{"id": 1}] * 10_000)
    await trio.testing.wait_all_tasks_blocked()
    pair.ask(2)
    assert not pair.side.seen
    go_on.set()
    await trio.testing.wait_all_tasks_blocked()
    assert pair.side.seen == pair.ended == [1, 2]
    nursery.cancel_scope.cancel()


@pytest.mark.requirement("D1")
async def test_nothing_is_taken_by_a_side_that_does_not_run(nursery):
    pair = Pair()
    pair.ask(1)
    assert not pair.side.seen
    await pair.run(nursery)
    assert pair.side.seen == pair.ended == [1]
    pair.client.stop()
    assert pair.server.is_ready
    assert pair.ask(2) is None
    pair.server.stop()
    assert not pair.server.is_ready
    nursery.cancel_scope.cancel()


@pytest.mark.requirement("D1")
async def test_what_is_asked_while_a_side_is_asked_has_to_wait(nursery):
    """Servers that lead to one another in a ring would go on until the stack is full."""
    pair = Pair()
    await pair.run(nursery)
    pair.side.hear = lambda: pair.side.seen == [1] and pair.ask(2)
    pair.ask(1)
    assert pair.side.seen == [1]
    await trio.testing.wait_all_tasks_blocked()
    assert pair.side.seen == pair.ended == [1, 2]
    nursery.cancel_scope.cancel()


@pytest.mark.requirement("D1", "B2")
async def test_no_more_answers_wait_in_memory_than_may(nursery):
    pair = Pair(max_outgoing_bytes=1000)
    await pair.run(nursery)
    for number in range(200):
        pair.ask(number)
    assert len(pair.side.seen) < 100
    await trio.testing.wait_all_tasks_blocked()
    assert pair.ended == list(range(200))
    nursery.cancel_scope.cancel()


@pytest.mark.requirement("D1", "B2")
async def test_no_more_calls_wait_in_memory_than_may(nursery, autojump_clock):
    pair = Pair(max_concurrent_calls=1, max_waiting_bytes=10_000)
    pair.side.seconds = 1
    await pair.run(nursery)
    for number in range(20):
        pair.ask(number, text="x" * 5000)
        await trio.testing.wait_all_tasks_blocked()
    assert len(pair.side.seen) <= 4
    await trio.sleep(30)
    assert pair.ended == list(range(20))
    nursery.cancel_scope.cancel()


@pytest.mark.requirement("D1")
async def test_integers_of_any_size_survive(registry):
    @registry.tool
    async def double(number: int) -> dict[str, int]:
        return {"double": number * 2}

    async with connect(registry) as client:
        result = await client.call_tool("double", {"number": 2**70})
        assert result.structured_content == {"double": 2**71}


async def test_a_server_that_reads_no_more_holds_up_no_client_that_leaves(registry, autojump_clock):
    """As many calls wait as may, so what it would read next is left: that its client is gone."""
    limits = Limits(max_concurrent_calls=1, max_waiting_bytes=0, tool_timeout=1000)
    async with connect(registry, limits=limits, tool_timeout=1000) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(client.call_tool, "sleep", {"seconds": 900})
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        left = trio.current_time()
    assert trio.current_time() - left < 5
