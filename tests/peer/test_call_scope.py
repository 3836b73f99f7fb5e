"""A scope for one call after another: each call has it as if it were its own."""

from math import inf

import pytest
import trio
from trio.lowlevel import current_task
from trio.testing import wait_all_tasks_blocked

from tests.peer.test_call_tasks import PooledDesk
from tests.peer.test_runner import Channel, Work
from tests.support.client import serving
from tests.support.tools import echo, registry_of, text_of
from trio_mcp.peer import call_scope
from trio_mcp.peer.call_scope import CallScope

pytestmark = pytest.mark.requirement("A0", "B1", "B2")


class Sharing(Work):
    """A call that takes the scope of the one before, and notes in which task and until when."""

    shares_scope = True

    async def run(self, scope):
        with scope:
            self.seen = current_task(), trio.current_effective_deadline()
            self.block()
            if self.seconds:
                await trio.sleep(self.seconds)
        self.after = scope.cancel_called
        return self.unfinished() if scope.cancelled_caught else self.done

    def block(self):
        """Do something that takes long, and does not wait."""


class PromptChannel(Channel):
    """Sends at once, unless it is blocked."""

    def respond_nowait(self, id, reply) -> bool:
        if self.room.is_set():
            self.sent.append((trio.current_time(), reply, False))
        return self.room.is_set()


class SharingDesk(PooledDesk):
    def __init__(self, nursery) -> None:
        super().__init__(nursery)
        self.channel = PromptChannel()

    def begin(self, request, in_batch):
        return Sharing(request.id, **request.params)


@pytest.fixture
def desk(nursery):
    return SharingDesk(nursery)


async def test_each_call_has_its_own_deadline(desk, mock_clock):
    calls = [desk.start(id, seconds=0, timeout=5 + id) for id in range(10)]
    await wait_all_tasks_blocked()
    assert len({task for task, _ in (call.seen for call in calls)}) == 1
    assert [deadline for _, deadline in (call.seen for call in calls)] == list(range(5, 15))
    assert not any(call.after for call in calls)
    assert [each for _, each in desk.sent] == [b"done"] * 10


async def test_the_deadline_of_a_call_that_has_ended_passes_without_effect(desk, autojump_clock):
    first = desk.start(1, seconds=0, timeout=3)
    await trio.sleep(10)
    second = desk.start(2, seconds=5, timeout=8)
    await trio.sleep(10)
    assert first.seen == (second.seen[0], 3)
    assert second.seen[1] == 18
    assert desk.sent == [(0, b"done"), (15, b"done")]


async def test_a_call_ends_at_its_deadline_and_the_next_is_not_cancelled(desk, autojump_clock):
    desk.start(1, seconds=0)
    await wait_all_tasks_blocked()
    late = desk.start(2, seconds=9, timeout=3)
    await trio.sleep(5)
    assert late.after
    desk.start(3, seconds=2, timeout=3)
    await trio.sleep(5)
    assert desk.sent == [(0, b"done"), (3, b"late"), (7, b"done")]


async def test_so_it_is_with_a_call_that_is_cancelled(desk, autojump_clock):
    for id in range(3):
        desk.start(id, seconds=2)
    await trio.sleep(1)
    desk.cancel(1)
    await trio.sleep(0)
    desk.start(3, seconds=2)
    await trio.sleep(5)
    assert desk.sent == [(1, None), (2, b"done"), (2, b"done"), (3, b"done")]


async def test_a_call_that_holds_up_everything_beyond_its_deadline_has_ended_by_itself(
    nursery, mock_clock
):
    class Blocking(Sharing):
        def block(self):
            mock_clock.jump(100 if self.id == 2 else 0)

    desk = SharingDesk(nursery)
    desk.begin = lambda request, in_batch: Blocking(request.id, **request.params)
    calls = [desk.start(id, seconds=0, timeout=10) for id in range(1, 4)]
    await wait_all_tasks_blocked()
    assert [call.after for call in calls] == [False] * 3
    assert [each for _, each in desk.sent] == [b"done"] * 3


