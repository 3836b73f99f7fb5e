"""The pool of call tasks: what a task of its own would give to each call, calls have here as well."""

import gc
import weakref
from contextvars import ContextVar, copy_context
from functools import partial
from itertools import pairwise

import pytest
import trio
from attrs import define, field
from trio.lowlevel import RunVar, Task, current_task
from trio.testing import wait_all_tasks_blocked

from tests.peer.test_runner import Desk, Work
from tests.support.client import serving
from tests.support.tools import echo, registry_of, text_of, wait
from trio_mcp import Limits
from trio_mcp.peer import call_tasks
from trio_mcp.peer.call_tasks import CallTasks
from trio_mcp.peer.inbound import InboundRequest

pytestmark = pytest.mark.requirement("A0", "B1", "B2")

IDLE = call_tasks.IDLE_NAME
VAR: ContextVar[object] = ContextVar("VAR")


@define(eq=False)
class Call(InboundRequest):
    """A call that does what it is given, and takes note of its task."""

    work: object
    label: str = "call"
    task: Task = field(init=False)

    async def go(self) -> None:
        self.task = current_task()
        assert self.task.name == self.label
        await self.work()


@pytest.fixture
def pool(nursery):
    return CallTasks(nursery, Call.go)


async def none() -> None:
    """Do nothing, and do not wait."""


def start(pool, *work, label="call") -> list[Call]:
    """Start calls, all at once."""
    calls = [Call(each, label) for each in work]
    for call in calls:
        pool.start_soon(call)
    return calls


async def run(pool, *work) -> list[Call]:
    """Start calls, and wait until they have ended, or wait."""
    calls = start(pool, *work)
    await wait_all_tasks_blocked()
    return calls


def names(pool) -> list[str]:
    return [each.name for each in pool.nursery.child_tasks]


# -- which task a call runs in --------------------------------------------------------------


async def test_calls_that_never_wait_share_a_task(pool):
    calls = await run(pool, *[none] * 20)
    assert len({each.task for each in calls}) == 1
    later = await run(pool, none)
    assert later[0].task in pool.nursery.child_tasks
    assert names(pool) == [IDLE, IDLE]  # the second one stood by


async def test_one_call_alone_has_no_second_task_stand_by(pool):
    for _ in range(3):
        await run(pool, none)
        await run(pool, partial(trio.sleep, 0))
    assert names(pool) == [IDLE]


async def test_a_call_that_waits_keeps_its_task_and_delays_no_other(pool):
    done, go_on = [], trio.Event()

    async def note() -> None:
        done.append(current_task())

    waiting, *_ = start(pool, go_on.wait, *[note] * 5, label="some call")
    await wait_all_tasks_blocked()
    assert len(done) == 5
    assert waiting.task not in done
    assert names(pool).count("some call") == 1
    go_on.set()
    await wait_all_tasks_blocked()
    assert set(names(pool)) == {IDLE}


async def test_calls_begin_in_order(pool):
    begun = []

    async def note(number: int) -> None:
        begun.append(number)
        if number % 3 == 0:
            await trio.sleep(number % 2)

    await run(pool, *(partial(note, number) for number in range(200)))
    assert begun == list(range(200))


async def test_a_hundred_calls_that_wait_have_begun_after_a_few_turns(pool):
    begun = 0

    async def hold() -> None:
        nonlocal begun
        begun += 1
        await trio.sleep_forever()

    start(pool, *[hold] * 100)
    for _ in range(10):
        await trio.lowlevel.checkpoint()
    assert begun == 100


async def test_others_have_their_turn_among_calls_that_never_wait(pool):
    ran, turns = [], []

    async def count() -> None:
        ran.append(1)

    start(pool, *[count] * 1000)
    while len(ran) < 1000:
        turns.append(len(ran))
        await trio.lowlevel.checkpoint()
    assert max(later - earlier for earlier, later in pairwise(turns)) <= 2 * call_tasks.TURN


