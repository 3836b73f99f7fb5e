"""A server's states, its handle, its lifespan, and the ways to end it."""

import signal
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from tests.support.client import LEGACY, RawClient, serving
from tests.support.tools import (
    each_revision,
    echo,
    error_of,
    linger,
    raw,
    registry_of,
    text_of,
    wait,
)
from trio_mcp import Context, Limits, Registry, ServerState, serve_stream
from trio_mcp.errors import LifespanError
from trio_mcp.server import lifecycle


@pytest.mark.requirement("B9")
async def test_a_third_signal_ends_the_process_without_delay(monkeypatch):
    ended = []
    monkeypatch.setattr(lifecycle, "end_soon", lambda *given: ended.append(given))
    monkeypatch.setattr(lifecycle, "end_by", ended.append)
    handle = lifecycle.Lifecycle()
    with lifecycle.stopping_at_signals(handle):
        signal.raise_signal(signal.SIGTERM)
        assert ended == []
        signal.raise_signal(signal.SIGTERM)
        assert ended == [(signal.SIGTERM, 1.0)]
        signal.raise_signal(signal.SIGINT)
    assert ended == [(signal.SIGTERM, 1.0), signal.SIGINT]


@pytest.mark.requirement("B10")
@pytest.mark.parametrize("how", ["eof", "stop", "shutdown", "cancel", "crash"])
async def test_the_states_come_in_order(how, autojump_clock):
    seen = []
    failures = []
    scope = trio.CancelScope()
    ours, theirs = memory_stream_pair()
    client = RawClient(ours)

    @asynccontextmanager
    async def lifespan(registry):
        yield
        if how == "crash":
            raise OSError("closing failed")

    async def run(task_status):
        try:
            with scope:
                registry = registry_of(wait, lifespan=lifespan)
                await serve_stream(registry, theirs, task_status=task_status)
        except LifespanError as error:
            failures.append(str(error))

    async def follow(handle):
        for state in (ServerState.RUNNING, ServerState.DRAINING, ServerState.STOPPED):
            await handle.wait_for(state)
            seen.append(handle.state)

    async with trio.open_nursery() as nursery:
        handle = await nursery.start(run)
        nursery.start_soon(follow, handle)
        await client.start("wait", seconds=0.2)
        await wait_all_tasks_blocked()
        if how == "shutdown":
            await client.send(client.request_of("shutdown"))
        elif how == "cancel":
            scope.cancel()
        elif how == "stop":
            handle.stop()
            handle.stop()
        else:
            await client.send_eof()
    drained = ServerState.STOPPED if how == "cancel" else ServerState.DRAINING
    assert seen == [ServerState.RUNNING, drained, ServerState.STOPPED]
    failure = "the lifespan of test failed: OSError: closing failed"
    assert failures == ([failure] if how == "crash" else [])
    handle.stop()
    assert handle.state is ServerState.STOPPED


@pytest.mark.requirement("B9")
@pytest.mark.parametrize(("grace", "finishes"), [(5, True), (3, True), (1, False), (0, False)])
async def test_stop_lets_calls_finish_within_the_grace(grace, finishes, autojump_clock):
    async with serving(registry_of(wait), Limits(shutdown_grace=grace)) as (client, handle):
        id = await client.start("wait", seconds=2)
        await wait_all_tasks_blocked()
        handle.stop()
        [answer] = await client.receive_all()
        assert answer["id"] == id
        assert ("result" in answer) is finishes
        if not finishes:
            assert error_of(answer) == (-32603, "Request cancelled")
        assert trio.current_time() == min(grace, 2)


@pytest.mark.requirement("B9")
async def test_the_grace_is_five_seconds_by_default(autojump_clock):
    async with serving(registry_of(wait)) as (client, handle):
        await client.start("wait", seconds=60)
        await wait_all_tasks_blocked()
        handle.stop()
        await wait_all_tasks_blocked()
        assert handle.state is ServerState.DRAINING
        assert len(await client.receive_all()) == 1
        assert trio.current_time() == 5
        assert handle.state is ServerState.STOPPED


