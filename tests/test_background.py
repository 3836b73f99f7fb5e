"""What leaves a background nursery, and in which shape."""

import pytest
import trio

from trio_mcp.background import background_nursery

pytestmark = pytest.mark.requirement("B13")


async def end_cancelled(around: trio.CancelScope, failure: BaseException | None) -> BaseException:
    """Return what leaves the block if a scope around it is cancelled, and it then raises."""
    with around:
        try:
            async with background_nursery(trio.sleep_forever):
                around.cancel()
                try:
                    await trio.lowlevel.checkpoint()
                finally:
                    if failure is not None:
                        raise failure
        except BaseException as error:
            return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("failure", [ValueError("mine"), KeyboardInterrupt()])
async def test_a_failure_is_not_lost_to_a_cancellation_from_outside(
    failure: BaseException,
) -> None:
    assert await end_cancelled(trio.CancelScope(), failure) is failure


async def test_the_cancellation_goes_on_after_the_failure() -> None:
    reached = []
    with trio.CancelScope() as around:
        with pytest.raises(ValueError, match="mine"):
            async with background_nursery(trio.sleep_forever):
                around.cancel()
                raise ValueError("mine")
        reached.append("the end of the block")
        await trio.lowlevel.checkpoint()
        reached.append("more")
    assert reached == ["the end of the block"]


async def test_what_a_failure_came_of_is_kept() -> None:
    failure, cause = ValueError("mine"), KeyError("first")
    failure.__context__ = cause
    with trio.CancelScope() as around, pytest.raises(ValueError, match="mine"):
        async with background_nursery(trio.sleep_forever):
            around.cancel()
            raise failure
    assert failure.__context__ is cause


async def test_a_cancellation_from_outside_passes() -> None:
    around = trio.CancelScope()
    assert isinstance(await end_cancelled(around, None), trio.Cancelled)


async def test_it_passes_from_a_block_that_has_ended() -> None:
    reached = []
    with trio.CancelScope() as around:
        async with background_nursery(trio.sleep_forever):
            around.cancel()
        reached.append("more")
    assert reached == []


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_what_a_task_raises_comes_before_what_the_block_does(is_cancelled: bool) -> None:
    async def fail() -> None:
        raise OSError("the task's")

    with trio.CancelScope() as around:
        with pytest.RaisesGroup(pytest.RaisesExc(OSError, match="the task's")):
            async with background_nursery(fail):
                try:
                    await trio.sleep_forever()
                finally:
                    if is_cancelled:
                        around.cancel()
                    raise ValueError("mine")
