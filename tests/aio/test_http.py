"""`http_app` on asyncio: under servers, mounted in frameworks, with handlers of both kinds."""

import asyncio
import gc
import json
import signal
import subprocess
import sys
import tracemalloc
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

import httpx2
import pytest
import trio
import uvicorn
from hypercorn.asyncio import serve as hypercorn
from hypercorn.config import Config
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

import trio_mcp
from tests.aio.support import Workshop, in_asyncio, until
from tests.store.redis_server import free_port
from tests.support.processes import ENVIRONMENT, TIME_LIMIT
from trio_mcp import Context, Handlers, HttpOptions, Limits, ListChanged
from trio_mcp.aio import Registry, connect, http_app, on_asyncio
from trio_mcp.errors import ProtocolError


def registry_for_asyncio(**options):
    """Handlers of all kinds that are written for asyncio."""
    registry = Registry("mixed", **options)
    registry.events = []

    @registry.tool
    async def nap(seconds: float, context: Context) -> str:
        await context.progress(1, total=2)
        registry.events.append("began")
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            registry.events.append("cancelled")
            raise
        return f"{context.tool} {context.lifespan}"

    @registry.tool
    async def confirm(context: Context) -> bool:
        await asyncio.sleep(0)
        return (await context.elicit("Really?", bool)).value

    @registry.tool
    def thread(text: str) -> str:
        return text

    @registry.tool(timeout=0.05)
    async def forever() -> None:
        await asyncio.sleep(3600)

    @registry.tool
    async def fail() -> None:
        raise trio_mcp.ToolError("mine")

    @registry.resource("mixed://{name}")
    async def resource(name: str) -> str:
        await asyncio.sleep(0)
        return name

    @registry.prompt
    async def prompt(name: str) -> str:
        await asyncio.sleep(0)
        return name

    @registry.completion(prompt="prompt", argument="name")
    async def names(value: str) -> list[str]:
        await asyncio.sleep(0)
        return [value + "!"]

    return registry


class WithoutSignals(uvicorn.Server):
    """One that leaves signals alone: it would end the process with them."""

    @contextmanager
    def capture_signals(self):
        yield


@asynccontextmanager
async def under_uvicorn(app, **options):
    """Serve an app in this loop; yields its URL."""
    config = uvicorn.Config(app, port=0, log_level="warning", **options)
    server = WithoutSignals(config)
    serving = asyncio.ensure_future(server.serve())
    await until(lambda: server.started or serving.done())
    if serving.done():
        await serving
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def under_hypercorn(app):
    port = free_port()
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.errorlog = None
    config.graceful_timeout = 0.1
    ending = asyncio.Event()
    serving = asyncio.ensure_future(hypercorn(app, config, shutdown_trigger=ending.wait))
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            break
        except ConnectionRefusedError:
            await asyncio.sleep(0.01)
    writer.close()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        ending.set()
        await serving


async def accept(params):
    await asyncio.sleep(0)
    return {"action": "accept", "content": {"value": True}}


async def use(url, registry, revision):
    options = {"revision": revision, "handlers": Handlers(elicitation=accept)}
    told = []
    async with connect(f"{url}/mcp", tool_timeout=60, **options) as client:
        arguments = {"seconds": 0}
        result = await client.call_tool("nap", arguments, on_progress=lambda *it: told.append(it))
        assert result.text == "nap open"
        assert told == [(1, 2, None)]
        assert await client.call_tool("confirm", returns=bool) is True
        assert await client.call_tool("thread", {"text": "x" * 10**6}, returns=str) == "x" * 10**6
        assert "timed out" in (await client.call_tool("forever")).error
        assert (await client.call_tool("fail")).error == "mine"
        assert (await client.read_resource("mixed://it")).text == "it"
        assert (await client.get_prompt("prompt", {"name": "it"})).messages[0].content.text == "it"
        assert (await client.complete("name", "a", prompt="prompt")).values == ["a!"]
        naps = [client.call_tool("nap", arguments) for _ in range(30)]
        assert {each.text for each in await asyncio.gather(*naps)} == {"nap open"}
        async with client.subscribe(lists=["tools"]) as changes:
            registry.tool(name=f"new-{revision}")(accept_nothing)
            assert await anext(changes) == ListChanged("tools")
        registry.events.clear()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.call_tool("nap", {"seconds": 3600}, timeout=60)
        await until(lambda: registry.events == ["began", "cancelled"])


