"""Time limits that stand still while a person is asked."""

from math import inf

import pytest
import trio
from trio.testing import MockClock

from trio_mcp.peer.time_limits import TimeLimit, pausable, pauses_around


def test_pauses_that_overlap_count_once():
    limit = TimeLimit(10)
    limit.pause(4)
    limit.pause(5)
    assert limit.deadline == inf
    limit.resume(7)
    assert limit.deadline == inf
    limit.resume(24)
    assert (limit.deadline, limit.stood_still) == (30, 20)


def test_putting_off_during_a_pause_counts_from_where_it_stood_still():
    limit = TimeLimit(10)
    limit.pause(4)
    limit.put_off(3, now=5)  # there are six left
    limit.put_off(8, now=5)
    limit.resume(14)
    assert limit.deadline == 14 + 8


async def test_a_block_is_cancelled_when_its_time_is_over(mock_clock: MockClock) -> None:
    with TimeLimit.after(5).scope() as scope:
        for pause in pauses_around():
            with pause():
                mock_clock.jump(100)
                await trio.lowlevel.checkpoint()
        mock_clock.jump(4.9)
        await trio.lowlevel.checkpoint()
        assert not scope.cancel_called
        mock_clock.jump(0.1)
        await trio.sleep_forever()
    assert scope.cancelled_caught
    assert pauses_around() == ()


async def test_who_is_started_in_a_block_knows_its_limits() -> None:
    limit, other = TimeLimit(5), TimeLimit(9)

    async def child() -> None:
        with other.scope():
            assert pauses_around() == (limit.paused, other.paused)

    with pausable(limit.paused):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
    with pytest.raises(KeyError), pausable(limit.paused):
        raise KeyError
    assert pauses_around() == ()
