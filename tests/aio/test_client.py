"""The client under asyncio: the same calls, callbacks and ends, from any task."""

import asyncio
import contextvars
import inspect
import random
import sys
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

import pytest
import trio

import trio_mcp
from tests.aio.support import Workshop, in_asyncio, open_descriptors, our_threads, until
from tests.support.processes import EXAMPLES, python
from trio_mcp import Connected, Connecting, Context, Disconnected, Handlers, ListChanged
from trio_mcp.aio import Client, Registry, connect, connect_all
from trio_mcp.aio.crossing import Mailbox
from trio_mcp.aio.inloop import Callback
from trio_mcp.aio.portal import Portal
from trio_mcp.aio.run import acquire
from trio_mcp.aio.wrappers import wrapper_of
from trio_mcp.errors import (
    AlreadyConnected,
    CallTimeout,
    CannotStart,
    McpError,
    NotConnected,
    ServerExited,
    UnknownTool,
)

CALCULATOR = python(EXAMPLES / "calculator.py")


# -- the face ---------------------------------------------------------------------------------


@pytest.mark.requirement("L1")
def test_it_has_every_method_of_the_trio_client_with_the_same_arguments():
    theirs = dict(inspect.getmembers(trio_mcp.Client, inspect.isfunction))
    for name, method in theirs.items():
        mine = getattr(Client, name)
        if name.startswith("_"):
            continue
        ours, wanted = inspect.signature(mine), inspect.signature(method)
        assert list(ours.parameters.values()) == list(wanted.parameters.values()), name
        if inspect.iscoroutinefunction(method):
            assert inspect.iscoroutinefunction(mine), name
            assert mine is not method, f"{name} does not cross over"
    crossing = {"states", "messages", "subscribe"}
    assert crossing == {
        name
        for name, method in theirs.items()
        if not name.startswith("_") and "Async" in str(inspect.signature(method).return_annotation)
    }
    assert crossing <= vars(Client).keys()
    assert list(inspect.signature(connect).parameters) == list(
        inspect.signature(trio_mcp.connect).parameters
    )


@pytest.mark.requirement("L1")
def test_a_further_class_gets_its_face_by_the_same_means():
    class Theirs:
        async def double(self, value):
            return 2 * value

        def plain(self):
            return "plain"

    @wrapper_of(Theirs)
    class Mine(Theirs):
        async def _cross(self, method, *args, **options):
            return "crossed", await method(self, *args, **options)

    assert asyncio.run(Mine().double(value=4)) == ("crossed", 8)
    assert Mine().plain() == "plain"


# -- calls ------------------------------------------------------------------------------------


@pytest.mark.requirement("L1")
@pytest.mark.parametrize("target", ["registry", "process"])
@in_asyncio
async def test_calls_and_their_errors(target):
    async with connect(Workshop() if target == "registry" else CALCULATOR) as client:
        assert client.revision == "2026-07-28"
        if target == "registry":
            assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
            assert len(await client.list_all("tools/list", "tools")) == 5
        else:
            assert await client.call_tool("add", {"a": 1, "b": 2}, returns=float) == 3
            assert (await client.call_tool("divide", {"a": 1, "b": 0})).error is not None
        many = [client.ping() for _ in range(64)]
        await asyncio.gather(*many)
        with pytest.raises(UnknownTool):
            await client.call_tool("nothing")
        assert len(our_threads()) == 1
    with pytest.raises(NotConnected, match="closed"):
        await client.ping()
    with pytest.raises(NotConnected, match="closed"):
        await client.subscribe().__aenter__()
    with pytest.raises(CannotStart):
        await connect(["/nonexistent/server"]).open()
    with pytest.raises(TypeError, match="connect needs"):
        connect(3)