async def accept_nothing() -> None:
    pass


@asynccontextmanager
async def lifespan(registry):
    """One that would notice if it were opened and closed in different tasks."""
    async with asyncio.TaskGroup():
        registry.events.append("opened")
        yield "open"
    registry.events.append("closed")


MOUNTS = {
    "alone": lambda app: app,
    "mounted": lambda app: Starlette(routes=[Mount("/", app)]),
    "at a path": lambda app: Starlette(routes=[Route("/mcp", app)]),
    "in a lifespan": lambda app: Starlette(
        routes=[Mount("/", app)], lifespan=lambda outer: app.running()
    ),
}


@pytest.mark.requirement("L1")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("mount", MOUNTS)
def test_all_that_a_registry_for_asyncio_offers_works_under_uvicorn(mount, revision):
    registry = registry_for_asyncio(lifespan=lifespan)

    @in_asyncio
    async def run():
        async with under_uvicorn(MOUNTS[mount](http_app(registry))) as url:
            await use(url, registry, revision)
            registry.events.clear()
        closed = mount not in (
            "mounted",
            "at a path",
        )  # where nobody says when it ends, it ends with the loop
        assert registry.events == ["closed"] * closed

    run()
    assert registry.events == ["closed"]


@pytest.mark.requirement("S5")
@in_asyncio
async def test_an_app_that_is_mounted_says_where_its_endpoint_is() -> None:
    app = Starlette(routes=[Mount("/mcp", http_app(Registry("there")))])
    async with under_uvicorn(app) as url:
        with pytest.raises(ProtocolError, match=r"the MCP endpoint is /mcp/mcp\."):
            async with connect(f"{url}/mcp"):
                pass


USER = ContextVar("the user", default="nobody")


