"""Calls in their cancel scopes: slots, deadlines, and calls that do not end."""

import logging

import pytest
import trio
from attrs import define
from trio.testing import wait_all_tasks_blocked

from trio_mcp.peer.channel import ReplyChannel
from trio_mcp.peer.inbound import Cause, Inbound, InboundRequest, Slots
from trio_mcp.peer.runner import Runner
from trio_mcp.wire.answers import RawResult, Result
from trio_mcp.wire.jsonrpc import Notification, Request

pytestmark = pytest.mark.requirement("B1", "B2", "B7")

PATIENCE = 1


@define(eq=False)
class Work(InboundRequest):
    """A call that lasts some seconds, and more once it is cancelled."""

    id: int
    seconds: float = 1
    stubborn: float = 0
    timeout: float = 10
    done: object = b"done"
    long_lived: bool = False

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
        return self.unfinished() if scope.cancelled_caught else self.done

    def unfinished(self):
        return self.cause.value.encode() if self.cause else b"late"


class Channel(ReplyChannel):
    """Notes when each response was sent; sends nothing while it is blocked."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, bytes | None, bool]] = []
        self.room = trio.Event()
        self.room.set()

    async def respond(self, id, reply, *, overdue=False) -> None:
        await self.room.wait()
        self.sent.append((trio.current_time(), reply, overdue))


class Desk:
    """A runner, the requests of one peer, and a task for each."""

    def __init__(self, nursery, slots: int = 10) -> None:
        self.nursery = nursery
        self.runner = Runner(PATIENCE)
        self.inbound = Inbound(self, Slots(slots))
        self.channel = Channel()
        nursery.start_soon(self.runner.watch)

    takes_batches = True

    def begin(self, request, in_batch):
        return Work(request.id, **request.params)

    def notified(self, notification) -> None:
        raise AssertionError

    def malformed(self, message, line):
        raise AssertionError

    def start(self, id: int, **params):
        request = self.inbound.admit(Request(id, "work", params), self.channel)
        self.nursery.start_soon(self.runner.run, request)
        return request

    def cancel(self, id: int) -> None:
        self.inbound.note(Notification("notifications/cancelled", {"requestId": id}))

    @property
    def sent(self) -> list[tuple[float, bytes | None]]:
        return [(when, line) for when, line, _ in self.channel.sent]


@pytest.fixture
def desk(nursery):
    return Desk(nursery)


async def test_a_call_runs_and_is_answered(desk, autojump_clock):
    desk.start(1, seconds=2)
    await trio.sleep(5)
    assert desk.sent == [(2, b"done")]
    assert len(desk.inbound) == 0


@pytest.mark.parametrize("kind", [Result, RawResult])
async def test_a_large_result_is_encoded_before_it_is_sent(desk, kind):
    large = kind({"value": [None] * 10_000}, is_large=True)
    desk.start(1, seconds=0, done=large)
    with trio.fail_after(5):
        while desk.inbound:
            await trio.sleep(0.01)
    [(_, sent)] = desk.sent
    assert sent is large
    large.members = {}
    assert len(large.line(1)) > 10_000


async def test_calls_wait_for_slots_and_their_deadline_with_them(nursery, autojump_clock):
    desk = Desk(nursery, slots=1)
    for id in range(3):
        desk.start(id, seconds=4, timeout=5)
    await trio.sleep(20)
    assert desk.sent == [(4, b"done"), (8, b"done"), (12, b"done")]


async def test_a_deadline_ends_a_call(desk, autojump_clock):
    desk.start(1, seconds=50, timeout=3)
    await trio.sleep(20)
    assert desk.sent == [(3, b"late")]


@pytest.mark.parametrize(("cancelled", "expected"), [(False, (4, b"late")), (True, (2, None))])
async def test_a_call_that_goes_on_is_answered_once(
    cancelled, expected, desk, caplog, autojump_clock
):
    request = desk.start(1, seconds=50, stubborn=30, timeout=3)
    await trio.sleep(1)
    if cancelled:
        desk.cancel(1)
    await trio.sleep(20)
    assert desk.channel.sent == [(*expected, True)]
    assert (len(desk.inbound), request.has_slots) == (1, True)
    assert caplog.messages == ([] if cancelled else ["work 1 goes on after its time limit"])
    await trio.sleep(20)
    assert len(desk.channel.sent) == 1
    assert len(desk.inbound) == 0


async def test_a_deadline_that_was_moved(desk, autojump_clock):
    request = desk.start(1, seconds=50, stubborn=30, timeout=3)
    await trio.sleep(1)
    request.move_deadline(8)
    await trio.sleep(20)
    assert desk.sent == [(9, b"late")]


async def test_no_deadline_of_the_watch_comes_before_those_of_short_calls(desk, autojump_clock):
    # Trio would keep the scopes of all calls that have ended since.
    for id in range(100):
        desk.start(id, seconds=0.1, timeout=10)
        await trio.sleep(0.2)
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline > 10 - 0.2
    assert len(desk.sent) == 100


async def test_a_call_that_goes_on_beside_short_ones_is_answered_in_time(desk, autojump_clock):
    desk.start(0, seconds=50, stubborn=30, timeout=3)
    for id in range(1, 30):
        desk.start(id, seconds=0.1, timeout=10)
        await trio.sleep(0.2)
    assert (4, b"late", True) in desk.channel.sent


async def test_calls_that_go_on_are_each_answered_in_time(desk, autojump_clock):
    for id, timeout in ((1, 3), (2, 8)):
        desk.start(id, seconds=50, stubborn=30, timeout=timeout)
    await trio.sleep(20)
    assert desk.channel.sent == [(4, b"late", True), (9, b"late", True)]


async def test_a_response_that_waits_for_room_is_not_overdue(desk, caplog, autojump_clock):
    caplog.set_level(logging.ERROR)
    desk.channel.room = trio.Event()
    desk.start(1, seconds=1, timeout=3)
    await trio.sleep(50)
    assert caplog.messages == []
    desk.channel.room.set()
    await wait_all_tasks_blocked()
    assert desk.channel.sent == [(50, b"done", False)]


async def test_cancelled_in_the_queue_it_does_not_run(nursery, autojump_clock):
    desk = Desk(nursery, slots=1)
    desk.start(1, seconds=5)
    desk.start(2, seconds=5)
    await trio.sleep(1)
    desk.cancel(2)
    await trio.sleep(1)
    assert desk.sent == [(1, None)]
    assert [each.id for each in desk.inbound] == [1]


async def test_a_task_that_is_cancelled_in_the_queue_leaves_nothing(nursery, autojump_clock):
    desk = Desk(nursery, slots=1)
    desk.start(1, seconds=5)
    with trio.move_on_after(1):
        waiting = desk.inbound.admit(Request(2, "work", {}), desk.channel)
        await desk.runner.run(waiting)
    assert [each.id for each in desk.inbound] == [1]
    assert desk.inbound.waiting_bytes == 0


# -- the end ----------------------------------------------------------------------------------


async def test_drain_waits_for_what_ends_within_the_grace(desk, autojump_clock):
    desk.start(1, seconds=2)
    desk.start(2, seconds=50, long_lived=True)
    await wait_all_tasks_blocked()
    assert await desk.runner.drain(desk.inbound, 5) == []
    assert desk.sent == [(0, Cause.SHUTDOWN.value.encode()), (2, b"done")]
    assert trio.current_time() == 2


async def test_drain_cancels_the_rest(desk, autojump_clock):
    desk.start(1, seconds=50)
    await wait_all_tasks_blocked()
    assert await desk.runner.drain(desk.inbound, 5) in ([], ["work 1"])
    await wait_all_tasks_blocked()
    assert desk.sent == [(5, b"shutdown")]


async def test_drain_names_what_is_stuck(desk, autojump_clock):
    desk.start(1, seconds=50, stubborn=100)
    desk.start(2, seconds=50)
    await wait_all_tasks_blocked()
    assert await desk.runner.drain(desk.inbound, 5) == ["work 1"]
    assert trio.current_time() == 5 + PATIENCE
    assert desk.sent == [(5, b"shutdown"), (6, b"shutdown")]