@pytest.mark.requirement("B9")
async def test_after_stop_nothing_new_is_begun(autojump_clock):
    ran = []

    async def note(number: int) -> None:
        ran.append(number)

    async with serving(registry_of(wait, note)) as (client, handle):
        await client.start("wait", seconds=2)
        await wait_all_tasks_blocked()
        handle.stop()
        await client.start("note", number=1)
        await client.receive_all()
    assert ran == []


@pytest.mark.requirement("A16")
@each_revision
async def test_shutdown_is_acknowledged_and_drains(revision, autojump_clock):
    async with serving(registry_of(wait), revision=revision) as (client, handle):
        call = await client.start("wait", seconds=2)
        answer = await client.request("shutdown")
        assert {key for key in answer["result"] if not key.startswith("_")} <= {"resultType"}
        assert handle.state is not ServerState.STOPPED
        [last] = await client.receive_all()
        assert last["id"] == call
        assert text_of(last) == "waited 2"
        assert trio.current_time() == 2
        await handle.wait_for(ServerState.STOPPED)


@pytest.mark.requirement("A16", "B9")
async def test_what_follows_a_shutdown_at_once_is_refused(autojump_clock):
    async with serving(registry_of(echo)) as (client, _):
        call = client.request_of("tools/call", {"name": "echo", "arguments": {"text": "x"}})
        await client.send(client.request_of("shutdown"), call, client.request_of("ping"))
        first, *rest = await client.receive_all()
        assert first["result"] == {}
        assert [error_of(each)[0] for each in rest] == [-32603, -32603]


@pytest.mark.requirement("B9")
@pytest.mark.parametrize("revision", LEGACY[:2])  # later ones have no batches
async def test_a_batch_that_shuts_down(revision, autojump_clock):
    async with serving(registry_of(echo), revision=revision) as (client, _):
        await client.send([client.request_of("shutdown"), client.request_of("ping")])
        [[first, second]] = await client.receive_all()
        assert first["result"] == {}
        assert error_of(second)[0] == -32603


@pytest.mark.requirement("B9")
async def test_a_server_that_is_stopped_before_it_reads(autojump_clock):
    ours, theirs = memory_stream_pair()
    await ours.send_all(raw({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
    async with trio.open_nursery() as nursery:
        handle = await nursery.start(serve_stream, registry_of(echo), theirs)
        handle.stop()
        await handle.wait_for(ServerState.STOPPED)
    assert trio.current_time() == 0


@pytest.mark.requirement("B9")
@pytest.mark.parametrize("chunks", [1, 2])
async def test_a_server_that_is_stopped_in_the_middle_of_a_chunk(chunks, autojump_clock):
    """What was read is answered, also what the dispatcher had no room for yet."""
    limits = Limits(max_outgoing_bytes=100)
    async with serving(registry_of(echo), limits, pair=lockstep_stream_pair) as (client, handle):
        pings = [client.request_of("ping") for _ in range(100)]
        for chunk in range(chunks):
            await client.send(*pings[chunk::chunks])
            await wait_all_tasks_blocked()  # nobody reads the answers, so dispatching pauses
        handle.stop()
        await wait_all_tasks_blocked()
        answers = await client.receive_all()
        assert sorted(each["id"] for each in answers) == [each["id"] for each in pings]
        refused = [error_of(each) for each in answers if "error" in each]
        assert 50 < len(refused) < 100
        assert set(refused) == {(-32603, "Server is shutting down")}
        assert trio.current_time() == 0


# -- cancellation from outside ----------------------------------------------------------------


@pytest.mark.requirement("B9", "B13")
async def test_a_cancelled_server_cancels_its_calls_and_closes_its_lifespan(autojump_clock):
    span = Span()

    async def hold() -> None:
        try:
            await trio.sleep_forever()
        finally:
            span.events.append("cancelled")

    ours, theirs = memory_stream_pair()
    client = RawClient(ours)
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_stream, registry_of(hold, lifespan=span), theirs)
        await client.start("hold")
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert span.events == ["open", "cancelled", "close"]
    assert await client.receive_all() == []
    with pytest.raises(trio.ClosedResourceError):
        await theirs.send_all(b"x")


@pytest.mark.requirement("B9", "B13")
async def test_a_lifespan_that_fails_as_it_closes_is_heard_of_in_a_cancelled_server():
    @asynccontextmanager
    async def lifespan(registry):
        try:
            yield
        finally:
            raise OSError("closing failed")

    _, theirs = memory_stream_pair()
    closing = pytest.RaisesExc(LifespanError, match="OSError: closing failed")
    with pytest.RaisesGroup(closing):
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_stream, registry_of(echo, lifespan=lifespan), theirs)
            nursery.cancel_scope.cancel()


@pytest.mark.requirement("B8", "B9")
@pytest.mark.parametrize("reads", [True, False])
async def test_a_cancelled_server_still_writes_what_it_has_answered(reads, autojump_clock):
    ours, theirs = lockstep_stream_pair()
    client = RawClient(ours)
    async with trio.open_nursery() as nursery:
        server = trio.CancelScope()

        async def run(task_status):
            with server:
                await serve_stream(registry_of(echo), theirs, task_status=task_status)

        await nursery.start(run)
        await client.send(client.request_of("ping"))
        await wait_all_tasks_blocked()
        server.cancel()
        await trio.sleep(1.9)
        if reads:
            assert len(await client.receive_all()) == 1
    assert trio.current_time() == (1.9 if reads else 2)


@pytest.mark.requirement("B9")
async def test_a_tool_that_lingers_delays_a_cancelled_server_no_longer_than_itself(autojump_clock):
    ours, theirs = memory_stream_pair()
    client = RawClient(ours)
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_stream, registry_of(linger), theirs)
        await client.start("linger", seconds=50, more=3)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert trio.current_time() == 3


