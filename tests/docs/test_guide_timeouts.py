"""The guide on time-outs: its numbers are those of the code, and what it says happens."""

import inspect
import logging
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from tests.docs.test_readme import table
from tests.support.client import serving
from tests.support.processes import ROOT, TIME_LIMIT, call, lines, running, workshop
from tests.support.tools import echo, error_of, failure_of, linger, registry_of, text_of, wait
from tests.transports.http.support import LegacyClient, ModernClient, Worker, hosting
from trio_mcp import (
    Client,
    Context,
    Handlers,
    HttpOptions,
    Limits,
    McpError,
    Registry,
    SessionOptions,
    ToolError,
    connect,
    handle_message,
    serve_http,
    serve_stream,
)
from trio_mcp.cli.options import ConnectionOptions
from trio_mcp.client.connect import Target
from trio_mcp.client.negotiation import Era
from trio_mcp.errors import CallTimeout

GUIDE = ROOT / "docs" / "guides" / "timeouts.md"
STOPPING = ROOT / "docs" / "guides" / "stopping.md"

Connected = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(params=["modern stream", "legacy stream", "modern in process", "legacy in process"])
def connected(request: pytest.FixtureRequest) -> Connected:
    """Connects to a registry."""
    era, _, where = request.param.partition(" ")

    @asynccontextmanager
    async def connect_to(
        registry: Registry, limits: Limits | None = None, **options: Any
    ) -> AsyncIterator[Client]:
        with trio.fail_after(1e6):  # a deadlock jumps there at once, where the clock does
            async with trio.open_nursery() as nursery:
                target: Target = registry
                if where == "stream":
                    target, theirs = memory_stream_pair()
                    await nursery.start(run_stream, registry, theirs, limits)
                async with connect(target, era=era, limits=limits, **options) as client:
                    yield client

    return connect_to


async def run_stream(
    registry: Registry,
    stream: trio.abc.Stream,
    limits: Limits | None,
    task_status: trio.TaskStatus[Any],
) -> None:
    await serve_stream(registry, stream, limits=limits, task_status=task_status)


# -- numbers ----------------------------------------------------------------------------------


def test_limits_are_those_of_the_code() -> None:
    defaults = inspect.signature(connect).parameters
    numbers = [cells[2] for cells in table(GUIDE, "Limit")]
    assert numbers == [
        f"{seconds:g} s"
        for seconds in (
            Limits().tool_timeout,
            defaults["tool_timeout"].default,
            defaults["request_timeout"].default,
            defaults["connect_timeout"].default,
            ConnectionOptions().timeout,
        )
    ]


def test_graces_are_those_of_the_code() -> None:
    graces = {
        field.strip("`"): grace for _, grace, field in table(STOPPING, "What happens") if field
    }
    assert graces == {
        "Limits.eof_grace": f"{Limits().eof_grace:g} s",
        "Limits.shutdown_grace": f"{Limits().shutdown_grace:g} s",
    }
    ends = {what: fate for what, fate, _ in table(GUIDE, "What ends a call")}
    assert ends["the input ends"] == f"cancelled after {Limits().eof_grace:g} s"
    assert ends["the server is stopped"] == f"cancelled after {Limits().shutdown_grace:g} s"


# -- which limit applies ----------------------------------------------------------------------


@pytest.mark.parametrize("own", [None, 3])
@pytest.mark.parametrize("of_registry", [None, 4])
@pytest.mark.parametrize("of_limits", [60, 5])
async def test_whose_limit_a_function_has(
    own: float | None, of_registry: float | None, of_limits: float, autojump_clock: MockClock
) -> None:
    registry = Registry("test", tool_timeout=of_registry)
    registry.add_tool(wait, timeout=own)
    registry.add_resource("x://slow", sleeping_resource, timeout=own)
    registry.add_prompt(sleeping_prompt, name="slow", timeout=own)
    registry.add_completion(sleeping_completer, prompt="slow", argument="a", timeout=own)
    seconds = own or of_registry or of_limits
    after = f"timed out after {seconds:g} s"
    async with connect(registry, limits=Limits(tool_timeout=of_limits)) as client:
        result = await client.call_tool("wait", {"seconds": 1000}, timeout=100)
        assert result.error == f"Tool wait {after}"
        with pytest.raises(McpError, match=f"^Resource x://slow {after}") as told:
            await client.read_resource("x://slow", timeout=100)
        assert told.value.code == -32603
        with pytest.raises(McpError, match=f"^Prompt slow {after}"):
            await client.get_prompt("slow", {"a": "b"}, timeout=100)
        with pytest.raises(McpError, match=f"^Completion of a of slow {after}"):
            await client.complete("a", "b", prompt="slow", timeout=100)
    start = trio.current_time()
    with pytest.raises(trio.TooSlowError):
        await registry.call("wait", {"seconds": 1000}, limits=Limits(tool_timeout=of_limits))
    assert trio.current_time() - start == seconds