class NotingTheUser:
    """Middleware of ASGI that says by a context variable who calls."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            USER.set(dict(scope["headers"])[b"x-user"].decode())
        await self.app(scope, receive, send)


@pytest.mark.requirement("S5")
@pytest.mark.parametrize("era", ["legacy", "modern"])
@in_asyncio
async def test_what_middleware_puts_into_context_variables_reaches_each_handler(era) -> None:
    registry, inner = Registry("users"), trio_mcp.Registry("inner")

    @registry.tool
    async def asynchronous() -> str:
        await asyncio.sleep(0)
        return USER.get()

    @registry.tool
    def thread() -> str:
        return USER.get()

    @inner.tool
    async def of_trio() -> str:
        return USER.get()

    registry.mount(inner)
    app = Starlette(routes=[Mount("/", http_app(registry))], middleware=[Middleware(NotingTheUser)])
    async with under_uvicorn(app) as url:
        for user in ("ada", "grace"):
            http = HttpOptions(headers={"X-User": user})
            async with connect(f"{url}/mcp", era=era, http=http) as client:
                for tool in client.tools:
                    assert (await client.call_tool(tool)).text == user


@pytest.mark.requirement("L1")
@in_asyncio
async def test_nothing_of_a_request_is_left_in_what_serves_the_next_one() -> None:
    registry = trio_mcp.Registry("one after the other")
    events = []

    @registry.tool
    async def swap(user: str) -> str:
        before = USER.get()
        USER.set(user)
        await trio.lowlevel.checkpoint()
        return before

    lock = trio.Lock()

    @registry.tool
    async def lock_it() -> str:
        try:
            await lock.acquire()
        except trio.BrokenResourceError:
            return "broken"
        return "held"

    @registry.tool
    async def wait() -> None:
        events.append("began")
        try:
            await trio.sleep_forever()
        finally:
            events.append("ended")

    async with (
        under_uvicorn(http_app(registry)) as url,
        connect(f"{url}/mcp", revision="2026-07-28") as client,
    ):
        for user in ("ada", "grace"):
            assert (await client.call_tool("swap", {"user": user})).text == "nobody"
            events.clear()
            waiting = asyncio.ensure_future(client.call_tool("wait"))
            await until(lambda: events == ["began"])
            waiting.cancel()  # and so the client closes the response
            await until(lambda: events == ["began", "ended"])
        assert (await client.call_tool("lock_it")).text == "held"
        assert (await client.call_tool("lock_it")).text == "broken"


@pytest.mark.requirement("L1")
@in_asyncio
async def test_it_works_under_hypercorn_on_asyncio():
    registry = registry_for_asyncio(lifespan=lifespan)
    async with under_hypercorn(http_app(registry)) as url:
        await use(url, registry, "2026-07-28")
    assert registry.events[-1] == "closed"


@pytest.mark.skipif(
    sys.version_info >= (3, 12),
    reason="with Python 3.12 and later, Hypercorn waits for connections before it cancels anything",
)
@pytest.mark.requirement("F5", "L1")
@in_asyncio
async def test_hypercorn_on_asyncio_cancels_requests_without_a_word_and_they_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trio_mcp.aio.http._LAST_WORDS", TIME_LIMIT)
    registry = Registry("slow")
    started = asyncio.Event()

    @registry.tool
    async def work() -> str:
        started.set()
        await asyncio.sleep(3600)
        return "done"

    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "work"}}
    accept = {"accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(timeout=TIME_LIMIT, trust_env=False, verify=False) as client:
        async with under_hypercorn(http_app(registry, sse_path="/sse")) as url:
            calling = asyncio.ensure_future(client.post(f"{url}/mcp", json=call, headers=accept))
            await started.wait()
            stream = client.stream("GET", f"{url}/sse")
            response = await stream.__aenter__()
        answer = await calling
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
        assert "is stopping" in answer.json()["error"]["message"]
        assert b"event: endpoint" in await response.aread(), "it ends as HTTP has it"
        await stream.__aexit__(None, None, None)


@pytest.mark.requirement("F5", "L1")
@in_asyncio
async def test_calls_have_their_grace_when_the_lifespan_ends():
    registry = registry_for_asyncio(lifespan=lifespan)
    started, go_on = asyncio.Event(), asyncio.Event()

    @registry.tool
    async def work() -> str:
        started.set()
        await go_on.wait()
        return ", ".join(registry.events)

    app = http_app(registry)
    transport = httpx2.ASGITransport(app)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "work"}}
    accept = {"accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        async with app.running():
            calling = asyncio.ensure_future(client.post("/mcp", json=call, headers=accept))
            await started.wait()
            ending = asyncio.ensure_future(asyncio.sleep(0))
            ending.add_done_callback(lambda _: go_on.set())
        assert "closed" not in (await calling).text
    assert registry.events[-1] == "closed"


@pytest.mark.requirement("L1")
async def test_the_same_app_runs_on_a_server_of_trio():
    app = http_app(Workshop())
    messages, sent = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}], []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message["type"])

    await app({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.requirement("L1")
@in_asyncio
async def test_trio_handlers_and_asyncio_handlers_stand_side_by_side():
    registry = Workshop()

    @registry.tool
    @on_asyncio
    async def there(seconds: float) -> str:
        """Sleep there."""
        await asyncio.sleep(seconds)
        return "there"

    assert registry.tools["there"].description.description == "Sleep there."
    async with connect(registry) as client:
        assert (await client.call_tool("there", {"seconds": 0})).text == "there"
        assert (await client.call_tool("echo", {"text": "here"})).text == "here"


@pytest.mark.requirement("L1")
@in_asyncio
async def test_a_registry_for_asyncio_is_called_and_opened_from_asyncio():
    registry = registry_for_asyncio(lifespan=lifespan)
    assert await registry.call("nap", {"seconds": 0}) == "nap open"
    async with registry.running() as state:
        assert state == "open"
        assert await registry.call("nap", {"seconds": 0}) == "nap open"
    assert registry.events == ["opened", "began", "closed", "opened", "began", "closed"]


@pytest.mark.requirement("L1")
async def test_a_handler_for_asyncio_is_told_where_it_can_be_served(caplog):
    registry = Workshop()
    registry.add_tool(on_asyncio(accept_nothing))
    async with trio_mcp.connect(registry) as client:
        assert (await client.call_tool("accept_nothing")).error is not None
    assert "put it in a Registry of trio_mcp.aio, or serve it by http_app" in caplog.text
    with pytest.raises(TypeError, match="async def"):
        on_asyncio(len)


# -- what can go wrong ------------------------------------------------------------------------


@pytest.mark.requirement("L1")
@in_asyncio
async def test_a_lifespan_that_fails_is_told_and_tried_again():
    tries = []

    @asynccontextmanager
    async def failing(registry):
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("no database")
        yield

    app, said = http_app(registry_for_asyncio(lifespan=failing)), []

    async def receive():
        return {"type": "lifespan.startup"}

    async def send(message):
        said.append(message)

    await app({"type": "lifespan"}, receive, send)
    assert said == [{"type": "lifespan.startup.failed", "message": "LifespanError"}]
    tries.clear()
    async with under_uvicorn(Starlette(routes=[Mount("/", app)])) as url:
        async with httpx2.AsyncClient(verify=False) as client:
            assert (await client.get(f"{url}/health")).status_code == 500
            assert (await client.get(f"{url}/health")).status_code == 200


@pytest.mark.requirement("L1")
@in_asyncio
async def test_a_client_that_leaves_cancels_its_request():
    registry = registry_for_asyncio()
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "nap", "arguments": {"seconds": 3600}},
    }
    accepted = {"accept": "application/json, text/event-stream"}
    async with under_uvicorn(http_app(registry)) as url:
        async with httpx2.AsyncClient(verify=False) as client:
            posting = asyncio.ensure_future(client.post(f"{url}/mcp", json=body, headers=accepted))
            await until(lambda: registry.events)
            posting.cancel()
            await asyncio.wait([posting])
            await until(lambda: registry.events == ["began", "cancelled"])


@pytest.mark.requirement("L1")
@in_asyncio
async def test_a_client_that_does_not_read_stops_the_work():
    registry, said = Registry("flood"), []

    @registry.tool
    async def flood(context: Context) -> None:
        while True:
            await context.info("x" * 100)
            said.append(1)

    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/logLevel": "info",
    }
    params = {"name": "flood", "arguments": {}, "_meta": meta}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    body = [{"type": "http.request", "body": json.dumps(call).encode()}]
    headers = {
        "host": "127.0.0.1",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "flood",
    }
    scope = {"type": "http", "method": "POST", "path": "/mcp", "client": ("127.0.0.1", 1)}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
    sent = []

    async def receive():
        return body.pop() if body else await asyncio.Event().wait()

    async def send(message):
        sent.append(message)
        if message.get("body"):
            await asyncio.Event().wait()  # nobody reads

    app = http_app(registry, limits=Limits(max_outgoing_bytes=10_000))
    async with app.running():
        answering = asyncio.ensure_future(app(scope, receive, send))
        await until(lambda: len(said) > 10)
        before = 0
        while len(said) > before:  # until it waits for who does not read
            before = len(said)
            await asyncio.sleep(0.1)
        assert len(said) < 500
        assert [each["type"] for each in sent] == [
            "http.response.start",
            *2 * ["http.response.body"],
        ]
        answering.cancel()
        await asyncio.wait([answering])
        assert answering.cancelled()


@pytest.mark.requirement("L1")
@in_asyncio
async def test_a_handler_that_ignores_its_cancellation_keeps_nobody_waiting():
    registry = Registry("stubborn")
    may_end = asyncio.Event()

    @registry.tool(timeout=0.01)
    async def stubborn() -> None:
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                pass

    app = http_app(registry, limits=Limits(cancel_timeout=0.01))
    async with under_uvicorn(app) as url, connect(f"{url}/mcp") as client:
        assert "timed out" in (await client.call_tool("stubborn")).error
        may_end.set()


@pytest.mark.requirement("L1")
@in_asyncio
async def test_a_body_that_comes_in_parts_is_read_and_bounded():
    async def parts(size):
        for _ in range(size):
            yield b" " * 1000

    limits = Limits(max_message_bytes=10_000)
    async with under_uvicorn(http_app(Workshop(), limits=limits)) as url:
        async with httpx2.AsyncClient(verify=False) as client:
            headers = {"content-type": "application/json", "accept": "*/*"}
            for size, status in ((5, 400), (11, 413)):
                response = await client.post(f"{url}/mcp", content=parts(size), headers=headers)
                assert response.status_code == status


@pytest.mark.requirement("L1")
def test_the_app_for_trio_says_what_to_do_under_asyncio():
    sent = []

    async def receive():
        return {"type": "lifespan.startup"}

    async def send(message):
        sent.append(message)

    app = trio_mcp.http_app(Workshop())
    asyncio.run(app({"type": "lifespan"}, receive, send))
    assert sent[0]["type"] == "lifespan.startup.failed"
    assert "from trio_mcp.aio import http_app" in sent[0]["message"]
    with pytest.raises(RuntimeError, match=r"from trio_mcp\.aio import"):
        asyncio.run(app({"type": "http", "headers": []}, receive, send))


SERVING = """
import uvicorn
from trio_mcp.aio import Registry, http_app
uvicorn.run(http_app(Registry("ending")), port=0)
"""


@pytest.mark.long
@pytest.mark.requirement("L1")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_streams_without_an_end_do_not_keep_a_server_from_stopping(number):
    command = [sys.executable, "-c", SERVING]
    server = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)

    @in_asyncio
    async def run():
        running = (line for line in server.stderr if "Uvicorn running" in line)
        port = next(running).partition("127.0.0.1:")[2].split()[0]
        async with connect(f"http://127.0.0.1:{port}/mcp") as client:
            async with client.subscribe(lists=["tools"]) as changes:
                server.send_signal(number)
                assert [each async for each in changes] == []

    try:
        run()
        _, said = server.communicate(timeout=TIME_LIMIT)
    finally:
        server.kill()
    assert server.returncode in (0, -number)
    assert "Application shutdown complete" in said
    assert "Traceback" not in said.replace("KeyboardInterrupt", "")


@pytest.mark.requirement("F4", "L1")
@in_asyncio
async def test_what_is_kept_of_a_client_lets_in_only_the_same_request_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trio_mcp.aio.http._CONNECTIONS", 2)
    app = http_app(Registry("kept"))
    ping = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"accept": "application/json, text/event-stream"}

    async def ask(port: int, **headers: str) -> int:
        address = ["127.0.0.1", port]  # some servers have a list, others a tuple
        transport = httpx2.ASGITransport(app, client=address)  # type: ignore[arg-type]
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.post("/mcp", json=ping, headers={**accept, **headers})).status_code

    async with app.running():
        for _ in range(2):
            for port in (1, 2, 3):  # one more than are kept
                assert await ask(port) == 200
                assert await ask(port, host="evil.example") == 403
                assert await ask(port, origin="http://evil.example") == 403
                assert await ask(port, accept="text/html") == 406


@pytest.mark.requirement("L1")
@in_asyncio
async def test_long_heads_are_not_kept() -> None:
    app = http_app(Registry("heads"))

    async def ask(port: int) -> int:
        transport = httpx2.ASGITransport(app, client=("127.0.0.1", port))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.get("/mcp", headers={"x": "x" * 1_000_000})).status_code

    async with app.running():
        await ask(1)
        tracemalloc.start()
        try:
            for port in range(2, 10):
                assert await ask(port) == 405
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] < 2_000_000
        finally:
            tracemalloc.stop()
