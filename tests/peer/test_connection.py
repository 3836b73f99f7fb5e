"""A connection with a handler that is not a server: it knows nothing of MCP."""

import json
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from trio_mcp import Limits
from trio_mcp.peer.connection import Connection
from trio_mcp.peer.inbound import Cause, InboundRequest, Slots
from trio_mcp.peer.lines import StreamLines
from trio_mcp.peer.outbound import DeadlinePassed
from trio_mcp.transports.memory_connection import memory_lines_pair
from trio_mcp.wire.answers import Result
from trio_mcp.wire.jsonrpc import result_line


@define(eq=False)
class Work(InboundRequest):
    """A call that lasts some seconds, and more once it is cancelled."""

    id: int
    seconds: float
    stubborn: float = 0
    timeout: float = 10
    long_lived = False

    @property
    def label(self) -> str:
        return f"work {self.id}"

    async def run(self, scope):
        with scope:
            try:
                await trio.sleep(self.seconds)
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(self.stubborn)
        return self.unfinished() if scope.cancelled_caught else self.line("done")

    def unfinished(self):
        cause = self.cause
        return None if cause is Cause.PEER else self.line(cause.value if cause else "late")

    def line(self, result):
        return Result(result)


@define(slots=False)
class Toy:
    """Answers `now` at once; anything else becomes work."""

    seen: list = field(factory=list)

    def begin(self, request, in_batch):
        self.seen.append((request.method, in_batch))
        if request.method == "now":
            return Result("now")
        return Work(request.id, **request.params)

    def notified(self, notification) -> None:
        self.seen.append(notification.method)


class Wire:
    """The other side of a connection."""

    def __init__(self, **limits) -> None:
        self.stream, theirs = memory_stream_pair()
        self.toy = Toy()
        self.stuck: list[list[str]] = []
        self.drained = 0
        self.connection = Connection(
            StreamLines(theirs, 10_000),
            self.toy,
            Limits(**limits),
            on_drain=self.on_drain,
            on_stuck=self.stuck.append,
        )

    def on_drain(self) -> None:
        self.drained += 1

    async def send(self, method: str, id: int | None = None, **params) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if id is not None:
            message["id"] = id
        await self.stream.send_all(json.dumps(message).encode() + b"\n")

    async def eof(self) -> None:
        await self.stream.send_stream.aclose()


@pytest.fixture
def wire():
    return Wire()


async def received(wire: Wire, seconds: float) -> dict:
    """What arrives within some seconds."""
    data = b""
    with trio.move_on_after(seconds):
        while chunk := await wire.stream.receive_some():
            data += chunk
    messages = list(map(json.loads, data.splitlines()))
    found = {each["id"]: each.get("result", each.get("error")) for each in messages}
    assert len(found) == len(messages)
    return found


@pytest.mark.requirement("B2")
async def test_what_can_be_answered_at_once_is_answered_in_order(wire, nursery, autojump_clock):
    nursery.start_soon(wire.connection.run)
    await wire.send("work", 1, seconds=1)
    await wire.send("now", 2)
    await wire.send("note")
    await wire.send("now", 3)
    found = await received(wire, 5)
    assert list(found.items()) == [(2, "now"), (3, "now"), (1, "done")]
    assert wire.toy.seen == [("work", False), ("now", False), "note", ("now", False)]
    await wire.eof()


@pytest.mark.requirement("B2")
async def test_what_comes_later_does_not_overtake_what_has_to_wait(nursery, autojump_clock):
    wire = Wire(max_concurrent_calls=1, max_waiting_bytes=1)
    nursery.start_soon(wire.connection.run)
    await wire.send("work", 1, seconds=1)
    await wire.send("work", 2, seconds=1)  # waits for a slot, and what follows for that
    await wire.send("now", 3)
    await wait_all_tasks_blocked()
    await wire.send("now", 4)
    assert list(await received(wire, 5)) == [1, 3, 4, 2]
    await wire.eof()


@pytest.mark.requirement("B7")
async def test_the_first_cause_counts(wire, nursery, autojump_clock):
    """Cancelled by the peer, a call is not answered at the end either."""
    nursery.start_soon(wire.connection.run)
    await wire.send("work", 1, seconds=9, stubborn=0.2)
    await wire.send("work", 2, seconds=9)
    await wire.send("notifications/cancelled", requestId=1)
    await wire.eof()
    assert await received(wire, 5) == {2: "shutdown"}