@pytest.mark.requirement("L1")
@pytest.mark.parametrize("era", ["modern", "legacy"])
@in_asyncio
async def test_each_call_of_a_tool_ends_as_its_first_one_does(era):
    registry = trio_mcp.Registry("ends")
    cancelled: list[str] = []
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    @registry.tool
    async def wait() -> None:
        loop.call_soon_threadsafe(started.set)
        try:
            await trio.sleep_forever()
        finally:
            cancelled.append("wait")

    @registry.tool
    async def fail() -> None:
        raise trio_mcp.ToolError("no")

    @registry.tool
    async def refuse() -> None:
        raise McpError(-32055, "not today")

    @registry.tool
    async def ask(context: trio_mcp.Context) -> str:
        return str((await context.elicit("Name?", str)).value)

    @registry.tool
    async def count(context: trio_mcp.Context) -> dict[str, int]:
        for step in range(3):
            await context.progress(step)
        return {"steps": 3}

    async def answer(params):
        return {"action": "accept", "content": {"value": "Ada"}}

    async with connect(registry, era=era, handlers=Handlers(elicitation=answer)) as client:
        for number in range(1, 4):
            assert (await client.call_tool("ask")).text == "Ada"
            assert (await client.call_tool("count")).structured_content == {"steps": 3}
            assert (await client.call_tool("fail")).error == "no"
            with pytest.raises(McpError, match="not today"):
                await client.call_tool("refuse")
            started.clear()
            task = asyncio.create_task(client.call_tool("wait"))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await client.ping()
            await until(lambda number=number: len(cancelled) == number)
        client.tools["wait"].timeout = 0.05
        with pytest.raises(CallTimeout, match=r"within 0\.05 s"):
            await client.call_tool("wait")
        await until(lambda: len(cancelled) == 4)
        client.tools["wait"].timeout = 60
        started.clear()
        left = asyncio.create_task(client.call_tool("wait"))
        await started.wait()
    with pytest.raises(NotConnected):
        await left


@pytest.mark.requirement("L1")
@in_asyncio
async def test_calls_beyond_what_there_is_room_for_wait_for_it():
    registry = trio_mcp.Registry("long", version="1")

    @registry.tool
    async def length(text: str) -> int:
        return len(text)

    @registry.tool
    async def echo(text: str) -> str:
        return text

    limits = trio_mcp.Limits(max_outgoing_bytes=5000)
    async with connect(registry, limits=limits) as client:
        assert (await client.call_tool("length", {"text": "x"})).text == "1"
        calls = [client.call_tool("length", {"text": "x" * 4000}) for _ in range(20)]
        assert [result.text for result in await asyncio.gather(*calls)] == ["4000"] * 20
        calls = [client.call_tool("echo", {"text": "x" * 4000}) for _ in range(20)]  # both are full
        assert [result.text for result in await asyncio.gather(*calls)] == ["x" * 4000] * 20


@pytest.mark.requirement("L1")
@in_asyncio
async def test_the_trace_context_of_the_caller_crosses_over():
    seen = contextvars.ContextVar("seen")
    seen.set("by the caller")

    async def look():
        return seen.get(), threading.current_thread().name

    async with connect(Workshop()) as client:
        assert await client.run_in_trio(look) == ("by the caller", "trio-mcp")


@pytest.mark.requirement("L1")
@pytest.mark.parametrize("way", ["cancel", "timeout"])
@in_asyncio
async def test_a_cancelled_task_cancels_its_request(way):
    workshop = Workshop()
    async with connect(workshop, tool_timeout=60) as client:
        call = asyncio.ensure_future(client.call_tool("wait"))
        if way == "cancel":
            await until(lambda: workshop.events)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        else:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await call
        await until(lambda: workshop.events == ["began", "ended"])
        await client.ping()


@pytest.mark.requirement("L1")
@in_asyncio
async def test_when_the_server_dies_asyncio_is_woken_and_told_how():
    dying = [sys.executable, "-c", DYING]
    async with connect(dying, tool_timeout=60) as client:
        states = client.states()
        with pytest.raises(ServerExited) as failure:
            await client.call_tool("die")
        assert failure.value.returncode == 9
        with pytest.raises(ServerExited):
            await client.ping()
        found = [each async for each in states]
    assert found[0] == Connected()
    assert isinstance(found[-1].error, ServerExited)


DYING = """
import os, trio
from trio_mcp import Registry, serve
registry = Registry("dying")
@registry.tool
async def die() -> None:
    os._exit(9)
trio.run(serve, registry)
"""


# -- callbacks --------------------------------------------------------------------------------