async def sleeping_resource() -> str:
    await trio.sleep(1000)
    return ""


async def sleeping_prompt(a: str) -> str:
    await trio.sleep(1000)
    return a


async def sleeping_completer(value: str) -> list[str]:
    await trio.sleep(1000)
    return [value]


async def test_whose_limit_a_client_has(connected: Connected, autojump_clock: MockClock) -> None:
    async with connected(registry_of(wait)) as client:
        for expected in (5, 4, 3):
            start = trio.current_time()
            words = f"^tool 'wait': no answer within {expected} s"
            hint = (
                ""
                if expected == 3
                else r" \(to wait longer: .*connect\(tool_timeout=\.\.\.\), .*\)"
            )
            with pytest.raises(CallTimeout, match=f"{words}{hint}$"):
                timeout = 3 if expected == 3 else None
                await client.call_tool("wait", {"seconds": 1000}, timeout=timeout)
            assert trio.current_time() - start == expected
            client.tools["wait"].timeout = 4
    async with connected(registry_of(wait), tool_timeout=70) as client:
        result = await client.call_tool("wait", {"seconds": 1000})
        assert result.error == "Tool wait timed out after 60 s", "the one that passes first counts"
    assert issubclass(CallTimeout, TimeoutError)


async def test_a_published_limit_is_that_of_the_client_as_well(
    connected: Connected, autojump_clock: MockClock
) -> None:
    registry = registry_of(wait)
    registry.add_tool(wait, name="slow", timeout=30)
    async with connected(registry) as client:
        if client.revision >= "2025-06-18":
            assert client.tools["slow"].details["_meta"] == {"trio-mcp/timeout": 30}
        assert [each.timeout for each in client.tools.values()] == [5, 31]
        result = await client.call_tool("slow", {"seconds": 1000})
        assert result.error == "Tool slow timed out after 30 s"
    async with connected(registry, max_timeout=20) as client:
        assert client.tools["slow"].timeout == 20
    async with connected(registry, max_timeout=0) as client:
        assert client.tools["slow"].timeout == 5


async def test_progress_extends_the_client_s_limit_and_not_the_server_s(
    connected: Connected, autojump_clock: MockClock
) -> None:
    async def report(context: Context) -> None:
        for number in range(100):
            await context.progress(number)
            await trio.sleep(1)

    call = {"on_progress": lambda *_: None}
    async with connected(registry_of(report, tool_timeout=10), max_timeout=8) as client:
        for options, expected in ((call, 8), ({}, 8), (call | {"timeout": 3}, 3)):
            start = trio.current_time()
            with pytest.raises(CallTimeout):
                await client.call_tool("report", **options)
            assert trio.current_time() - start == expected
    async with connected(registry_of(report)) as client:
        for options in (call, {}):
            result = await client.call_tool("report", **options)
            assert result.error == "Tool report timed out after 60 s"


@pytest.mark.parametrize("where", ["connection", "tool"])
async def test_what_is_waited_for_at_whose_expense(where: str, autojump_clock: MockClock) -> None:
    """A call waits 50 s for another one, and then takes 20 s."""
    registry = registry_of(tool_timeout=60)
    registry.add_tool(wait, max_concurrent=1 if where == "tool" else None)
    limits = Limits(max_concurrent_calls=1 if where == "connection" else 2)
    async with serving(registry, limits) as (client, _):
        first = await client.start("wait", seconds=50)
        await wait_all_tasks_blocked()
        second = await client.start("wait", seconds=20)
        answers = await client.receive_many(2)
    assert list(answers) == [first, second]
    assert ("isError" not in answers[second]["result"]) is (where == "connection")