@pytest.mark.requirement("B8")
async def test_calls_that_ignore_their_cancellation_are_reported_last(nursery, autojump_clock):
    wire = Wire(cancel_timeout=1, eof_grace=0.5)
    nursery.start_soon(wire.connection.run)
    await wire.send("work", 1, seconds=9, stubborn=100)
    await wire.send("work", 2, seconds=0.1)
    await wire.send("work", 3, seconds=9)
    await wire.eof()
    assert await received(wire, 1.4) == {2: "done", 3: "shutdown"}
    assert wire.stuck == []
    assert await received(wire, 0.2) == {1: "shutdown"}
    await trio.sleep(2)
    assert wire.stuck == [["work 1"]]
    await trio.sleep(200)
    assert wire.stuck == [["work 1"]]


@pytest.mark.requirement("B8")
async def test_nobody_is_stuck_where_all_end(wire, nursery, autojump_clock):
    nursery.start_soon(wire.connection.run)
    await wire.send("work", 1, seconds=9, stubborn=0.9)
    await wire.eof()
    assert await received(wire, 5) == {1: "shutdown"}
    assert wire.stuck == []
    assert wire.drained == 1


@pytest.mark.requirement("B8")
async def test_cancelled_it_gives_back_the_slots_of_calls_that_have_not_begun():
    stream, theirs = memory_stream_pair()
    shared = Slots(100)
    connection = Connection(StreamLines(theirs, 10_000), Toy(), Limits(), shared_slots=shared)
    work = {"jsonrpc": "2.0", "method": "work", "params": {"seconds": 9}}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        lines = [json.dumps({**work, "id": id}).encode() + b"\n" for id in range(50)]
        await stream.send_all(b"".join(lines))
        while shared.free == 100:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert shared.free == 100


@pytest.mark.requirement("B9")
@pytest.mark.parametrize("how", ["end of input", "stop"])
async def test_it_ends_though_answers_to_what_it_cancels_are_not_read(how, autojump_clock):
    stream, theirs = lockstep_stream_pair()  # where nothing is sent until it is read
    limits = Limits(max_outgoing_bytes=1)
    connection = Connection(StreamLines(theirs, 10_000), Toy(), limits)
    longest = limits.shutdown_grace + limits.cancel_timeout + limits.flush_timeout
    with trio.fail_after(longest):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            for method, params in (("work", {"seconds": 99, "timeout": 99}), ("now", {})):
                message = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
                await stream.send_all(json.dumps(message).encode() + b"\n")
            if how == "stop":
                connection.stop()
            else:
                await stream.send_stream.aclose()


@pytest.mark.requirement("B9")
async def test_stop_counts_once(wire, nursery, autojump_clock):
    nursery.start_soon(wire.connection.run)
    await wire.send("work", 1, seconds=2)
    await wait_all_tasks_blocked()
    for _ in range(3):
        wire.connection.stop()
    await wait_all_tasks_blocked()
    wire.connection.stop()
    assert await received(wire, 5) == {1: "done"}
    assert wire.drained == 1


@pytest.mark.requirement("B1")
async def test_overdue_work_is_answered_once(nursery, autojump_clock):
    wire = Wire(cancel_timeout=1)
    nursery.start_soon(wire.connection.run)
    await wire.send("work", 1, seconds=50, stubborn=30, timeout=2)
    await wire.send("work", 2, seconds=50, stubborn=30, timeout=4)
    assert await received(wire, 2.9) == {}
    assert await received(wire, 0.2) == {1: "late"}
    assert await received(wire, 1.8) == {}
    assert await received(wire, 0.2) == {2: "late"}
    assert await received(wire, 100) == {}
    await wire.eof()


@pytest.mark.requirement("B2")
async def test_overdue_work_keeps_its_slot(nursery, autojump_clock):
    """It still runs; the bound is a bound of what runs."""
    wire = Wire(cancel_timeout=1, max_concurrent_calls=1)
    nursery.start_soon(wire.connection.run)
    await wire.send("work", 1, seconds=50, stubborn=30, timeout=2)
    await wire.send("work", 2, seconds=1)
    assert await received(wire, 31) == {1: "late"}
    assert await received(wire, 5) == {2: "done"}
    await wire.eof()