async def test_calls_started_by_calls_are_run(pool):
    """So are those that get the slot of one that ends."""
    ended = []

    async def chain(left: int) -> None:
        if left:
            start(pool, partial(chain, left - 1))
            if left % 4 == 0:
                await trio.lowlevel.checkpoint()
        ended.append(left)

    await run(pool, partial(chain, 100))
    assert sorted(ended) == list(range(101))


async def test_the_pool_shrinks_when_the_load_ends(pool, autojump_clock):
    start(pool, *[partial(trio.sleep, 1)] * 200)
    await trio.sleep(0.5)
    assert names(pool) == ["call"] * 200
    await trio.sleep(1)
    assert names(pool) == [IDLE] * call_tasks.IDLE_TASKS


async def test_an_idle_task_keeps_no_call(pool):
    (kept,) = map(weakref.ref, await run(pool, none))
    gc.collect()
    assert kept() is None


# -- nothing is seen by the next ------------------------------------------------------------


class Equal:
    """Equal to all others of its class, and still not the same."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal)

    def __hash__(self) -> int:
        return 1


class Incomparable:
    """Like an array: whether two are equal is not a question of yes or no."""

    def __eq__(self, other: object) -> bool:
        raise ValueError

    __hash__ = object.__hash__


@pytest.mark.parametrize("value", [None, Equal(), Incomparable()])
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("preset", [False, True])
async def test_no_call_sees_the_context_variables_of_another(nursery, value, waits, preset):
    given = type(value)() if value else None
    if preset:
        VAR.set(given)
    pool = CallTasks(nursery, Call.go)
    seen = []

    async def change() -> None:
        seen.append(VAR.get("nothing"))
        VAR.set(value)
        if waits:
            await trio.lowlevel.checkpoint()
        assert VAR.get() is value

    await run(pool, *[change] * 10)
    await run(pool, change)
    assert len(seen) == 11
    assert all(each is (given if preset else "nothing") for each in seen)


async def test_a_task_is_kept_whose_variables_were_reset(pool):
    async def change() -> None:
        token = VAR.set(1)
        await trio.lowlevel.checkpoint()
        VAR.reset(token)

    first, *_ = await run(pool, change)
    second, *_ = await run(pool, change)
    assert first.task is second.task


@pytest.mark.parametrize("at_once", [False, True])
async def test_nor_what_others_set_in_its_task(pool, at_once):
    """A library may give a task another context, or run in the context of one that waits."""
    seen = []

    async def replace() -> None:
        seen.append(VAR.get("nothing"))
        context = copy_context()
        context.run(VAR.set, 1)
        current_task().context = context
        if not at_once:
            await trio.lowlevel.checkpoint()

    async def be_changed() -> None:
        seen.append(VAR.get("nothing"))
        await go_on.wait()
        seen.append(VAR.get("nothing"))

    await run(pool, *[replace] * 3)
    go_on = trio.Event()
    (call,) = await run(pool, be_changed)
    call.task.context.run(VAR.set, 2)
    go_on.set()
    await wait_all_tasks_blocked()
    await run(pool, replace)
    assert seen == ["nothing"] * 4 + [2, "nothing"]


async def test_calls_have_the_context_of_the_connection_whoever_starts_them(nursery):
    VAR.set("connection")
    pool = CallTasks(nursery, Call.go)
    seen = []

    async def look() -> None:
        seen.append(VAR.get())
        VAR.set("a call")
        start(pool, *[none] * 2)

    VAR.set("another")
    await run(pool, *[look] * 3)
    assert seen == ["connection"] * 3


async def test_what_holds_for_the_whole_run_holds_for_all_calls(pool):
    var = RunVar[int]("var", 0)

    async def count() -> None:
        var.set(var.get() + 1)

    await run(pool, *[count] * 3)
    assert var.get() == 3


# -- ends that are not returns ---------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_what_a_call_raises_ends_the_nursery_and_all_that_were_started_run(error):
    """They begin and may clean up, as they would in tasks of their own."""
    begun, ended = [], []

    async def hold(number: int) -> None:
        begun.append(number)
        try:
            await trio.sleep_forever()
        finally:
            ended.append(number)

    async def fail() -> None:
        raise error

    with pytest.raises(BaseExceptionGroup) as caught:
        async with trio.open_nursery() as nursery:
            pool = CallTasks(nursery, Call.go)
            works = [partial(hold, number) for number in range(10)]
            start(pool, *works[:5], fail, *works[5:])
    assert caught.group_contains(error)
    assert begun == sorted(ended) == list(range(10))


async def test_a_nursery_that_is_cancelled_runs_what_was_started(autojump_clock):
    ended = []

    async def swallow() -> None:
        with pytest.raises(trio.Cancelled):
            await trio.sleep_forever()
        ended.append(current_task())

    async with trio.open_nursery() as nursery:
        pool = CallTasks(nursery, Call.go)
        await run(pool, none, none)
        start(pool, *[swallow] * 3)
        await trio.sleep(1)
        start(pool, *[swallow] * 50)
        nursery.cancel_scope.cancel()
    assert len(ended) == 53


async def test_a_task_with_an_open_nursery_is_not_reused(pool, caplog):
    left = []

    async def leave_open() -> None:
        left.append(trio.open_nursery())
        (await left[0].__aenter__()).start_soon(trio.sleep_forever)

    [first] = await run(pool, leave_open)
    assert "call left a nursery open; what ran in it is cancelled" in caplog.messages
    [second] = await run(pool, none)
    assert second.task is not first.task
    assert names(pool) == [IDLE]


async def test_nor_is_one_of_a_call_that_is_known_to_have_left_something(pool):
    [call] = start(pool, none)
    call.left_open = True
    await wait_all_tasks_blocked()
    [second] = await run(pool, none)
    assert second.task is not call.task


async def test_a_lock_that_a_call_still_holds_is_broken(pool):
    lock = trio.Lock()
    found = []

    async def use() -> None:
        try:
            await lock.acquire()
        except trio.BrokenResourceError:
            found.append("broken")
        else:
            found.append("held")
            await trio.lowlevel.checkpoint()

    await run(pool, *[use] * 3)
    await run(pool, use)
    assert found == ["held", *["broken"] * 3]


async def test_a_task_that_is_woken_and_cancelled_at_once_runs_its_call():
    ran = []

    async def note() -> None:
        ran.append(current_task().name)

    async with trio.open_nursery() as nursery:
        pool = CallTasks(nursery, Call.go)
        await run(pool, none)
        start(pool, note)
        nursery.cancel_scope.cancel()
    assert ran == ["call"]


async def test_cancelled_while_idle_a_task_is_not_sent_for():
    ran = []

    async def note() -> None:
        ran.append(True)

    async with trio.open_nursery() as nursery:
        pool = CallTasks(nursery, Call.go)
        await run(pool, none)
        nursery.cancel_scope.cancel()
        start(pool, note)
    assert ran == [True]


# -- together with a runner -----------------------------------------------------------------


class PooledDesk(Desk):
    """Runs the calls of one peer in a pool."""

    def __init__(self, nursery, slots: int = 10) -> None:
        super().__init__(nursery, slots)
        self.nursery = self
        self.pool = CallTasks(nursery, self.runner.run)

    def start_soon(self, run, request) -> None:
        self.pool.start_soon(request)


async def test_cancellation_reaches_one_call(nursery, autojump_clock):
    desk = PooledDesk(nursery)
    for id in range(5):
        desk.start(id, seconds=2)
    desk.cancel(1)  # before it has begun
    await trio.sleep(1)
    desk.cancel(3)
    await trio.sleep(3)
    assert sorted(desk.sent, key=str) == [(0, None), (1, None), *[(2, b"done")] * 3]


async def test_a_scope_that_a_call_has_left_open_does_not_hold_for_the_next(nursery, caplog):
    class Careless(Work):
        async def run(self, scope):
            if self.id == 1:
                with scope:
                    left.__enter__()
            return await super().run(scope)

    left = trio.CancelScope()
    desk = PooledDesk(nursery)
    desk.begin = lambda request, in_batch: Careless(request.id, **request.params)
    desk.start(1)
    await wait_all_tasks_blocked()
    assert caplog.messages == ["Internal error in work 1"]
    left.cancel()
    desk.start(2, seconds=0)
    await wait_all_tasks_blocked()
    assert [each for _, each in desk.sent][1:] == [b"done"]


async def test_a_call_that_does_not_end_holds_its_task_and_no_other_call(nursery, autojump_clock):
    desk = PooledDesk(nursery)
    desk.start(1, seconds=50, stubborn=100, timeout=3)
    desk.start(2, seconds=1)
    await trio.sleep(10)
    assert desk.sent == [(1, b"done"), (4, b"late")]
    for id in range(3, 20):
        desk.start(id, seconds=0)
        await trio.sleep(1)
    assert len(desk.sent) == 19
    assert len(desk.inbound) == 1
    await trio.sleep(100)
    assert len(desk.sent) == 19
    assert len(desk.inbound) == 0


# -- in the task of who hands a call over -----------------------------------------------------


@define(eq=False)
class Begun:
    """What became of a call that was begun in the task that had it."""

    call: Call
    asked: int = 0
    """How often the task was asked for."""
    goes_on: bool | None = None

    def ask(self) -> None:
        self.asked += 1

    async def begin(self, pool: CallTasks) -> None:
        pool.hold()
        pool.start_soon(self.call)
        assert pool.release(takes_one=True) is self.call
        before = current_task().name
        self.goes_on = await pool.begin_here(self.call, self.ask)
        assert (current_task().name == before) is self.goes_on


async def begin(pool: CallTasks, work: object) -> Begun:
    """Begin a call in a task that is not of the pool, and wait until it has ended, or waits."""
    begun = Begun(Call(work))
    pool.start_task(begun.begin, pool)
    await wait_all_tasks_blocked()
    return begun


async def test_a_call_alone_runs_in_the_task_that_hands_it_over(pool):
    begun = await begin(pool, none)
    assert (begun.goes_on, begun.asked) == (True, 0)
    assert names(pool) == []
    await run(pool, none)  # as ever
    assert names(pool) == [IDLE]


async def test_it_keeps_that_task_if_it_waits(pool):
    go_on = trio.Event()
    begun = await begin(pool, go_on.wait)
    assert (begun.goes_on, begun.asked) == (None, 1)
    assert names(pool) == ["call"]
    go_on.set()
    await wait_all_tasks_blocked()
    assert (begun.goes_on, begun.asked) == (False, 1)


@pytest.mark.parametrize("takes_one", [False, True])
async def test_calls_that_were_held_run_in_tasks_of_the_pool(pool, takes_one):
    pool.hold()
    calls = start(pool, none, *[none] * takes_one)
    await wait_all_tasks_blocked()
    assert names(pool) == []
    assert pool.release(takes_one=takes_one) is None
    await wait_all_tasks_blocked()
    assert all(each.task in pool.nursery.child_tasks for each in calls)
    pool.hold()
    assert pool.release(takes_one=takes_one) is None


@pytest.mark.parametrize("waits", [False, True])
async def test_a_task_in_which_it_has_left_something_does_not_go_on(pool, waits, caplog):
    left = []

    async def leave_open() -> None:
        VAR.set(1)
        left.append(trio.open_nursery())
        (await left[0].__aenter__()).start_soon(trio.sleep_forever)
        if waits:
            await trio.lowlevel.checkpoint()

    begun = await begin(pool, leave_open)
    assert (begun.goes_on, begun.asked) == (False, 1)
    assert "call left a nursery open; what ran in it is cancelled" in caplog.messages
    assert names(pool) == []

    async def set_variable() -> None:
        VAR.set(1)

    begun = await begin(pool, set_variable)
    assert (begun.goes_on, begun.asked) == (False, 1)


class Foreign:
    """What Trio refuses to wait for."""

    def __await__(self):
        yield self


async def test_what_trio_throws_into_a_task_reaches_the_call_in_it(pool):
    caught = []

    async def wait_wrongly() -> None:
        await trio.lowlevel.checkpoint()
        for _ in range(2):
            with pytest.raises(TypeError, match="unrecognized yield message") as refused:
                await Foreign()
            caught.append(refused.value)
        await trio.lowlevel.checkpoint()

    begun = await begin(pool, wait_wrongly)
    assert len(caught) == 2
    assert begun.goes_on is False


async def test_a_call_in_it_is_cancelled_as_in_any_other(nursery):
    ended = []

    async def last() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(True)

    async with trio.open_nursery() as inner:
        begun = await begin(CallTasks(inner, Call.go), last)
        inner.cancel_scope.cancel()
    assert ended == [True]
    assert begun.goes_on is None


# -- through a stream -----------------------------------------------------------------------


async def test_a_tool_sees_no_variables_of_another_call():
    async def change() -> str:
        before = VAR.get("nothing")
        VAR.set("mine")
        return str(before)

    async with serving(registry_of(change)) as (client, _):
        for _ in range(3):
            assert text_of(await client.call("change")) == "nothing"
        await client.send(*(client.request_of("tools/call", {"name": "change"}) for _ in range(50)))
        answers = await client.receive_many(50)
        assert {text_of(each) for each in answers.values()} == {"nothing"}


async def test_a_tool_sees_its_task_named_and_alive():
    async def look() -> str:
        task = current_task()
        await trio.lowlevel.checkpoint()
        alive = task is current_task() and task in task.parent_nursery.child_tasks
        return f"{task.name} {alive}"

    async with serving(registry_of(look)) as (client, _):
        assert text_of(await client.call("look")) == "Tool look True"
        assert text_of(await client.call("look")) == "Tool look True"


async def test_a_thousand_calls_that_never_wait_starve_nobody():
    """Neither the reader, nor a cancellation, nor the writer, nor other tasks of the program."""
    ran = 0
    turns = []

    async def count() -> str:
        nonlocal ran
        ran += 1
        return ""

    async def beside(*, task_status=trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            turns.append(ran)
            await trio.lowlevel.checkpoint()

    async with (
        serving(registry_of(count, wait), Limits(max_concurrent_calls=2000)) as (client, _),
        trio.open_nursery() as nursery,
    ):
        held = await client.start("wait", seconds=1000)
        await wait_all_tasks_blocked()
        await nursery.start(beside)
        calls = [client.request_of("tools/call", {"name": "count"}) for _ in range(1000)]
        await client.send(*calls)
        await client.cancel(held)
        answers = await client.receive_many(1000)
        assert held not in answers
        nursery.cancel_scope.cancel()
    assert ran == 1000
    steps = [later - earlier for earlier, later in pairwise(turns)]
    # Two tasks take turns, and the one that was cancelled takes one as well.
    assert max(steps) <= 4 * call_tasks.TURN


async def test_a_tool_that_swallows_its_cancellation_harms_no_other(autojump_clock):
    async def swallow() -> str:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            pass
        return "went on"

    async with serving(registry_of(swallow, echo)) as (client, _):
        for _ in range(3):
            id = await client.start("swallow")
            await wait_all_tasks_blocked()
            await client.cancel(id)
            assert text_of(await client.call("echo", text="a")) == "a"
            await trio.sleep(1)


async def test_the_end_of_a_connection_cancels_its_calls(autojump_clock):
    ended = []

    async def hold() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    async with serving(registry_of(hold), Limits(eof_grace=1)) as (client, _):
        for _ in range(3):
            await client.start("hold")
        await client.send_eof()
        assert len(await client.receive_all()) == 3
    assert ended == [1, 1, 1]
