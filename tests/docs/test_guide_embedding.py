"""The guide on embedding: who owns what, where exceptions go, and what each way in can do."""

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import orjson
import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from tests.docs.pages import blocks_of
from tests.docs.test_readme import table
from tests.support.client import modern_meta
from tests.support.processes import ENVIRONMENT, ROOT, TIME_LIMIT, call, lines, running
from tests.support.tools import echo, registry_of, wait
from trio_mcp import (
    Context,
    ControlRouter,
    HttpOptions,
    McpError,
    Registry,
    ServerHandle,
    ServerState,
    ToolError,
    connect,
    handle_message,
    http_app,
    serve_http,
    serve_stream,
)
from trio_mcp.errors import ConnectionLost, LifespanError

GUIDE = ROOT / "docs" / "guides" / "embedding.md"
CONTEXT = ROOT / "docs" / "guides" / "context.md"


class Lifespan:
    """Says when it is opened and closed, and can fail at either."""

    def __init__(self, opening: Exception | None = None, closing: Exception | None = None) -> None:
        self.opening, self.closing = opening, closing
        self.events: list[str] = []

    @asynccontextmanager
    async def __call__(self, registry: Registry) -> AsyncIterator[list[str]]:
        if self.opening is not None:
            raise self.opening
        self.events.append("open")
        try:
            yield self.events
            self.events.append("closed")
        finally:
            self.events.append("finally")
        if self.closing is not None:
            raise self.closing


async def note(word: str, context: Context) -> str:
    context.lifespan.append(word)
    return word


# -- states and lifespans ---------------------------------------------------------------------


async def test_the_states_are_those_of_the_table() -> None:
    (states,) = (what for name, what in table(GUIDE, "Handle") if name == "`state`")
    assert all(f"`{state.name}`" in states for state in ServerState)
    _, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        handle: ServerHandle = await nursery.start(serve_stream, registry_of(echo), theirs)
        seen = [handle.state]
        handle.stop()
        handle.stop()
        for state in (ServerState.STARTING, ServerState.DRAINING, ServerState.STOPPED):
            await handle.wait_for(state)
            seen.append(handle.state)
        running, draining, stopped = list(ServerState)[1:]
        assert seen == [running, running, draining, stopped]


async def test_who_shares_a_lifespan() -> None:
    lifespan = Lifespan()
    registry = registry_of(note, lifespan=lifespan)
    message = lines(call(1, "note", word="message"))

    async def use_it() -> None:
        await registry.call("note", {"word": "call"})
        await handle_message(registry, message)
        async with connect(registry) as client:
            await client.call_tool("note", {"word": "client"})

    await use_it()
    words = ["call", "message", "client"]
    assert lifespan.events == [
        each for word in words for each in ("open", word, "closed", "finally")
    ]
    lifespan.events.clear()
    async with registry.running():
        await use_it()
        with pytest.raises(RuntimeError, match=r"^registry 'test' is running already$"):
            await registry.running().__aenter__()
    assert lifespan.events == ["open", *words, "closed", "finally"]


