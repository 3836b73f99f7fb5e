"""Nothing is left behind: not after many connections, and not after a cancellation anywhere."""

import time
import uuid
from functools import partial

import pytest
import trio
from trio.testing import memory_stream_pair

from tests.client.support import (
    IMPATIENT,
    TIME_LIMIT,
    command,
    holdings,
    left_since,
    marked,
    served,
)
from tests.support.tools import echo, registry_of
from trio_mcp import connect, serve_stream
from trio_mcp.transports.process import ProcessOptions


async def stroll(steps: int) -> str:
    """Pass some checkpoints."""
    for _ in range(steps):
        await trio.lowlevel.checkpoint()
    return "arrived"


REGISTRY = registry_of(echo, stroll)
OPTIONS = ProcessOptions(**IMPATIENT)


async def use(client) -> None:
    """Do what one does with a client."""
    assert await client.call_tool("echo", {"text": "hello"}, returns=str) == "hello"


@pytest.mark.long
@pytest.mark.requirement("E1", "E8")
@pytest.mark.parametrize("way", ["memory", "stream", "process"])
async def test_many_connections_leave_nothing(way) -> None:
    async def cycle() -> None:
        match way:
            case "memory":
                target = connect(REGISTRY)
            case "stream":
                target = served(REGISTRY)
            case "process":
                target = connect(command(), process_options=OPTIONS)
        async with target as client:
            await use(client)

    await cycle()  # what is made once and kept is made now
    before = holdings()
    tasks = trio.lowlevel.current_statistics().tasks_living
    for _ in range(10 if way == "process" else 100):
        await cycle()
    assert left_since(before) == {}
    assert trio.lowlevel.current_statistics().tasks_living == tasks


class CancelAt(trio.abc.Instrument):
    """Cancels a scope when a task is about to take the n-th step after the scope was entered."""

    def __init__(self, step: int) -> None:
        self.steps_left = step
        self.scope: trio.CancelScope | None = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.scope is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                scope, self.scope = self.scope, None
                scope.cancel()


async def over_memory(canceller: CancelAt) -> None:
    with trio.CancelScope() as scope:
        canceller.scope = scope
        async with connect(REGISTRY) as client:
            await use(client)
            await client.call_tool("stroll", {"steps": 5})
        canceller.scope = None


async def over_stream(canceller: CancelAt) -> None:
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, REGISTRY, theirs)
        with trio.CancelScope() as scope:
            canceller.scope = scope
            async with connect(ours) as client:
                await use(client)
            canceller.scope = None
        # the server ends because connect closes the stream, or else the time limit tells


MARK = uuid.uuid4().hex


async def over_process(canceller: CancelAt, switch: str = "family") -> None:
    grace = 0.3 if switch == "family" else 0.05
    options = ProcessOptions(close_timeout=grace, terminate_timeout=0.05, env={"MARK": MARK})
    with trio.CancelScope() as scope:
        canceller.scope = scope
        async with connect(command(switch), process_options=options) as client:
            await use(client)
        canceller.scope = None


def walk(way, stride: int) -> int:
    """Cancel at every so many steps, until all of it runs through; return how many runs it took."""

    async def main(canceller: CancelAt) -> None:
        with trio.fail_after(TIME_LIMIT):
            await way(canceller)

    trio.run(main, CancelAt(0))  # what is made once and kept is made now
    before = holdings()
    for run, step in enumerate(range(0, 5000, stride)):
        canceller = CancelAt(step)
        trio.run(main, canceller, instruments=[canceller])
        assert left_since(before) == {}, f"cancelled at step {step}"
        if canceller.steps_left >= 0:
            return run
    raise AssertionError("it never ran through")


@pytest.mark.long
@pytest.mark.requirement("E8")
@pytest.mark.parametrize(("way", "least"), [(over_memory, 3), (over_stream, 30)])
def test_a_cancellation_at_any_step_in_memory_leaves_nothing(way, least) -> None:
    assert walk(way, 1) > least


@pytest.mark.requirement("E8")
@pytest.mark.parametrize(
    ("switch", "stride"),
    [
        ("family", 6),
        ("stubborn", 10),
        pytest.param("family", 1, marks=pytest.mark.long),
        pytest.param("stubborn", 1, marks=pytest.mark.long),
    ],
)
def test_a_cancellation_at_any_step_with_a_process_leaves_nothing(switch, stride) -> None:
    assert walk(partial(over_process, switch=switch), stride) > 30 // stride
    deadline = time.monotonic() + TIME_LIMIT
    while (left := marked(MARK)) and time.monotonic() < deadline:
        time.sleep(0.01)  # they have been killed; the kernel may take a moment
    assert left == []


@pytest.mark.requirement("E8")
async def test_the_check_for_leftovers_finds_them() -> None:
    before = holdings()
    options = ProcessOptions(**IMPATIENT, env={"MARK": "left-behind"})
    async with connect(command(), process_options=options):
        left = left_since(before)
        assert left["children"]
        assert left["descriptors"] > 0
        assert marked("left-behind") == left["children"]
    assert left_since(before) == {}