@pytest.mark.requirement("L1")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("is_async", [False, True])
@in_asyncio
async def test_callbacks_run_in_the_loop_of_the_user(revision, is_async):
    told = []

    def note(*args):
        assert threading.current_thread() is threading.main_thread()
        told.append(args)

    async def note_later(*args):
        await asyncio.sleep(0)
        note(*args)

    async def agree(params):
        await asyncio.sleep(0)
        note(params["message"])
        return {"action": "accept", "content": {"value": True}}

    callback = note_later if is_async else note
    handlers = Handlers(elicitation=agree)
    options = {"handlers": handlers, "on_log": callback, "log_level": "info"}
    async with connect(Workshop(), revision=revision, **options) as client:
        assert await client.call_tool("count", {"to": 3}, on_progress=callback, returns=int) == 3
        assert told == [(0, 3, None), (1, 3, None), (2, 3, None)]
        assert await client.call_tool("confirm", returns=bool) is True
        assert told[3:] == [("Really?",)]
        await client.call_tool("warn")
        await until(lambda: told[4:] == [("warning", "hot", None)])


@pytest.mark.requirement("L1")
@in_asyncio
async def test_an_answer_that_is_no_longer_wanted_is_cancelled():
    events = []

    async def hesitate(params):
        events.append("asked")
        try:
            await asyncio.sleep(60)
        finally:
            events.append("cancelled")

    options = {"handlers": Handlers(elicitation=hesitate), "tool_timeout": 60}
    async with connect(Workshop(), **options) as client:
        call = asyncio.ensure_future(client.call_tool("confirm"))
        await until(lambda: events)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert events == ["asked", "cancelled"]


@pytest.mark.requirement("L1")
@in_asyncio
async def test_a_callback_that_fails_or_is_slow_harms_nobody(caplog):
    def fail(*args):
        raise ValueError("mine")

    async def fail_later(*args):
        raise ValueError("mine")

    async with connect(Workshop()) as client:
        for callback in (fail, fail_later):
            caplog.clear()
            await client.call_tool("count", {"to": 3}, on_progress=callback)
            assert [each.message for each in caplog.records] == ["A callback failed"] * 3


# -- iterators --------------------------------------------------------------------------------


@pytest.mark.requirement("L1")
@in_asyncio
async def test_states_messages_and_subscriptions_are_iterated_over():
    workshop = Workshop()
    connection = connect(workshop)
    states, messages = connection.states(), connection.messages()
    async with connection as client:
        assert b"workshop" in await anext(messages)
        later = client.messages()
        await client.ping()
        assert b'"result"' in await anext(later)
        async with client.subscribe(lists=["tools"]) as changes:
            assert changes.kinds == {"tools"}
            waiting = asyncio.ensure_future(anext(changes))
            await asyncio.sleep(0)
            waiting.cancel()
            workshop.remove_tool("warn")
            assert await anext(changes) == ListChanged("tools")
        with pytest.raises(ValueError, match="there is no list"):
            await client.subscribe(lists=["towels"]).__aenter__()
    assert [each async for each in states] == [Connecting(), Connected(), Disconnected()]


# -- opening and closing ----------------------------------------------------------------------


@pytest.mark.requirement("L1")
@in_asyncio
async def test_attempted_to_exit_cancel_scope_in_a_different_task():
    """The classic complaint: what one task opens, another one uses and a third one closes."""
    connection = connect(Workshop())
    client = await asyncio.create_task(connection.open())
    assert (await asyncio.create_task(client.call_tool("echo", {"text": "a"}))).text == "a"
    await asyncio.create_task(connection.aclose())
    await connection.aclose()  # which changes nothing
    with pytest.raises(AlreadyConnected):
        await connection.open()

    stack = AsyncExitStack()
    first = await asyncio.create_task(stack.enter_async_context(connect(Workshop())))
    second = await asyncio.create_task(stack.enter_async_context(connect(Workshop())))
    await asyncio.gather(first.ping(), second.ping())
    await asyncio.create_task(stack.aclose())


