"""The cancel scope that a task keeps from call to call: no call is told by it from one of its own."""

from math import inf

import pytest
import trio

from trio_mcp.peer.kept_scope import KeptScope, scope_until

pytestmark = pytest.mark.requirement("B1", "B2", "B7")


async def test_calls_that_end_in_order_share_a_scope(autojump_clock):
    with KeptScope() as kept:
        with scope_until(10, kept):
            assert trio.current_effective_deadline() == 10
        assert trio.current_effective_deadline() == inf
        first = kept.free
        with scope_until(20, kept):
            assert trio.current_effective_deadline() == 20
            await trio.sleep(15)
        assert kept.free is first is not None
    with pytest.raises(RuntimeError, match="already been exited"):
        first.__exit__(None, None, None)


@pytest.mark.parametrize("is_second", [False, True])
async def test_a_deadline_ends_its_own_call_alone(is_second, autojump_clock):
    with KeptScope() as kept:
        if is_second:
            with scope_until(1, kept):
                pass
        scope = scope_until(2, kept)
        with scope:
            await trio.sleep_forever()
        assert scope.cancelled_caught
        assert scope.cancel_called
        with scope_until(inf, kept):
            await trio.sleep(5)
    assert trio.current_time() == 7


async def test_a_deadline_can_be_moved(autojump_clock):
    with KeptScope() as kept:
        scope = scope_until(5, kept)
        scope.deadline = 1
        with scope:
            assert trio.current_effective_deadline() == scope.deadline == 1
            scope.deadline = 3
            await trio.sleep_forever()
    assert trio.current_time() == 3


async def test_a_call_that_waits_for_nothing_is_late_all_the_same(mock_clock):
    with KeptScope() as kept:
        scope = scope_until(1, kept)
        with scope:
            mock_clock.jump(2)
        assert scope.cancel_called
        assert not scope.cancelled_caught
        with scope_until(inf, kept):
            await trio.lowlevel.checkpoint()


async def test_who_cancels_a_call_that_has_ended_cancels_no_other(autojump_clock):
    with KeptScope() as kept:
        ended = scope_until(1, kept)
        with ended:
            pass
        current = scope_until(1, kept)
        with current:
            ended.cancel()
            ended.deadline = 0
            await trio.lowlevel.checkpoint()
        assert not current.cancel_called


async def test_a_call_may_be_cancelled_before_it_runs():
    with KeptScope() as kept:
        scope = scope_until(inf, kept)
        assert not scope.cancel_called
        scope.cancel(reason="too late")
        with scope:
            with pytest.raises(trio.Cancelled, match="too late"):
                await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
        assert scope.cancelled_caught
        with scope_until(inf, kept):
            await trio.lowlevel.checkpoint()


async def test_a_call_that_leaves_a_scope_open_is_found_out():
    with KeptScope() as kept:
        with scope_until(inf, kept):
            pass
        with pytest.raises(RuntimeError, match="corrupted"), scope_until(inf, kept):
            trio.CancelScope().__enter__()
        with scope_until(inf, kept):
            await trio.lowlevel.checkpoint()


async def test_exceptions_pass_through():
    with KeptScope() as kept:
        for _ in range(2):
            with pytest.raises(ValueError, match="mine"), scope_until(inf, kept):
                raise ValueError("mine")
        with scope_until(inf, kept):
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("entered", [False, True])
async def test_what_stands_around_a_single_call_is_left_after_it(entered):
    with KeptScope() as kept:
        if entered:
            with scope_until(inf, kept):
                pass
        with trio.CancelScope() as between:
            with scope_until(inf, kept):
                await trio.lowlevel.checkpoint()
            between.cancel()
        async with trio.open_nursery():
            with scope_until(inf, kept):
                await trio.lowlevel.checkpoint()
        with scope_until(inf, kept):
            await trio.lowlevel.checkpoint()


async def test_the_end_of_all_ends_the_call_and_the_block(autojump_clock):
    with trio.move_on_after(1) as around, KeptScope() as kept:
        with scope_until(inf, kept):
            pass
        scope = scope_until(inf, kept)
        with scope:
            await trio.sleep_forever()
    assert around.cancelled_caught
    assert not scope.cancel_called


async def test_calls_nest():
    with KeptScope() as kept:
        outer, inner = scope_until(inf, kept), scope_until(inf, kept)
        with outer:
            with inner:
                inner.cancel()
                await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
        assert inner.cancelled_caught
        assert not outer.cancel_called


async def test_without_one_a_call_has_its_own():
    assert isinstance(scope_until(inf, None), trio.CancelScope)
