"""A call that comes alone begins in the reader's task, and is a call like any other."""

from contextvars import ContextVar

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.peer.test_shape import TASKS, connections
from tests.support.client import serving
from tests.support.tools import echo, registry_of, text_of, wait
from trio_mcp import ServerState

pytestmark = pytest.mark.requirement("A0", "B1")

VAR: ContextVar[str] = ContextVar("VAR", default="unset")


def readers() -> int:
    (names,) = connections()
    return sum(each.endswith("._read") for each in names)


async def test_it_needs_no_other_task_unless_it_waits(autojump_clock: object) -> None:
    async with serving(registry_of(echo, wait)) as (client, _):
        await wait_all_tasks_blocked()
        (before,) = connections()
        assert text_of(await client.call("echo", text="x")) == "x"
        await wait_all_tasks_blocked()
        assert sorted(connections()[0]) == sorted(before)

        call = await client.start("wait", seconds=1)
        await wait_all_tasks_blocked()
        assert sorted(connections()[0]) == sorted([*before, "Tool wait"])
        assert text_of(await client.call("echo", text="y")) == "y"
        assert text_of(await client.answer_to(call)) == "waited 1"
        await wait_all_tasks_blocked()
        assert readers() == 1


async def test_one_after_another_each_may_wait(autojump_clock: object) -> None:
    async with serving(registry_of(wait)) as (client, _):
        for _ in range(5):
            assert text_of(await client.call("wait", seconds=1)) == "waited 1"
        await wait_all_tasks_blocked()
        assert set(connections()[0]) >= TASKS
        assert readers() == 1


@pytest.mark.requirement("B9")
@pytest.mark.parametrize("seconds", [0, 2])
async def test_a_server_that_it_stops_lets_it_finish(seconds: int, autojump_clock: object) -> None:
    async def stop() -> str:
        handle.stop()
        if seconds:
            await trio.sleep(seconds)
        return "stopped"

    async with serving(registry_of(stop)) as (client, handle):
        await client.start("stop")
        (answer,) = await client.receive_all()
        assert text_of(answer) == "stopped"
        assert trio.current_time() == seconds
        await handle.wait_for(ServerState.STOPPED)


@pytest.mark.requirement("B9", "A16")
async def test_so_does_one_that_is_stopped_by_the_next_line(autojump_clock: object) -> None:
    async with serving(registry_of(wait)) as (client, _):
        call = client.request_of("tools/call", {"name": "wait", "arguments": {"seconds": 2}})
        await client.send(call, client.request_of("shutdown"))
        _, answer = await client.receive_all()
        assert text_of(answer) == "waited 2"


@pytest.mark.requirement("B7")
async def test_it_is_cancelled_by_what_the_next_reader_reads(autojump_clock: object) -> None:
    async with serving(registry_of(wait, echo)) as (client, _):
        call = await client.start("wait", seconds=2)
        await wait_all_tasks_blocked()
        await client.cancel(call)
        await wait_all_tasks_blocked()
        assert readers() == 1
        assert text_of(await client.call("echo", text="x")) == "x"


async def test_the_next_reader_knows_nothing_of_its_variables(autojump_clock: object) -> None:
    async def change(seconds: float) -> str:
        before = VAR.get()
        VAR.set("set")
        if seconds:
            await trio.sleep(seconds)
        return before

    async with serving(registry_of(change)) as (client, _):
        for seconds in (0, 1, 1, 0, 0):
            assert text_of(await client.call("change", seconds=seconds)) == "unset"
        await wait_all_tasks_blocked()
        assert readers() == 1


@pytest.mark.requirement("B8")
async def test_the_end_of_the_input_is_noticed_while_it_waits(autojump_clock: object) -> None:
    async with serving(registry_of(wait)) as (client, _):
        await client.start("wait", seconds=0.25)
        await client.send_eof()
        (answer,) = await client.receive_all()
        assert text_of(answer) == "waited 0.25"