@pytest.mark.requirement("L1")
@in_asyncio
async def test_one_may_be_closed_while_another_is_open_and_in_the_order_of_opening():
    one, two = connect(Workshop()), connect(Workshop())
    _, second = await one.open(), await two.open()
    await one.aclose()
    await second.ping()
    async with aclosing(connect(Workshop())) as three:
        await (await three.open()).ping()
        await two.aclose()


@pytest.mark.requirement("L1")
@in_asyncio
async def test_what_still_runs_when_it_is_closed_is_told_so():
    workshop = Workshop()
    connection = connect(workshop, tool_timeout=60)
    client = await connection.open()
    call = asyncio.ensure_future(client.call_tool("wait"))
    await until(lambda: workshop.events)
    await connection.aclose()
    with pytest.raises(NotConnected, match="was closed here"):
        await call


@pytest.mark.requirement("L1")
@in_asyncio
async def test_who_is_cancelled_while_opening_leaves_nothing_behind():
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    for delay in (0, 0.001, 0.1):
        opening = asyncio.ensure_future(connect(silent).open())
        await asyncio.sleep(delay)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert our_threads() == []


async def close_while_it_opens(
    portal: Portal, is_under_way: threading.Event
) -> BaseException | None:
    """Close it at that moment, with no turn of the loop in between; returns what `open` raised."""
    opening = asyncio.ensure_future(portal.open())
    await asyncio.sleep(0)
    is_under_way.wait()
    await portal.aclose()
    return (await asyncio.gather(opening, return_exceptions=True))[0]


@pytest.mark.requirement("L1")
@pytest.mark.parametrize("way", ["wait", "fail", "open"])
@pytest.mark.parametrize("within", [False, True])
@in_asyncio
async def test_who_closes_what_is_being_opened_ends_that_and_who_opens_it_is_told(way, within):
    is_under_way = threading.Event()

    @asynccontextmanager
    async def block():
        is_under_way.set()
        try:
            if way != "open":
                await trio.sleep_forever()
            yield
        finally:
            if way == "fail":
                raise ValueError("mine")

    async with aclosing(connect(Workshop())) as connection:
        client = await connection.open()
        portal = Portal(block, lambda it: it, connection if within else None)
        error = await close_while_it_opens(portal, is_under_way)
        assert type(error) is (ValueError if way == "fail" else NotConnected)
        await client.ping()


@pytest.mark.requirement("L1")
@in_asyncio
async def test_what_is_being_opened_within_what_is_closed_ends_with_it():
    is_under_way = asyncio.Event()
    connection = connect(Workshop())
    await connection.open()

    @asynccontextmanager
    async def block():
        connection.tell(is_under_way.set)
        await trio.sleep_forever()
        yield

    opening = asyncio.ensure_future(Portal(block, lambda it: it, connection).open())
    await is_under_way.wait()
    await connection.aclose()
    with pytest.raises(NotConnected, match="was closed here"):
        await opening


@pytest.mark.requirement("L1")
@in_asyncio
async def test_what_is_posted_while_the_run_beside_the_loop_ends_is_not_lost(monkeypatch):
    run, told, put = acquire(), [], Mailbox.put

    def put_late(mailbox, message):
        """As if the thread that ends had its turn here."""
        monkeypatch.setattr(Mailbox, "put", put)
        run.abandon()
        run.join()
        mailbox.put(message)

    monkeypatch.setattr(Mailbox, "put", put_late)
    assert not run.is_over
    run.post(lambda: told.append("it"))
    assert run.is_over
    assert told == ["it"]
    await run.release()


def test_another_loop_is_told_what_to_do():
    loop = asyncio.new_event_loop()
    connection = connect(Workshop())
    client = loop.run_until_complete(connection.open())
    with pytest.raises(RuntimeError, match="in another event loop; open it in this one"):
        asyncio.run(client.ping())
    with pytest.raises(RuntimeError, match="in another event loop"):
        asyncio.run(connection.aclose())
    loop.run_until_complete(connection.aclose())
    loop.close()


def test_a_callback_that_is_told_of_more_meanwhile_lets_the_loop_have_its_turn():
    """As by a server that tells of progress faster than the user's function takes note of it."""
    told: list[int] = []
    turns: list[Callable[[], object]] = []

    def note(number: int) -> None:
        told.append(number)
        if number < 5:
            callback(number + 1)

    callback = Callback(turns.append, note)
    callback(0)
    for number in range(6):
        turns.pop()()
        assert told == list(range(number + 1))
    assert turns == []