# -- lifespan ---------------------------------------------------------------------------------


class Span:
    """A lifespan that notes what happens."""

    def __init__(self) -> None:
        self.events: list[str] = []

    @asynccontextmanager
    async def __call__(self, registry: Registry):
        assert registry.name == "test"
        self.events.append("open")
        try:
            yield self
        finally:
            self.events.append("close")


async def note(what: str, context: Context) -> str:
    await trio.sleep(0.1)
    context.lifespan.events.append(what)
    return what


@pytest.mark.requirement("B13")
@pytest.mark.parametrize("how", ["eof", "stop"])
async def test_the_lifespan_is_around_all_requests(how, autojump_clock):
    span = Span()
    async with serving(registry_of(note, lifespan=span)) as (client, handle):
        await client.call("note", what="a")
        await client.call("note", what="b")
        await client.start("note", what="c")
        await wait_all_tasks_blocked()
        if how == "eof":
            await client.send_eof()
        else:
            handle.stop()
        await client.receive_all()
    assert span.events == ["open", "a", "b", "c", "close"]


@pytest.mark.requirement("B13")
async def test_connections_share_a_running_lifespan(autojump_clock):
    span = Span()
    registry = registry_of(note, lifespan=span)
    async with registry.running() as state:
        assert state is span
        async with serving(registry) as (one, _), serving(registry) as (two, _):
            await one.call("note", what="one")
            await two.call("note", what="two")
            await registry.call("note", {"what": "direct"})
        with pytest.raises(RuntimeError, match="running already"):
            async with registry.running():
                pass
    assert span.events == ["open", "one", "two", "direct", "close"]
    async with registry.running():  # and it can be run again
        pass
    assert span.events[-2:] == ["open", "close"]


@pytest.mark.requirement("B13")
async def test_connections_that_do_not_share_have_one_each(autojump_clock):
    span = Span()
    registry = registry_of(note, lifespan=span)
    async with serving(registry) as (one, _), serving(registry) as (two, _):
        await one.call("note", what="x")
        await two.call("note", what="y")
    assert span.events == ["open", "open", "x", "y", "close", "close"]


@pytest.mark.requirement("B13")
async def test_an_error_while_opening_is_the_lifespans():
    @asynccontextmanager
    async def lifespan(registry):
        raise OSError("no database")
        yield

    _, theirs = memory_stream_pair()
    with pytest.raises(LifespanError, match="OSError: no database") as caught:
        await serve_stream(registry_of(echo, lifespan=lifespan), theirs)
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(trio.ClosedResourceError):
        await theirs.send_all(b"x")