async def test_a_connection_leaves_nothing_behind(wire, autojump_clock):
    before = trio.lowlevel.current_statistics().tasks_living
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.connection.run)
        for id in range(10):
            await wire.send("work", id, seconds=id)
        await trio.sleep(3.5)
        assert trio.lowlevel.current_statistics().tasks_living > before + 6
        await wire.eof()
    assert trio.lowlevel.current_statistics().tasks_living == before
    assert len(await received(wire, 1)) == 10


async def test_an_error_of_the_handler_is_not_hidden(wire, autojump_clock):
    """The handler answers for what it raises; the connection does not guess."""
    wire.toy.begin = None
    await wire.send("now", 1)
    with pytest.raises(BaseExceptionGroup) as caught:
        await wire.connection.run()
    assert caught.group_contains(TypeError)


async def test_who_is_answered_goes_on_while_other_answers_are_read(nursery, autojump_clock):
    """Or both sides would take turns: the one idle for as long as the other works."""
    ours, theirs = memory_lines_pair()
    writes: list[int] = []
    connection = Connection(ours, Toy(), Limits())
    nursery.start_soon(connection.run)

    async def ask_twice() -> None:
        for _ in range(2):
            await connection.send_request("question", {}, trio.current_time() + 10)

    for _ in range(100):
        nursery.start_soon(ask_twice)
    asked = []
    while len(asked) < 100:
        asked += [json.loads(line)["id"] for line in await theirs.receive()]
    await theirs.send([result_line(id, {}) for id in asked])
    while sum(writes) < 100:
        writes.append(len(await theirs.receive()))
    assert writes[0] < 100  # how many share a write depends on the order in which tasks have turns
    nursery.cancel_scope.cancel()


def writing_at_once(
    nursery: trio.Nursery,
) -> tuple[trio.StapledStream[Any, Any], Connection, list[bytes]]:
    """Run a connection that can send without waiting; its other end, and what was sent so."""
    stream, theirs = memory_stream_pair()
    at_once: list[bytes] = []
    connection = Connection(
        StreamLines(theirs, 10_000),
        Toy(),
        Limits(),
        send_nowait=lambda line: at_once.append(line) or len(line),
    )
    nursery.start_soon(connection.run)
    return stream, connection, at_once


async def test_a_lone_answer_needs_no_writer_and_others_share_a_write(nursery, autojump_clock):
    stream, connection, at_once = writing_at_once(nursery)
    await stream.send_all(_work(1, 1))
    await trio.sleep(2)
    assert [json.loads(line)["id"] for line in at_once] == [1]
    await stream.send_all(_work(2, 1) + _work(3, 1))
    data = await stream.receive_some()
    assert {json.loads(line)["id"] for line in data.splitlines()} == {2, 3}
    assert len(at_once) == 1
    connection.stop()


async def test_neither_does_a_lone_request_of_ours(nursery):
    stream, connection, at_once = writing_at_once(nursery)
    for _ in range(3):
        nursery.start_soon(connection.send_request, "question", {}, trio.current_time() + 10)
    await wait_all_tasks_blocked()
    data = await stream.receive_some()
    assert [json.loads(line)["id"] for line in at_once] == [1]
    assert [json.loads(line)["id"] for line in data.splitlines()] == [2, 3]
    nursery.cancel_scope.cancel()


async def test_a_request_of_ours_that_is_not_answered_in_time_is_withdrawn(nursery, autojump_clock):
    stream, connection, at_once = writing_at_once(nursery)
    with pytest.raises(DeadlinePassed):
        await connection.send_request("question", {}, trio.current_time() + 10)
    with trio.fail_after(10):
        asked, told = json.loads(at_once[0]), json.loads(await stream.receive_some())
    assert told["method"] == "notifications/cancelled"
    assert told["params"]["requestId"] == asked["id"]
    nursery.cancel_scope.cancel()


async def test_in_memory_it_is_sent_at_once_if_the_last_lines_were_taken():
    ours, theirs = memory_lines_pair()
    assert ours.send_nowait(b"one\n") == 4
    assert ours.send_nowait(b"two\n") == 0
    assert await theirs.receive() == [b"one"]
    assert ours.send_nowait(b"two\n") == 4
    with theirs:
        pass
    assert ours.send_nowait(b"three\n") == 0
    with ours:
        pass
    assert ours.send_nowait(b"four\n") == 0


def _work(id: int, seconds: float) -> bytes:
    message = {"jsonrpc": "2.0", "id": id, "method": "work", "params": {"seconds": seconds}}
    return json.dumps(message).encode() + b"\n"
