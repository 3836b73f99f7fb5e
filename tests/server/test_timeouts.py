"""Deadlines: every call has one, and nobody else notices when it passes."""

import threading

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.support.client import serving
from tests.support.tools import each_revision, echo, failure_of, linger, registry_of, text_of, wait
from trio_mcp import Limits, Registry


@pytest.fixture
def release():
    """An event that blocking tools wait for; it is set in the end."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.requirement("B1", "B6")
@each_revision
async def test_sixty_seconds_by_default(revision, autojump_clock):
    async with serving(registry_of(wait), revision=revision) as (client, _):
        assert text_of(await client.call("wait", seconds=59.9)) == "waited 59.9"
        start = trio.current_time()
        answer = await client.call("wait", seconds=60.1)
        assert failure_of(answer) == "Tool wait timed out after 60 s"
        assert trio.current_time() - start == pytest.approx(60)


@pytest.mark.requirement("B1")
@pytest.mark.parametrize(
    ("limit", "registry_timeout", "tool_timeout", "expected"),
    [
        (None, None, None, 60),
        (30, None, None, 30),
        (30, 20, None, 20),
        (30, 20, 10, 10),
        (30, None, 90, 90),
        (None, 0.25, None, 0.25),
    ],
)
async def test_whose_limit_counts(limit, registry_timeout, tool_timeout, expected, autojump_clock):
    registry = Registry("test", tool_timeout=registry_timeout)
    registry.add_tool(wait, timeout=tool_timeout)
    limits = None if limit is None else Limits(tool_timeout=limit)
    async with serving(registry, limits) as (client, _):
        answer = await client.call("wait", seconds=1000)
        assert failure_of(answer) == f"Tool wait timed out after {expected:g} s"
        assert trio.current_time() == expected


@pytest.mark.requirement("B1")
async def test_nothing_else_is_disturbed(autojump_clock):
    registry = registry_of(echo, wait)
    registry.add_tool(wait, name="brief", timeout=2)
    async with serving(registry) as (client, _):
        brief = await client.start("brief", seconds=100)
        long = await client.start("wait", seconds=4)
        answers = await client.receive_many(2)
        assert list(answers) == [brief, long]
        assert text_of(answers[long]) == "waited 4"
        assert trio.current_time() == 4


@pytest.mark.requirement("B1")
async def test_a_result_at_the_very_deadline_is_late(autojump_clock):
    registry = Registry("test", tool_timeout=5)
    registry.add_tool(wait)
    async with serving(registry) as (client, _):
        failure_of(await client.call("wait", seconds=5))
        text_of(await client.call("wait", seconds=4.999))


@pytest.mark.requirement("B1")
async def test_a_tool_that_swallows_its_cancellation_has_timed_out_all_the_same(autojump_clock):
    async def swallow() -> str:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            pass
        return "late"

    registry = registry_of(swallow, tool_timeout=5)
    async with serving(registry) as (client, _):
        assert "timed out" in failure_of(await client.call("swallow"))
        assert trio.current_time() == 5


@pytest.mark.requirement("B1", "B2")
async def test_an_overdue_call_is_answered_without_it(autojump_clock):
    registry = registry_of(echo, linger, tool_timeout=5)
    async with serving(registry, Limits(cancel_timeout=3)) as (client, _):
        answer = await client.call("linger", seconds=100, more=50)
        assert "timed out after 5 s" in failure_of(answer)
        assert trio.current_time() == 8
        answer = await client.call("echo", text="x")
        assert text_of(answer) == "x"
        await trio.sleep(60)  # the tool ends, and must not be answered again
        assert "result" in await client.request("ping")


@pytest.mark.requirement("B1", "B2")
async def test_overdue_calls_one_after_the_other(autojump_clock):
    """Each is answered in its own time, whichever was started first."""
    registry = Registry("test")
    for seconds in (7, 3, 5, 1):
        registry.add_tool(linger, name=f"linger{seconds}", timeout=seconds)
    async with serving(registry, Limits(cancel_timeout=0.5)) as (client, _):
        ids = {}
        for seconds in (7, 3, 5, 1):
            ids[seconds] = await client.start(f"linger{seconds}", seconds=100, more=100)
        for seconds in (1, 3, 5, 7):
            assert (await client.receive())["id"] == ids[seconds]
            assert trio.current_time() == seconds + 0.5


@pytest.mark.requirement("B1", "B7")
async def test_a_cancelled_call_that_is_overdue_is_not_answered(autojump_clock):
    registry = registry_of(linger, tool_timeout=5)
    async with serving(registry, Limits(cancel_timeout=1)) as (client, _):
        id = await client.start("linger", seconds=100, more=50)
        await trio.sleep(5.5)
        await client.cancel(id)
        await trio.sleep(100)
        assert "result" in await client.request("ping")


@pytest.mark.requirement("B3")
async def test_async_tools_run_on_the_trio_thread_and_plain_ones_do_not():
    async def here() -> bool:
        return threading.get_ident() == ours

    def there() -> bool:
        return threading.get_ident() == ours

    ours = threading.get_ident()
    async with serving(registry_of(here, there)) as (client, _):
        assert text_of(await client.call("here")) == "true"
        assert text_of(await client.call("there")) == "false"


@pytest.mark.requirement("B3", "B1")
async def test_a_stuck_thread_delays_nobody(release, autojump_clock):
    entered = threading.Event()

    def stuck() -> str:
        entered.set()
        release.wait()
        return "late"

    registry = registry_of(stuck, echo, tool_timeout=5)
    async with serving(registry) as (client, _):
        id = await client.start("stuck")
        await wait_all_tasks_blocked()
        entered.wait(10)
        assert text_of(await client.call("echo", text="x")) == "x"
        answer = await client.receive()
        assert answer["id"] == id
        assert failure_of(answer) == "Tool stuck timed out after 5 s"
        assert trio.current_time() == 5
    assert not release.is_set()  # serving ended while the thread was still stuck


@pytest.mark.requirement("B3", "B8")
@pytest.mark.parametrize("how", ["eof", "stop"])
async def test_a_stuck_thread_does_not_delay_the_end(how, release, autojump_clock):
    def stuck() -> None:
        release.wait()

    async with serving(registry_of(stuck)) as (client, handle):
        id = await client.start("stuck")
        await wait_all_tasks_blocked()
        if how == "eof":
            await client.send_eof()
        else:
            handle.stop()
        answers = await client.receive_all()
        assert answers == [
            {
                "jsonrpc": "2.0",
                "id": id,
                "error": {"code": -32603, "message": "Request cancelled"},
            }
        ]
        assert trio.current_time() == (0.5 if how == "eof" else 5)


@pytest.mark.requirement("B3")
async def test_worker_threads_are_bounded(release):
    count = 0
    most = 0
    lock = threading.Lock()
    two = threading.Event()

    def busy() -> None:
        nonlocal count, most
        with lock:
            count += 1
            most = max(most, count)
            if count == 2:
                two.set()
        release.wait(10)
        with lock:
            count -= 1

    async with serving(registry_of(busy), Limits(max_worker_threads=2)) as (client, _):
        for _ in range(5):
            await client.start("busy")
        await trio.to_thread.run_sync(two.wait, 10)
        await wait_all_tasks_blocked()
        release.set()
        await client.receive_many(5)
    assert most == 2
