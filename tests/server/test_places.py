"""`max_concurrent`: a place is held until the work has ended, whoever still waits for it."""

import threading

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.support.client import serving
from tests.support.tools import echo, failure_of, linger, text_of
from trio_mcp import Context, Limits, Registry
from trio_mcp.schema import SchemaError

pytestmark = pytest.mark.requirement("B1", "B3", "F2")


class Workshop:
    """A plain tool that blocks until it is told to go on, and counts how many of it run."""

    def __init__(self, **options: object) -> None:
        self.go_on = threading.Event()
        self.entered = threading.Semaphore(0)
        self.lock = threading.Lock()
        self.running = self.most = 0
        self.registry = Registry("test")
        self.registry.add_tool(self.work, timeout=5, **options)
        self.registry.add_tool(echo)

    def work(self, block: bool = True) -> str:
        """Work until it is over."""
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self.entered.release()
        if block:
            self.go_on.wait()
        with self.lock:
            self.running -= 1
        return "done"

    async def until_entered(self) -> None:
        """Wait until one more of it runs."""
        await trio.to_thread.run_sync(self.entered.acquire)


@pytest.fixture
def workshop():
    made = Workshop(max_concurrent=1)
    yield made
    made.go_on.set()


async def test_a_thread_that_was_abandoned_keeps_its_place(workshop, mock_clock):
    async with serving(workshop.registry) as (client, _):
        for block in (True, False):  # the second one waits for the place, all its time
            await client.start("work", block=block)
            if block:
                await workshop.until_entered()
            await wait_all_tasks_blocked()
            mock_clock.jump(5)
            assert failure_of(await client.receive()) == "Tool work timed out after 5 s"
        assert (workshop.running, workshop.most) == (1, 1)
        assert text_of(await client.call("echo", text="x")) == "x"
        third = await client.start("work", block=False)
        await wait_all_tasks_blocked()
        assert workshop.most == 1
        workshop.go_on.set()  # the first one ends, and the third has its place
        answer = await client.receive()
        assert (answer["id"], text_of(answer)) == (third, "done")
    assert workshop.most == 1


async def test_a_call_that_waits_for_a_place_can_be_cancelled(workshop, mock_clock):
    async with serving(workshop.registry) as (client, _):
        running = await client.start("work")
        await workshop.until_entered()
        waiting = await client.start("work")
        await wait_all_tasks_blocked()
        await client.cancel(waiting)
        await client.cancel(running)
        last = await client.start("work")
        await wait_all_tasks_blocked()
        assert workshop.most == 1
        workshop.go_on.set()
        assert (await client.receive())["id"] == last
    assert workshop.most == 1


async def test_threads_that_are_all_taken_do_not_cost_a_place(workshop, mock_clock):
    """A call that has a place, but gets no thread, gives the place back when it is cancelled."""
    workshop.registry.add_tool(workshop.work, name="hog")
    async with serving(workshop.registry, Limits(max_worker_threads=1)) as (client, _):
        hogging = await client.start("hog")
        await workshop.until_entered()
        await client.start("work", block=False)
        await wait_all_tasks_blocked()
        mock_clock.jump(5)
        assert failure_of(await client.receive()) == "Tool work timed out after 5 s"
        workshop.go_on.set()
        assert (await client.receive())["id"] == hogging
        assert text_of(await client.call("work", block=False)) == "done"


@pytest.mark.parametrize("bound", [2, 3])
async def test_as_many_as_there_are_places(bound, mock_clock):
    workshop = Workshop(max_concurrent=bound)
    try:
        async with serving(workshop.registry) as (client, _):
            for _ in range(5):
                await client.start("work")
            for _ in range(bound):
                await workshop.until_entered()
            await wait_all_tasks_blocked()
            assert workshop.running == bound
            workshop.go_on.set()
            for answer in (await client.receive_many(5)).values():
                assert text_of(answer) == "done"
        assert workshop.most == bound
    finally:
        workshop.go_on.set()


async def test_an_async_tool_that_ignores_its_cancellation_keeps_its_place(autojump_clock):
    registry = Registry("test")
    registry.add_tool(linger, timeout=5, max_concurrent=1)
    async with serving(registry, Limits(cancel_timeout=1)) as (client, _):
        first = await client.start("linger", seconds=100, more=50)
        await wait_all_tasks_blocked()  # it has the place
        second = await client.start("linger", seconds=1, more=0)
        answers = await client.receive_many(2)
        assert "timed out" in failure_of(answers[first])
        assert "timed out" in failure_of(answers[second])  # all its time it waited
        assert trio.current_time() < 10
        await trio.sleep(20)
        waiting = await client.start("linger", seconds=1, more=0)
        await wait_all_tasks_blocked()
        assert "timed out" in failure_of(await client.receive())
        assert waiting != first
        await trio.sleep(30)  # it has ended
        assert text_of(await client.call("linger", seconds=1, more=0)) == "lingered"


async def test_a_plain_tool_in_a_place_has_its_context():
    registry = Registry("test")

    def tell(context: Context) -> str:
        return f"{context.tool} {context.connection_id is not None}"

    registry.add_tool(tell, max_concurrent=1)
    async with serving(registry) as (client, _):
        assert text_of(await client.call("tell")) == "tell True"
    assert await registry.call("tell") == "tell False"


def test_a_run_that_is_over_holds_no_places():
    """What was abandoned in one run of Trio could not tell the next that it has ended."""
    workshop = Workshop(max_concurrent=1)

    async def abandon() -> None:
        with trio.move_on_after(60) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(workshop.registry.call, "work")
                await workshop.until_entered()
                scope.cancel()

    try:
        trio.run(abandon)
        assert trio.run(workshop.registry.call, "work", {"block": False}) == "done"
    finally:
        workshop.go_on.set()


@pytest.mark.parametrize("bound", [0, -1, True, 1.5, "2"])
def test_a_bound_that_is_none(bound):
    with pytest.raises(SchemaError, match=f"max_concurrent must be 1 or more, not {bound!r}"):
        Registry("test").add_tool(echo, max_concurrent=bound)
