"""What is large is worked on in a thread, and nothing keeps that from being done."""

import threading
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from attrs import define

from tests.support.turns import turns_of_another_task
from trio_mcp.extending import offload
from trio_mcp.threads import is_large

pytestmark = pytest.mark.requirement("B4", "E4")

LARGE = [0] * 10_000
LARGE_TEXT = b"[" + b"[]," * 40_000 + b"1]"


@define
class Link:
    to: Any = None


@dataclass
class Row:
    cells: Any


def chain(length: int) -> Link:
    link = Link()
    for _ in range(length):
        link = Link(link)
    return link


def circle() -> Link:
    link = Link()
    link.to = link
    return link


@pytest.mark.parametrize(
    ("value", "large"),
    [
        (None, False),
        ({"a": [1, 2, {"b": None}]}, False),
        ("x" * 1000, False),
        ([{}] * 10_000, True),
        ({"a": [[1] * 10_000]}, True),
        ({"a": "x" * 2_000_000}, True),
        ({"x" * 2_000_000: 1}, True),
        ({1: 2}, False),
        (["x" * 1000] * 1100, True),
        ([b"x" * 1000] * 1100, True),
        (Row([1]), False),
        (Row([1] * 10_000), True),
        ([Link()] * 900, False),
        (chain(10), False),
        (chain(10_000), True),
        (circle(), True),
        (object(), False),
        (b"x" * 1_000_000, False),
        (b"x" * 5_000_000, True),
        (LARGE_TEXT, True),
        (b"[]," * 10_000, False),
    ],
)
def test_what_is_large(value, large):
    assert is_large(value) is large


def where(_: object, loop: int) -> bool:
    return threading.get_ident() == loop


@pytest.mark.parametrize(
    ("value", "on_loop"), [([0] * 10, True), (LARGE, False), (b"1", True), (LARGE_TEXT, False)]
)
async def test_others_go_on_while_a_large_value_is_worked_on(value, on_loop):
    async with turns_of_another_task() as turns:
        assert await offload(where, value, threading.get_ident()) is on_loop
        assert (turns.count == 0) is on_loop


@pytest.mark.parametrize("value", [0, LARGE])
async def test_what_work_raises_comes_out_as_it_is(value):
    with pytest.raises(TypeError, match="has no len"):
        await offload(lambda value, _: len(value and 1), value, 2)


async def test_a_thread_is_left_behind_when_its_work_is_cancelled():
    go_on = threading.Event()
    with trio.move_on_after(0.01) as scope:
        await offload(lambda _: go_on.wait(10), LARGE)
    assert scope.cancelled_caught
    go_on.set()


async def test_neither_tools_nor_conversions_that_hang_keep_texts_from_being_parsed():
    go_on = threading.Event()
    usual = trio.to_thread.current_default_thread_limiter()
    async with trio.open_nursery() as nursery:
        for _ in range(int(usual.total_tokens)):
            nursery.start_soon(trio.to_thread.run_sync, go_on.wait, 10)
        await trio.testing.wait_all_tasks_blocked()
        assert await offload(len, LARGE) == len(LARGE)
        for _ in range(20):
            nursery.start_soon(offload, lambda _: go_on.wait(10), LARGE)
        await trio.testing.wait_all_tasks_blocked()
        assert await offload(len, LARGE_TEXT) == len(LARGE_TEXT)
        go_on.set()


async def test_texts_are_parsed_one_at_a_time():
    at_once: list[int] = []
    running: set[int] = set()

    def parse(_: bytes) -> None:
        running.add(threading.get_ident())
        at_once.append(len(running))
        running.discard(threading.get_ident())

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(offload, parse, LARGE_TEXT)
    assert at_once == [1] * 5