async def test_a_thread_is_waited_for_at_the_tools_expense(mock_clock: MockClock) -> None:
    begun = [trio.Event(), trio.Event()]

    async def take_time(number: int) -> None:
        begun[number].set()
        await trio.sleep(50)

    def work(number: int) -> None:
        trio.from_thread.run(take_time, number)

    registry = registry_of(work, tool_timeout=60)
    async with serving(registry, Limits(max_worker_threads=1)) as (client, _):
        first = await client.start("work", number=0)
        await begun[0].wait()
        second = await client.start("work", number=1)
        await wait_all_tasks_blocked()
        mock_clock.jump(50)
        assert "isError" not in (await client.answer_to(first))["result"]
        await begun[1].wait()
        mock_clock.jump(10)
        assert failure_of(await client.answer_to(second)) == "Tool work timed out after 60 s"
        mock_clock.jump(50)


# -- what a tool notices ----------------------------------------------------------------------


async def test_what_a_cancelled_tool_does_is_dropped(
    connected: Connected, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    seen: list[str] = []

    async def swallow() -> str:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            return "late"

    async def complain() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("in its clean-up")

    async def clean_up() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(0.5, shield=True):
                await trio.sleep(0.4)
                seen.append("shielded")
            await trio.sleep(0)
            seen.append("not shielded")

    async with connected(registry_of(swallow, complain, clean_up, tool_timeout=2)) as client:
        for name in ("swallow", "complain", "clean_up"):
            result = await client.call_tool(name)
            assert result.error == f"Tool {name} timed out after 2 s"
    assert seen == ["shielded"]
    errors = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
    assert errors == ["Tool complain failed while it was cancelled"]


async def test_a_limit_of_its_own(connected: Connected, autojump_clock: MockClock) -> None:
    async def patient() -> None:
        with trio.move_on_after(30) as scope:
            await trio.sleep_forever()
        if scope.cancelled_caught:
            raise ToolError("Only half of it was done.")

    async with connected(registry_of(patient), tool_timeout=100) as client:
        assert (await client.call_tool("patient")).error == "Only half of it was done."


# -- threads ----------------------------------------------------------------------------------


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What threads wait for; it is set in the end."""
    event = threading.Event()
    yield event
    event.set()


async def test_what_a_thread_notices(
    release: threading.Event,
    connected: Connected,
    caplog: pytest.LogCaptureFixture,
    mock_clock: MockClock,
) -> None:
    told: list[float] = []
    heard = trio.Event()
    seen: dict[str, str] = {}
    over = threading.Event()

    def plain(context: Context) -> None:
        trio.from_thread.run(context.progress, 1)
        release.wait(10)
        trio.from_thread.run(context.progress, 2)
        seen["run"] = "goes on"
        try:
            trio.from_thread.check_cancelled()
        except trio.Cancelled:
            seen["check_cancelled"] = "raises"
        over.set()
        raise ValueError("nobody hears of this")

    def hear(step: float, *_: object) -> None:
        told.append(step)
        heard.set()

    async def time_out() -> None:
        await heard.wait()
        mock_clock.jump(2)

    async with connected(registry_of(plain, tool_timeout=2)) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(time_out)
            result = await client.call_tool("plain", on_progress=hear)
        assert result.error == "Tool plain timed out after 2 s"
        release.set()
        await trio.to_thread.run_sync(over.wait, 10)
        await wait_all_tasks_blocked()
    assert seen == {"run": "goes on", "check_cancelled": "raises"}
    assert told == [1]
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_a_thread_of_an_async_tool_is_waited_for(
    connected: Connected, mock_clock: MockClock
) -> None:
    seen: list[str] = []
    begun = trio.Event()

    def read() -> None:
        trio.from_thread.run_sync(begun.set)
        try:
            trio.from_thread.run(trio.sleep_forever)
        except trio.Cancelled:
            seen.append("raises")
            raise

    async def work() -> None:
        try:
            await trio.to_thread.run_sync(read)
        finally:
            seen.append("waited for it")

    async def time_out() -> None:
        await begun.wait()
        mock_clock.jump(2)

    async with connected(registry_of(work, tool_timeout=2)) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(time_out)
            result = await client.call_tool("work")
        assert result.error == "Tool work timed out after 2 s"
    assert seen == ["raises", "waited for it"]


async def test_when_all_threads_are_stuck(
    release: threading.Event, autojump_clock: MockClock
) -> None:
    def stuck() -> None:
        release.wait(10)

    async with serving(registry_of(stuck, tool_timeout=2)) as (client, _):
        ids = [await client.start("stuck") for _ in range(Limits().max_worker_threads)]
        await wait_all_tasks_blocked()
        ids.append(await client.start("stuck"))  # it never gets a thread
        answers = await client.receive_many(len(ids))
        assert {failure_of(each) for each in answers.values()} == {"Tool stuck timed out after 2 s"}
        assert "timed out" in failure_of(await client.call("stuck"))


# -- tools that do not stop -------------------------------------------------------------------


async def test_a_tool_that_does_not_stop_on_a_stream(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    registry = registry_of(linger, echo, tool_timeout=10)
    async with serving(registry, Limits(max_concurrent_calls=1)) as (client, handle):
        answer = await client.call("linger", seconds=100, more=50)
        assert failure_of(answer) == "Tool linger timed out after 10 s"
        assert trio.current_time() == 11
        assert "Tool linger goes on after its time limit" in caplog.messages
        assert text_of(await client.call("echo", text="x")) == "x"
        assert trio.current_time() == 60, "its place was taken until it ended"
        id = await client.start("linger", seconds=100, more=50)
        await wait_all_tasks_blocked()
        handle.stop()
        assert error_of((await client.receive_many(1))[id]) == (-32603, "Request cancelled")
        assert trio.current_time() == 60 + 5 + 1
    assert trio.current_time() == 60 + 5 + 50, "serve_stream waits for it"


async def test_a_tool_that_does_not_stop_in_a_process() -> None:
    async with running(workshop(shutdown_grace=0, cancel_timeout=0)) as server:
        await server.client.send_bytes(lines(call(1, "stubborn")))
        await server.said(b"stubborn runs")
        server.signal(signal.SIGTERM)
        (answer,) = await server.client.receive_all()
        assert error_of(answer) == (-32603, "Request cancelled")
        assert await server.exit() == 70
    last = server.stderr.decode().splitlines()[-1]
    assert last == "Tool stubborn ignores its cancellation; the process exits"


@pytest.mark.parametrize("kind", [ModernClient, LegacyClient])
async def test_a_tool_that_does_not_stop_over_http(
    kind: Any, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async with hosting(registry_of(linger, tool_timeout=10)) as host:
        client = kind(host)
        if kind is LegacyClient:
            await client.initialize()
        response = await client.begin_call("linger", seconds=100, more=50).complete()
        assert failure_of(response.json()) == "Tool linger timed out after 10 s"
        assert trio.current_time() == 11
        assert "Tool linger goes on after its time limit" in caplog.messages
    assert trio.current_time() == 60


@pytest.mark.parametrize("how", ["connect", "handle_message"])
async def test_a_tool_that_does_not_stop_elsewhere(how: str, autojump_clock: MockClock) -> None:
    """Its caller is told when it has ended."""
    registry = registry_of(linger, tool_timeout=10)
    arguments: dict[str, Any] = {"seconds": 100, "more": 50}
    if how == "connect":
        async with connect(registry, tool_timeout=200) as client:
            text = (await client.call_tool("linger", arguments)).error or ""
    else:
        message = lines(call(1, "linger", **arguments))
        text = str(await handle_message(registry, message))
    assert "Tool linger timed out after 10 s" in text
    assert trio.current_time() == 60


async def test_a_tool_that_blocks_outlasts_its_limit(autojump_clock: MockClock) -> None:
    """Nobody notices a time limit meanwhile."""

    async def block() -> str:
        autojump_clock.jump(2)  # as `time.sleep(2)` would
        return "done"

    async with serving(registry_of(block, tool_timeout=1)) as (client, _):
        assert text_of(await client.call("block")) == "done"


# -- questions --------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["stream", "in process"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_questions_stop_all_clocks(era: Era, where: str, autojump_clock: MockClock) -> None:
    async def ask(context: Context, after: float) -> bool:
        answer = await context.elicit("Well?", bool)
        await trio.sleep(after)
        return answer.value

    async def think(params: Any) -> dict[str, Any]:
        await trio.sleep(200)
        return {"action": "accept", "content": {"value": True}}

    registry = registry_of(ask, tool_timeout=4)
    async with trio.open_nursery() as nursery:
        target: Target = registry
        if where == "stream":
            target, theirs = memory_stream_pair()
            await nursery.start(run_stream, registry, theirs, None)
        async with connect(target, era=era, handlers=Handlers(elicitation=think)) as client:
            assert (await client.call_tool("ask", {"after": 3})).text == "true"
            result = await client.call_tool("ask", {"after": 30}, timeout=500)
            assert result.error == "Tool ask timed out after 4 s"


async def test_a_question_has_a_limit_of_its_own(autojump_clock: MockClock) -> None:
    heard: list[str] = []

    async def ask(context: Context) -> str:
        try:
            await context.elicit("Well?", bool)
        except McpError as error:
            heard.append(error.message)
        return "no answer"

    capabilities: dict[str, Any] = {"elicitation": {}}
    async with serving(registry_of(ask), capabilities=capabilities) as (client, _):
        await client.start("ask")
        assert (await client.receive())["method"] == "elicitation/create"
        await client.receive()  # the question is called off
        assert text_of(await client.receive()) == "no answer"
        assert trio.current_time() == 300
    assert heard == ["The client did not answer elicitation/create within 300 s"]


# -- what the caller gets, and when -----------------------------------------------------------


async def test_a_client_that_goes_on_at_once(autojump_clock: MockClock) -> None:
    """It does not wait for a clean-up; only leaving the block does, in the same process."""
    for where, waits in (("stream", 0), ("in process", 50)):
        registry = registry_of(linger)
        async with trio.open_nursery() as nursery:
            target: Target = registry
            if where == "stream":
                target, theirs = memory_stream_pair()
                await nursery.start(run_stream, registry, theirs, None)
            async with connect(target) as client:
                start = trio.current_time()
                with trio.move_on_after(3):
                    await client.call_tool("linger", {"seconds": 100, "more": 50})
                assert trio.current_time() - start == 3
            assert trio.current_time() - start == 3 + waits


@pytest.mark.parametrize("outcome", ["cancelled", "timeout"])
async def test_the_log_has_one_line(
    outcome: str, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    caplog.set_level(logging.INFO)
    seconds = {"cancelled": 0.2, "timeout": 10}[outcome]
    async with serving(registry_of(wait, tool_timeout=10)) as (client, _):
        id = await client.start("wait", seconds=100)
        await trio.sleep(seconds)
        if outcome == "cancelled":
            await client.cancel(id)
        await wait_all_tasks_blocked()
    (line,) = (each for each in caplog.messages if each.startswith("Tool wait: "))
    assert line == f"Tool wait: {outcome} in {seconds * 1000:.1f} ms"


async def test_a_call_that_ends_with_the_input(autojump_clock: MockClock) -> None:
    async with serving(registry_of(wait)) as (client, _):
        brief = await client.start("wait", seconds=0.4)
        long = await client.start("wait", seconds=100)
        await wait_all_tasks_blocked()
        await client.send_eof()
        answers = await client.receive_many(2)
    assert text_of(answers[brief]) == "waited 0.4"
    assert error_of(answers[long]) == (-32603, "Request cancelled")
    assert trio.current_time() == 0.5


async def test_a_call_when_the_server_is_stopped(autojump_clock: MockClock) -> None:
    async with serving(registry_of(wait)) as (client, handle):
        brief = await client.start("wait", seconds=4.9)
        long = await client.start("wait", seconds=100)
        await wait_all_tasks_blocked()
        handle.stop()
        answers = await client.receive_many(2)
    assert text_of(answers[brief]) == "waited 4.9"
    assert error_of(answers[long]) == (-32603, "Request cancelled")
    assert trio.current_time() == 5


async def test_a_call_when_the_task_that_serves_is_cancelled(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            await nursery.start(run_stream, registry_of(wait), theirs, None)
            await ours.send_all(lines(call(1, "wait", seconds=100)))
            await wait_all_tasks_blocked()
            scope.cancel()
    assert await ours.receive_some() == b""
    assert trio.current_time() == 0


async def test_a_call_whose_answer_nobody_takes(autojump_clock: MockClock) -> None:
    """Nothing can be written any more, so the calls that run are cancelled at once."""
    ended: list[float] = []

    async def wait_and_tell(seconds: float) -> None:
        try:
            await trio.sleep(seconds)
        finally:
            ended.append(trio.current_time())

    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        await nursery.start(run_stream, registry_of(wait_and_tell), theirs, None)
        await ours.send_all(lines(call(1, "wait_and_tell", seconds=100)))
        await ours.send_all(lines(call(2, "wait_and_tell", seconds=3)))
        await wait_all_tasks_blocked()
        await ours.receive_stream.aclose()
    assert ended == [3, 3]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_over_http_a_call_that_is_cut_short_is_answered(era: Era) -> None:
    worker = Worker()
    async with trio.open_nursery() as nursery:
        limits = Limits(shutdown_grace=0)
        serve = partial(serve_http, worker.registry, port=0, limits=limits)
        server = await nursery.start(serve)

        async def stop() -> None:
            await worker.until(running=1)
            server.stop()

        nursery.start_soon(stop)
        async with connect(server.url, era=era, http=HttpOptions(reconnect_attempts=0)) as client:
            with pytest.raises(McpError, match="Request cancelled"):
                await client.call_tool("work", timeout=TIME_LIMIT)
    assert worker.cancelled == 1


async def test_over_http_a_server_that_stops_begins_nothing_that_lasts() -> None:
    async with hosting(registry_of(echo)) as host:
        client = ModernClient(host)
        host.app.stop()
        assert (await client.post(client.request_of("tools/list"))).status == 200
        legacy = LegacyClient(host)
        listen = client.request_of("subscriptions/listen", {"notifications": {}})
        for refused in (
            await client.post(listen),
            await legacy.post(legacy.initialize_request()),
        ):
            assert (refused.status, "retry-after" in refused.headers) == (503, True)


# -- over HTTP --------------------------------------------------------------------------------


@pytest.mark.parametrize("row", range(4), ids=["modern", "session", "batch", "stateless"])
async def test_what_becomes_of_a_call_whose_client_leaves(row: int) -> None:
    fates = [fate for _, fate in table(GUIDE, "Who loses the connection")]
    worker = Worker()
    async with hosting(worker.registry, sessions=SessionOptions(stateless=row == 3)) as host:
        client: ModernClient | LegacyClient = ModernClient(host)
        if row == 2:
            client = LegacyClient(host, "2025-03-26")
            await client.initialize()
            params = {"name": "work_quietly", "arguments": {}}
            response = client.send([client.request_of("tools/call", params)])
        else:
            if row:
                client = LegacyClient(host, headers={"mcp-protocol-version": "2025-11-25"})
            if isinstance(client, LegacyClient) and row == 1:
                await client.initialize()
            response = client.begin_call("work_quietly")
        await worker.until(running=1)
        response.disconnect()
        await response.end()
        worker.go_on.set()
        await worker.until(running=0)
    assert worker.finished == (1 if row == 1 else 0)
    goes_on = "it goes on; the client comes back for the answer with `Last-Event-ID`"
    assert fates[min(row, 2)] == (goes_on if row == 1 else "it is cancelled")


async def test_the_end_of_a_session_cancels_its_calls() -> None:
    worker = Worker()
    async with hosting(worker.registry) as host:
        client = LegacyClient(host)
        await client.initialize()
        response = client.begin_call("work")
        await worker.until(running=1)
        assert await client.delete() == 200
        await response.end()
        await worker.until(running=0)
    assert (worker.finished, worker.cancelled) == (0, 1)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_hanging_up_leaves_the_call_alone(era: Era, autojump_clock: MockClock) -> None:
    async def work(context: Context) -> str:
        context.close_sse_stream()
        await trio.sleep(10)
        return "done"

    async with hosting(registry_of(work)) as host:
        client = ModernClient(host) if era == "modern" else LegacyClient(host)
        if isinstance(client, LegacyClient):
            await client.initialize()
        response = await client.begin_call("work").end()
        assert (trio.current_time() == 0) is (era == "legacy")
        messages = await response.messages()
        if isinstance(client, LegacyClient):
            assert messages == []
            prime, bye = response.events
            assert (prime.retry, bye.retry) == (None, 1000)
            messages = await client.get(prime.id).messages()
        assert text_of(messages[-1]) == "done"
        assert trio.current_time() == 10


async def test_hanging_up_does_nothing_anywhere_else(
    connected: Connected, autojump_clock: MockClock
) -> None:
    async def work(context: Context) -> str:
        context.close_sse_stream()
        await trio.sleep(1)
        return "done"

    async with connected(registry_of(work)) as client:
        assert (await client.call_tool("work")).text == "done"