@pytest.mark.requirement("B13")
async def test_an_error_while_closing_comes_after_the_last_answer():
    @asynccontextmanager
    async def lifespan(registry):
        yield
        raise OSError("disk full")

    ours, theirs = memory_stream_pair()
    client = RawClient(ours)
    await client.start("echo", text="x")
    await client.send_eof()
    with pytest.raises(LifespanError, match="OSError: disk full") as caught:
        await serve_stream(registry_of(echo, lifespan=lifespan), theirs)
    assert isinstance(caught.value.__cause__, OSError)
    assert [text_of(each) for each in await client.receive_all()] == ["x"]


# -- context ----------------------------------------------------------------------------------


@pytest.mark.requirement("B13")
@each_revision
async def test_what_a_context_tells(revision):
    found = []

    async def look(context: Context, number: int = 0) -> None:
        found.append(context)

    registry = registry_of(look, lifespan=Span())
    async with serving(registry, revision=revision) as (client, _):
        [tool] = (await client.request("tools/list"))["result"]["tools"]
        assert set(tool["inputSchema"]["properties"]) == {"number"}
        meta = {"x.test/trace": "t1"}
        answer = await client.request("tools/call", {"name": "look", "_meta": meta})
    [context] = found
    assert context.tool == "look"
    assert isinstance(context.lifespan, Span)
    assert context.request_id == answer["id"]
    assert len(context.connection_id) == 16
    assert context.revision == revision
    assert (context.client.name, context.client.version) == ("test-client", "1.0")
    assert context.meta["x.test/trace"] == "t1"


async def test_each_connection_has_an_id_of_its_own():
    async def me(context: Context) -> str:
        return context.connection_id

    registry = registry_of(me)
    async with serving(registry) as (one, _), serving(registry) as (two, _):
        first, second = text_of(await one.call("me")), text_of(await two.call("me"))
        assert first != second
        assert text_of(await one.call("me")) == first


# -- lifespans that do not end --------------------------------------------------------------------


@asynccontextmanager
async def slow(registry):
    """Take long to close, after a nursery of its own has ended."""
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            yield
            nursery.cancel_scope.cancel()
    finally:
        await trio.sleep(100)


@pytest.mark.requirement("B9")
@pytest.mark.parametrize(("limits", "seconds"), [(Limits(), 5), (Limits(lifespan_timeout=2), 2)])
async def test_a_lifespan_that_does_not_close_is_cancelled(limits, seconds, caplog, autojump_clock):
    async with serving(registry_of(echo, lifespan=slow), limits) as (client, _):
        await client.call("echo", text="x")
    assert trio.current_time() == seconds
    what = f"The lifespan of test took longer than {seconds} s to close: cancelled"
    assert caplog.messages[-1] == what


@pytest.mark.requirement("B9")
async def test_a_lifespan_that_several_share_has_its_limit_too(caplog, autojump_clock):
    registry = registry_of(echo, lifespan=slow)
    with pytest.raises(KeyError):
        async with registry.running(limits=Limits(lifespan_timeout=3)):
            raise KeyError
    assert trio.current_time() == 3
    assert "took longer than 3 s" in caplog.text


@pytest.mark.requirement("B9")
async def test_a_lifespan_that_ignores_its_cancellation_is_waited_for(caplog, autojump_clock):
    """Where the process is not the server's own."""

    @asynccontextmanager
    async def stubborn(registry):
        yield
        with trio.CancelScope(shield=True):
            await trio.sleep(100)

    async with serving(registry_of(echo, lifespan=stubborn)):
        pass
    assert trio.current_time() == 100
    assert "The lifespan of test ignores its cancellation; it is waited for" in caplog.messages


@pytest.mark.requirement("B8", "B9", "B13")
@pytest.mark.parametrize("how", ["eof", "stop"])
async def test_a_tool_that_does_not_end_does_not_keep_the_lifespan_open(how, autojump_clock):
    closed = []

    @asynccontextmanager
    async def lifespan(registry):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            yield
            nursery.cancel_scope.cancel()
        closed.append(trio.current_time())

    async with serving(registry_of(linger, lifespan=lifespan)) as (client, handle):
        await client.start("linger", seconds=50, more=100)
        await wait_all_tasks_blocked()
        if how == "eof":
            await client.send_eof()
        else:
            handle.stop()
        assert (await client.receive())["error"]["message"] == "Request cancelled"
    grace = {"eof": 0.5, "stop": 5}[how]
    assert closed == [grace + 1 + 1], "the patience for the call, and again for its task"
    assert trio.current_time() == grace + 100