@pytest.mark.requirement("L1")
async def test_under_trio_callbacks_are_plain_functions():
    """Here they may be `async def` ones, so who comes from here is told."""

    async def told(*args):
        raise AssertionError

    with pytest.raises(TypeError, match="on_log is called and not awaited"):
        trio_mcp.connect(Workshop(), on_log=told)
    async with trio_mcp.connect(Workshop()) as client:
        with pytest.raises(TypeError, match="on_progress is called and not awaited"):
            await client.call_tool("count", {"to": 1}, on_progress=told)


@pytest.mark.requirement("L1")
@in_asyncio
async def test_a_trio_proxy_in_asyncio_says_what_to_do():
    workshop = Workshop()
    for block in (
        trio_mcp.compose.open_proxy(workshop),
        trio_mcp.compose.open_gateway({"one": workshop}),
        trio_mcp.Remote(workshop).running(),
    ):
        with pytest.raises(RuntimeError, match=r"runs on Trio: call it from .*trio_mcp\.aio"):
            await block.__aenter__()


@pytest.mark.requirement("L1")
@in_asyncio
async def test_mistakes_with_connect_are_told_as_under_trio():
    registry = Registry("asking")

    @registry.tool
    async def ask(context: Context) -> bool:
        return (await context.elicit("Really?", bool)).value

    with pytest.raises(AttributeError, match=r"'call_tool'; the client has it: async with"):
        connect(registry).call_tool("ask")
    with pytest.raises(TypeError, match="handlers must be Handlers"):
        connect(registry, handlers={})
    handlers = Handlers(elicitation=lambda params: {"action": "decline"})
    async with connect(registry, handlers=handlers) as client:
        with pytest.raises(TypeError, match="so it must be an async function"):
            await client.call_tool("ask")


@pytest.mark.requirement("L1")
@in_asyncio
async def test_a_function_of_the_wrong_kind_in_a_handler_is_told_in_the_log(caplog):
    ours, theirs = trio_mcp.Registry("trio"), Registry("asyncio")

    @ours.tool
    async def ours_naps() -> None:
        await asyncio.sleep(0.1)

    @theirs.tool
    async def theirs_naps() -> None:
        await trio.sleep(0.1)

    told = {ours: "This function runs on Trio,", theirs: "This function runs on asyncio,"}
    for registry, words in told.items():
        async with connect(registry) as client:
            (name,) = client.tools
            assert "internal error" in ((await client.call_tool(name)).error or "")
        assert words in caplog.text


@pytest.mark.requirement("L1")
@pytest.mark.parametrize("sleeps", [0, None])
def test_what_asyncio_yields_under_trio_is_said_to_be_that(
    caplog: pytest.LogCaptureFixture, sleeps: float | None
) -> None:
    registry = trio_mcp.Registry("ours")

    @registry.tool
    async def nap() -> None:
        loop = asyncio.new_event_loop()
        try:
            await (loop.create_future() if sleeps is None else asyncio.sleep(sleeps))
        finally:
            loop.close()

    async def main() -> None:
        async with trio_mcp.connect(registry) as client:
            assert "internal error" in ((await client.call_tool("nap")).error or "")

    trio.run(main)
    assert "unrecognized yield message" in caplog.text
    assert caplog.text.count("with a trio_mcp.aio.Registry, or by @trio_mcp.aio.on_asyncio") == 1


@pytest.mark.requirement("L1")
@in_asyncio
async def test_a_trio_client_in_asyncio_says_what_to_do():
    async with connect_all({"one": Workshop()}) as group:
        clients = []

        async def leak():
            async with trio_mcp.connect(trio_mcp.Registry("theirs")) as client:
                clients.append(client)
                await trio.sleep_forever()

        leaking = asyncio.ensure_future(group.run_in_trio(leak))
        await until(lambda: clients)
        with pytest.raises(RuntimeError, match=r"this client runs on Trio.*trio_mcp\.aio"):
            await clients[0].ping()
        leaking.cancel()
        await asyncio.wait([leaking])