async def test_a_call_that_has_ended_cannot_move_the_deadline_of_the_next(nursery, autojump_clock):
    class Late(Sharing):
        def block(self):
            if self.id == 2:
                first.move_deadline(trio.current_time())

    desk = SharingDesk(nursery)
    desk.begin = lambda request, in_batch: Late(request.id, **request.params)
    first = desk.start(1, seconds=0)
    desk.start(2, seconds=5)
    await trio.sleep(10)
    assert desk.sent == [(0, b"done"), (5, b"done")]


async def test_a_call_that_is_cancelled_and_does_not_wait_knows_it(nursery):
    class Cancelled(Sharing):
        def block(self):
            if self.id == 2:
                desk.cancel(2)

    desk = SharingDesk(nursery)
    desk.begin = lambda request, in_batch: Cancelled(request.id, **request.params)
    calls = [desk.start(id, seconds=0) for id in range(1, 4)]
    await wait_all_tasks_blocked()
    assert [call.after for call in calls] == [False, True, False]
    assert [each for _, each in desk.sent] == [b"done", None, b"done"]


async def test_the_response_outlasts_the_deadline(desk, autojump_clock):
    desk.channel.room = trio.Event()
    desk.start(1, seconds=0, timeout=2)
    await trio.sleep(50)
    assert 1 in desk.inbound
    desk.inbound.cancel_all()
    desk.channel.room.set()
    await trio.sleep(1)
    assert desk.sent == [(50, b"done")]


async def test_a_scope_that_a_call_has_left_open_does_not_hold_for_the_next(nursery, caplog):
    class Careless(Sharing):
        async def run(self, scope):
            if self.id == 1:
                with scope:
                    left.__enter__()
            return await super().run(scope)

    left = trio.CancelScope()
    desk = SharingDesk(nursery)
    desk.begin = lambda request, in_batch: Careless(request.id, **request.params)
    desk.start(1)
    await wait_all_tasks_blocked()
    assert caplog.messages == ["Internal error in work 1"]
    left.cancel()
    desk.start(2, seconds=0)
    await wait_all_tasks_blocked()
    assert [each for _, each in desk.sent][1:] == [b"done"]


async def test_a_scope_that_was_cancelled_too_late_is_not_used_again():
    scope = CallScope()
    scope.begin(trio.current_time() + 10)
    with scope:
        pass
    scope.cancel()
    assert not scope.cancel_called
    scope.begin(trio.current_time() + 10)
    with scope:
        await trio.lowlevel.checkpoint()
    assert not scope.cancelled_caught
    scope.leave()
    scope.leave()
    await trio.lowlevel.checkpoint()


async def test_calls_of_tools_share_a_scope(monkeypatch):
    made = []

    def make(deadline=inf):
        made.append(trio.CancelScope(deadline=deadline))
        return made[-1]

    async with serving(registry_of(echo)) as (client, _):
        monkeypatch.setattr(call_scope, "CancelScope", make)
        assert text_of(await client.call("echo", text="a")) == "a"
        assert len(made) == 2  # of a task: the second with the deadline of its first call
        for _ in range(20):
            await client.call("echo", text="b")
        assert call_scope.CAN_SHARE
        assert len(made) == 2


async def test_what_waits_outside_of_its_scope_shares_none(autojump_clock):
    class Waiting(Work):
        async def run(self, scope):
            await trio.sleep(20)
            return b"waited"

    async with trio.open_nursery() as nursery:
        desk = SharingDesk(nursery)
        desk.start(1, seconds=0, timeout=3)
        desk.begin = lambda request, in_batch: Waiting(request.id, timeout=inf)
        desk.start(2)
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    assert desk.sent == [(0, b"done"), (20, b"waited")]
