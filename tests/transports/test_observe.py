"""Listeners hear all that is announced while they are there, and hold nobody up."""

import gc
from weakref import ref

import pytest
import trio
from trio.testing import assert_checkpoints, wait_all_tasks_blocked

from trio_mcp.transports.observe import Broadcast

pytestmark = pytest.mark.requirement("E6")


async def all_of(listener) -> list:
    return [event async for event in listener]


async def test_each_listener_hears_everything_from_when_it_was_made() -> None:
    source: Broadcast[int] = Broadcast()
    source.announce(0)
    first = source.listen()
    source.announce(1)
    second = source.listen(-1)
    source.announce(2)
    source.end()
    assert await all_of(first) == [1, 2]
    assert await all_of(second) == [-1, 2]


async def test_listeners_are_woken_by_events_and_by_the_end() -> None:
    source: Broadcast[int] = Broadcast()
    heard: list[list[int]] = []

    async def listen() -> None:
        heard.append(await all_of(source.listen()))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(listen)
        await wait_all_tasks_blocked()
        for event in range(5):
            source.announce(event)
            await wait_all_tasks_blocked()
        source.end()
    assert heard == [[0, 1, 2, 3, 4]] * 3


async def test_a_slow_listener_misses_the_oldest_events() -> None:
    source: Broadcast[int] = Broadcast(kept=3)
    listener = source.listen()
    for event in range(10):
        source.announce(event)
    source.end()
    assert await all_of(listener) == [7, 8, 9]


async def test_what_a_slow_listener_is_kept_is_bounded_in_bytes() -> None:
    source: Broadcast[bytes] = Broadcast(kept_bytes=10)
    listener = source.listen(b"a" * 8)
    for event in (b"b" * 4, b"c" * 4, b"d"):
        source.announce(event)
    assert [await anext(listener) for _ in range(3)] == [b"bbbb", b"cccc", b"d"]
    for event in (b"e" * 9, b"f", b"g" * 11):
        source.announce(event)
    source.end()
    assert await all_of(listener) == [b"g" * 11], "one is kept however long it is"


async def test_a_source_that_has_ended_gives_what_came_first_and_ends() -> None:
    source: Broadcast[int] = Broadcast()
    source.end()
    assert await all_of(source.listen()) == []
    assert await all_of(source.listen(1)) == [1]


async def test_the_end_stays_the_end() -> None:
    source: Broadcast[int] = Broadcast()
    listener = source.listen()
    source.end()
    for _ in range(2):
        with pytest.raises(StopAsyncIteration):
            await anext(listener)


async def test_a_listener_that_is_forgotten_is_announced_nothing() -> None:
    source: Broadcast[int] = Broadcast()
    listener = source.listen(1, 2)
    gone = ref(listener)
    async for _ in listener:
        break  # and no warning about an iteration that was not finished
    del listener
    gc.collect()
    assert gone() is None
    source.announce(3)


async def test_a_cancelled_listener_loses_nothing() -> None:
    source: Broadcast[int] = Broadcast()
    listener = source.listen(1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await anext(listener)
    assert scope.cancelled_caught
    with trio.move_on_after(0):
        await anext(listener)
    source.announce(2)
    with assert_checkpoints():
        assert await anext(listener) == 1
    assert await anext(listener) == 2
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(anext, listener)
            await wait_all_tasks_blocked()
            scope.cancel()
    source.announce(3)
    assert await anext(listener) == 3


async def test_two_tasks_may_share_a_listener() -> None:
    source: Broadcast[int] = Broadcast()
    listener = source.listen()
    heard: list[int] = []

    async def take() -> None:
        async for event in listener:
            heard.append(event)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        nursery.start_soon(take)
        await wait_all_tasks_blocked()
        for event in range(4):
            source.announce(event)
        await wait_all_tasks_blocked()
        source.end()
    assert sorted(heard) == [0, 1, 2, 3]