@pytest.mark.requirement("L1")
async def test_under_trio_it_is_said_where_to_go():
    with pytest.raises(RuntimeError, match="under Trio, take the same name from trio_mcp"):
        await connect(Workshop()).open()


# -- many servers -----------------------------------------------------------------------------


@pytest.mark.requirement("L1")
@in_asyncio
async def test_many_servers_are_one_group_under_asyncio():
    told, changes = [], []
    workshop = Workshop()

    async def agree(params):
        await asyncio.sleep(0)
        return {"action": "accept", "content": {"value": True}}

    async def note(*args):
        await asyncio.sleep(0)
        told.append(args)

    connections = connect_all(
        {"one": workshop, "two": CALCULATOR, "gone": ["/nonexistent/server"]},
        handlers=lambda server: Handlers(elicitation=agree),
        on_log=note,
        on_change=lambda *args: changes.append(args),
        log_level="info",
        reconnect_timeout=0.01,
        wait=60,
    )
    group = await asyncio.create_task(connections.open())
    states = group.states()
    assert {(await anext(states)).server for _ in range(3)} == {"one", "two", "gone"}
    assert await group.call_tool("two_add", {"a": 1, "b": 2}, returns=float) == 3
    assert await group.call_tool("one_confirm", returns=bool) is True
    await group.call_tool("one_count", {"to": 2}, on_progress=lambda *args: told.append(args))
    assert told == [(0, 2, None), (1, 2, None)]
    await group.call_tool("one_warn")
    await until(lambda: told[2:] == [("one", "warning", "hot", None)])
    client = await group.servers["two"].client()
    assert (await client.call_tool("two_add", {"a": 1, "b": 1})).text == "2.0"
    assert await (await group.servers["one"].client()).list_all("tools/list", "tools")
    with pytest.raises(UnknownTool):
        await group.call_tool("three_add")
    workshop.remove_tool("warn")
    await until(lambda: changes == [("one", ListChanged("tools"))])
    await until(lambda: "one_warn" not in group.tools)
    await asyncio.create_task(connections.aclose())


# -- quantities -------------------------------------------------------------------------------


async def use(workshop, chance, open_):
    """Open, use and close a handle, each in a task of its own; some are cancelled at any point."""
    connection = connect(workshop)
    client = await asyncio.create_task(connection.open())
    open_.append(connection)
    await asyncio.create_task(client.call_tool("echo", {"text": "x"}))
    if chance.random() < 0.2:
        call = asyncio.create_task(client.call_tool("wait", timeout=60))
        await asyncio.sleep(chance.random() * 0.002)
        call.cancel()
    await asyncio.sleep(chance.random() * 0.002)
    closing = open_.pop(chance.randrange(len(open_)))  # anybody's
    await asyncio.create_task(closing.aclose())


async def open_and_close(handles, workers, process_every=0):
    chance, open_, workshop = random.Random(handles), [], Workshop()
    todo = iter(range(handles))

    async def work():
        for number in todo:
            target = CALCULATOR if process_every and number % process_every == 0 else workshop
            if target is CALCULATOR:
                async with connect(target) as client:
                    await client.ping()
                continue
            user = asyncio.create_task(use(workshop, chance, open_))
            if chance.random() < 0.1:
                await asyncio.sleep(chance.random() * 0.003)
                user.cancel()
            await asyncio.wait([user])

    await asyncio.gather(*(work() for _ in range(workers)))
    await asyncio.gather(*(each.aclose() for each in open_))


def check_for_leaks(handles, workers, process_every=0):
    @in_asyncio
    async def run():
        await open_and_close(10, 2)
        descriptors = open_descriptors()
        await open_and_close(handles, workers, process_every)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert our_threads() == []
        assert open_descriptors() <= descriptors

    run()


@pytest.mark.requirement("L1")
def test_handles_are_opened_and_closed_in_any_order_by_competing_tasks():
    check_for_leaks(60, 8)


@pytest.mark.long
@pytest.mark.requirement("L1")
def test_a_thousand_handles_are():
    check_for_leaks(1000, 20, process_every=100)