async def test_a_unix_socket_will_do(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with trio.socket.socket(trio.socket.AF_UNIX) as server:
        await server.bind(path)
        server.listen()
        async with trio.open_nursery() as nursery:
            serve_client = partial(serve_stream, registry_of(echo))
            listeners = [trio.SocketListener(server)]
            await nursery.start(trio.serve_listeners, serve_client, listeners)
            async with connect(await trio.open_unix_socket(path)) as client:
                assert (await client.call_tool("echo", {"text": "x"})).text == "x"
            nursery.cancel_scope.cancel()


# -- without a connection ---------------------------------------------------------------------


async def ask(context: Context) -> bool:
    await context.progress(1)
    return (await context.elicit("Well?", bool)).value


async def test_who_cannot_be_asked() -> None:
    registry = registry_of(ask)
    with pytest.raises(McpError) as refused:
        await registry.call("ask")
    assert refused.value.code == -32600

    params = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    subscribe = {"jsonrpc": "2.0", "id": 3, "method": "resources/subscribe"}
    async with ControlRouter({"test": registry}) as router:

        async def route(message: Any) -> Any:
            request = {"subtype": "mcp_message", "server_name": "test", "message": message}
            envelope = {"type": "control_request", "request_id": "r", "request": request}
            answer: Any = await router.handle(envelope)
            return answer["response"]["response"]["mcp_response"]

        assert "result" in await route(hello)
        assert (await route(call(2, "ask")))["error"]["code"] == -32600
        assert "error" in await route(subscribe)

    listen = {
        "jsonrpc": "2.0",
        "id": 4,
        "method": "subscriptions/listen",
        "params": {"notifications": {"toolsListChanged": True}, "_meta": modern_meta()},
    }
    answer = orjson.loads(await handle_message(registry, lines(listen)) or b"")
    assert answer["error"]["code"] == -32601


# -- who owns which task ----------------------------------------------------------------------


async def test_a_task_in_a_nursery_of_the_applications_outlives_the_call(
    autojump_clock: MockClock,
) -> None:
    done: list[float] = []

    async def work() -> None:
        await trio.sleep(100)
        done.append(trio.current_time())

    async with trio.open_nursery() as nursery:

        async def begin() -> None:
            nursery.start_soon(work)

        registry = registry_of(begin, tool_timeout=5)
        async with connect(registry) as client:
            assert (await client.call_tool("begin")).success
    assert done == [100]


async def test_cancelling_a_server_closes_its_lifespan_and_writes_what_is_answered(
    autojump_clock: MockClock,
) -> None:
    lifespan = Lifespan()
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        registry = registry_of(wait, lifespan=lifespan)
        await nursery.start(serve_stream, registry, theirs)
        await ours.send_all(lines(call(1, "wait", seconds=100), call(2, "wait", seconds=0)))
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert lifespan.events == ["open", "finally"]
    answers = bytes(await ours.receive_some()).splitlines()
    assert [orjson.loads(each)["id"] for each in answers] == [2]
    assert await ours.receive_some() == b""


# -- where exceptions go ----------------------------------------------------------------------


async def test_exceptions_of_a_tool(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ToolError("no")

    async def crash() -> None:
        raise OSError("secret")

    registry = registry_of(fail, crash, echo)
    async with connect(registry) as client:
        assert (await client.call_tool("fail")).error == "no"
        told = (await client.call_tool("crash")).error
        assert told is not None
        assert "secret" not in told
        assert "secret" in caplog.text
        assert (await client.call_tool("echo", {"text": "x"})).success
    with pytest.raises(ToolError, match="no"):
        await registry.call("fail")
    with pytest.raises(OSError, match="secret"):
        await registry.call("crash")


@pytest.mark.parametrize("over_http", [False, True])
async def test_exceptions_of_a_lifespan(over_http: bool) -> None:
    for lifespan in (Lifespan(opening=OSError("door")), Lifespan(closing=OSError("door"))):
        registry = registry_of(echo, lifespan=lifespan)
        serve: Any = partial(serve_stream, registry, memory_stream_pair()[1])
        if over_http:
            serve = partial(serve_http, registry, port=0)
        started = False
        with pytest.RaisesGroup(pytest.RaisesExc(LifespanError, match="OSError: door")):
            async with trio.open_nursery() as nursery:
                handle = await nursery.start(serve)
                started = True
                handle.stop()
        assert started is (lifespan.opening is None)


async def test_a_port_that_is_taken() -> None:
    async with trio.open_nursery() as nursery:
        first = await nursery.start(partial(serve_http, registry_of(echo), port=0))
        with pytest.RaisesGroup(OSError):
            async with trio.open_nursery() as inner:
                await inner.start(partial(serve_http, registry_of(echo), port=first.port))
        first.stop()


async def test_a_connection_that_breaks_is_no_exception() -> None:
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, registry_of(echo), theirs)
        await wait_all_tasks_blocked()
        assert nursery.child_tasks
        await trio.aclose_forcefully(ours)
        await wait_all_tasks_blocked()
        assert not nursery.child_tasks


def _holds(error: BaseException, kind: type[Exception]) -> bool:
    cause = error.__cause__
    return isinstance(cause, ExceptionGroup) and cause.subgroup(kind) is not None


@pytest.mark.parametrize("over_http", [False, True])
@pytest.mark.parametrize("whose", ["a lifespan's", "the application's"])
async def test_exceptions_of_tasks_beside_the_calls(whose: str, over_http: bool) -> None:
    crash = trio.Event()
    ended: list[str] = []

    async def fail() -> None:
        await crash.wait()
        raise OSError("beside")

    @asynccontextmanager
    async def lifespan(registry: Registry) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            if whose == "a lifespan's":
                nursery.start_soon(fail)
            yield
            nursery.cancel_scope.cancel()

    async def work() -> None:
        try:
            crash.set()
            await trio.sleep_forever()
        finally:
            ended.append("cancelled")

    registry = registry_of(work, lifespan=lifespan)
    ours, theirs = memory_stream_pair()
    serve: Any = partial(serve_stream, registry, theirs)
    if over_http:
        serve = partial(serve_http, registry, port=0)
    failure = pytest.RaisesExc(OSError, match="beside")
    if whose == "a lifespan's":
        failure = pytest.RaisesExc(LifespanError, check=lambda error: _holds(error, OSError))
    with trio.fail_after(TIME_LIMIT), pytest.RaisesGroup(failure, flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            handle = await nursery.start(serve)
            if whose == "the application's":
                nursery.start_soon(fail)
            if over_http:
                with suppress(ConnectionLost):
                    async with connect(handle.url, tool_timeout=TIME_LIMIT) as client:
                        await client.call_tool("work")
            else:
                await ours.send_all(lines(call(1, "work")))
            await trio.sleep_forever()
    assert ended == ["cancelled"]
    assert handle.state is ServerState.STOPPED


# -- asyncio ----------------------------------------------------------------------------------


def test_asyncio_cannot_run_it() -> None:
    async def ignore(_: Any) -> None:
        pass

    async def lifespan() -> Any:
        return {"type": "lifespan.startup"}

    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message["type"])

    async def main() -> None:
        with pytest.raises((RuntimeError, AttributeError)):
            await handle_message(registry_of(echo), lines(call(1, "echo", text="x")))
        await http_app(registry_of(echo))({"type": "lifespan"}, lifespan, send)

    asyncio.run(main())
    assert said == ["lifespan.startup.failed"]


def test_what_a_context_has_is_named() -> None:
    public = [each.name for each in attrs.fields(Context) if not each.name.startswith("_")]
    assert [name for name in public if f"`{name}`" not in CONTEXT.read_text()] == []


@pytest.mark.long
async def test_the_app_serves_inside_another_one_as_the_guide_says(tmp_path: Path) -> None:
    (module,) = (each for each in blocks_of(GUIDE) if each.file == "press_site.py")
    (tmp_path / "press_site.py").write_text(module.text)
    (command,) = re.findall(r"^hypercorn (.*)$", GUIDE.read_text(), re.MULTILINE)
    (path,) = re.findall(r"`http://127\.0\.0\.1:8001(/\w+/mcp)`", GUIDE.read_text())
    words = command.replace(":8001", ":0").split()
    environment = ENVIRONMENT | {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
    async with running([sys.executable, "-m", "hypercorn", *words], env=environment) as server:
        await server.said(b"Running on")
        (url,) = re.findall(rb"Running on (\S+)", bytes(server.stderr))
        http = HttpOptions(trust_env=False)
        for era in ("modern", "legacy"):
            async with connect(f"{url.decode()}{path}", http=http, era=era) as client:
                assert (await client.call_tool("pages", {"title": "Emma"})).text == "4"
        server.signal(signal.SIGTERM)
        assert await server.exit() == 0
