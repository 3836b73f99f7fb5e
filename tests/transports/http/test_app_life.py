"""The life of the app: its lifespan, its end, and the servers that it runs under."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
import trustme
from hypercorn.config import Config
from hypercorn.trio import serve as hypercorn
from trio.testing import wait_all_tasks_blocked

from tests.store.redis_server import free_port
from tests.support.tools import echo, registry_of, text_of
from tests.transports.http.asgi_server_support import MemoryListener
from tests.transports.http.sockets import TIME_LIMIT, Served, Wire, served
from tests.transports.http.support import (
    Host,
    LegacyClient,
    ModernClient,
    Worker,
    each_manner,
    hosting,
    legacy,
    modern,
    progress_meta,
)
from trio_mcp import (
    Context,
    HttpPolicy,
    Limits,
    Registry,
    ServerState,
    http_app,
    serve_http,
)
from trio_mcp.errors import LifespanError

# -- the lifespan ---------------------------------------------------------------------------------


class Shop:
    """A registry with a lifespan, and what happened to it."""

    def __init__(self, opens: str = "", closes: str = "") -> None:
        self.happened: list[str] = []
        self.opens = opens
        self.closes = closes
        self.worker = Worker()
        self.registry = Registry("shop", lifespan=self.lifespan)
        self.registry.add_tool(self.look)
        self.registry.add_tool(self.worker.work)

    @asynccontextmanager
    async def lifespan(self, registry: Registry) -> AsyncIterator[str]:
        if self.opens:
            raise RuntimeError(self.opens)
        self.happened.append("opened")
        yield "the till"
        self.happened.append("closed")
        if self.closes:
            raise RuntimeError(self.closes)

    async def look(self, context: Context) -> str:
        """Look at the state."""
        self.happened.append("looked")
        return str(context.lifespan)


class Lifespan:
    """The lifespan of an app, as an ASGI server handles it."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.sent: list[dict[str, Any]] = []
        self.ended = trio.Event()
        self._to_app, self._receive = trio.open_memory_channel[dict[str, Any]](2)

    async def run(self) -> None:
        await self.app({"type": "lifespan", "asgi": {"version": "3.0"}}, self.receive, self.send)
        self.ended.set()

    async def receive(self) -> dict[str, Any]:
        return await self._receive.receive()

    async def send(self, message: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        self.sent.append(message)

    async def phase(self, name: str) -> dict[str, Any]:
        """Begin a phase, and return what the app says about it."""
        self._to_app.send_nowait({"type": f"lifespan.{name}"})
        await wait_all_tasks_blocked()
        return self.sent[-1]


@pytest.mark.requirement("F6")
async def test_the_lifespan_protocol() -> None:
    shop = Shop()
    app = http_app(shop.registry)
    lifespan = Lifespan(app)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lifespan.run)
            await wait_all_tasks_blocked()
            assert shop.happened == [], "it is the server that begins"
            assert await lifespan.phase("startup") == {"type": "lifespan.startup.complete"}
            assert shop.happened == ["opened"]
            assert not lifespan.ended.is_set()
            assert await lifespan.phase("shutdown") == {"type": "lifespan.shutdown.complete"}
            assert shop.happened == ["opened", "closed"]
            await lifespan.ended.wait()


@pytest.mark.requirement("F6")
async def test_an_app_may_live_again() -> None:
    shop = Shop()
    app = http_app(shop.registry)
    for _ in range(2):
        lifespan = Lifespan(app)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lifespan.run)
            assert (await lifespan.phase("startup"))["type"] == "lifespan.startup.complete"
            assert (await lifespan.phase("shutdown"))["type"] == "lifespan.shutdown.complete"
    assert shop.happened == ["opened", "closed"] * 2
    shop.opens = "no third time"
    lifespan = Lifespan(app)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lifespan.run)
        assert (await lifespan.phase("startup"))["type"] == "lifespan.startup.failed"


@pytest.mark.requirement("F6")
@pytest.mark.parametrize("phase", ["startup", "shutdown"])
async def test_a_lifespan_that_fails(phase: str, caplog: pytest.LogCaptureFixture) -> None:
    """The server is told so; why it failed is in the log."""
    shop = Shop(**{"opens" if phase == "startup" else "closes": "the secret of the shop"})
    lifespan = Lifespan(http_app(shop.registry))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lifespan.run)
        said = await lifespan.phase("startup")
        if phase == "shutdown":
            said = await lifespan.phase("shutdown")
    assert said["type"] == f"lifespan.{phase}.failed"
    assert "secret" not in json.dumps(said)
    assert "the secret of the shop" in caplog.text


@pytest.mark.requirement("F6")
async def test_without_a_lifespan_nothing_is_served() -> None:
    shop = Shop()
    async with hosting(shop.registry) as host:
        host.app = http_app(shop.registry)  # one that was not started
        for path in ("/mcp", "/health"):
            response = await host.ask("GET", path)
            assert response.status == 500
            assert "lifespan" in response.error["message"]


async def test_an_app_runs_once_at_a_time() -> None:
    app = http_app(registry_of(echo))
    async with app.running():
        with pytest.raises(RuntimeError, match="running already"):
            async with app.running():
                raise AssertionError


@pytest.mark.requirement("F6")
async def test_other_scopes_are_not_served() -> None:
    async with hosting(registry_of(echo)) as host:
        with pytest.raises(ValueError, match="websocket"):
            await host.app({"type": "websocket"}, None, None)


@pytest.mark.requirement("B13", "F1")
async def test_tools_reach_what_the_lifespan_yielded() -> None:
    shop = Shop()
    async with hosting(shop.registry) as host:
        client = LegacyClient(host)
        await client.initialize()
        assert text_of(await client.call("look")) == "the till"
        assert text_of(await ModernClient(host).call("look")) == "the till"
        assert shop.happened == ["opened", "looked", "looked"]
    assert shop.happened[-1] == "closed"


@pytest.mark.requirement("F5", "F6")
@pytest.mark.parametrize("finishes", [True, False])
@each_manner
async def test_calls_have_their_grace_when_the_lifespan_ends(
    manner: str, finishes: bool, autojump_clock: Any
) -> None:
    """Wherever the server says so while requests are open; and what they work with is still there."""
    shop = Shop()
    lifespan = Lifespan(app := http_app(shop.registry, limits=Limits(shutdown_grace=5.0)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lifespan.run)
        await lifespan.phase("startup")
        host = Host(app, nursery, manner)
        client = ModernClient(host)
        filter = {"notifications": {"toolsListChanged": True}}
        listening = client.begin("subscriptions/listen", filter)
        await listening.message()
        response = client.begin_call("work")
        await shop.worker.until(1)
        await lifespan.phase("shutdown")
        await listening.end()
        assert trio.current_time() == 0, "streams end at once"
        assert shop.happened == ["opened"]
        if finishes:
            await trio.sleep(4)
            shop.worker.go_on.set()
            assert text_of(await response.answer()) == "done"
        else:
            assert (await response.answer())["error"]["message"] == "Request cancelled"
            assert trio.current_time() == 5
        await lifespan.ended.wait()
        assert shop.happened == ["opened", "closed"]


# -- the end, as the app sees it ------------------------------------------------------------------


@pytest.mark.requirement("F6")
def test_a_server_that_does_not_run_on_trio_is_told_so() -> None:
    said: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        said.append(message)

    asyncio.run(http_app(registry_of(echo))({"type": "lifespan"}, receive, send))
    [failed] = said
    assert failed["type"] == "lifespan.startup.failed"
    assert "runs on Trio" in failed["message"]


@pytest.mark.requirement("F5")
@pytest.mark.parametrize("say", [0, 2])
async def test_running_requests_finish_and_nothing_that_lasts_is_begun(say: int) -> None:
    worker = Worker()
    async with modern(worker.registry) as client:
        response = client.begin_call("work", progress_meta(), say=say)
        await wait_all_tasks_blocked()
        client.host.app.stop()
        filter = {"notifications": {"toolsListChanged": True}}
        refused = await client.begin("subscriptions/listen", filter).end()
        assert refused.status == 503
        assert refused.headers["retry-after"]
        assert text_of(await client.call("echo", text="late")) == "late"
        assert worker.running == 1
        worker.go_on.set()
        *told, answer = await response.messages()
        assert len(told) == say
        assert text_of(answer) == "done"
        assert worker.finished == 1


@pytest.mark.requirement("F5")
async def test_calls_of_sessions_finish_too_even_those_with_a_question() -> None:
    async def ask(context: Context) -> str:
        return (await context.elicit("Your name?", str)).value

    worker = Worker()
    registry = worker.registry
    registry.add_tool(ask)
    async with legacy(registry, capabilities={"elicitation": {}}) as client:
        stream = client.get()
        await stream.started()
        response = client.begin_call("work", progress_meta(), say=1)
        asking = client.begin_call("ask")
        question = await asking.message()
        await response.message()
        client.host.app.stop()
        assert await stream.message() is None, "what goes on for ever ends"
        assert (await client.begin("ping").end()).status == 200
        assert (await client.get().end()).status == 503
        newcomer = LegacyClient(client.host)
        assert (await newcomer.post(newcomer.initialize_request())).status == 503
        value = {"action": "accept", "content": {"value": "Bob"}}
        assert await client.reply(question, value) == 202, "answers are still taken"
        assert text_of(await asking.message()) == "Bob"
        worker.go_on.set()
        assert text_of(await response.message()) == "done"


@pytest.mark.requirement("F5")
async def test_calls_that_nobody_waits_for_end_with_the_app() -> None:
    worker = Worker()
    async with legacy(worker.registry) as client:
        response = client.begin_call("work")
        await wait_all_tasks_blocked()
        response.disconnect()
        await response.end()
        assert worker.running == 1
    assert (worker.running, worker.cancelled) == (0, 1)


# -- under the embedded server --------------------------------------------------------------------


@pytest.mark.requirement("F1", "F6")
async def test_serving_on_a_port() -> None:
    shop = Shop()
    async with served(shop.registry) as server:
        assert server.handle.state is ServerState.RUNNING
        assert server.handle.url == f"http://127.0.0.1:{server.handle.port}/mcp"
        assert shop.happened == ["opened"]
        reply = await server.ask(server.call("look"))
        assert reply.status == 200
        assert text_of(reply.json()) == "the till"
        assert (await server.get("/health")).json()["status"] == "healthy"
    assert shop.happened == ["opened", "looked", "closed"]


@pytest.mark.requirement("F1")
async def test_requests_one_after_the_other_on_a_connection() -> None:
    worker = Worker()
    worker.go_on.set()
    async with served(worker.registry) as server, server.connect() as wire:
        for number in range(3):
            reply = await wire.post(server.modern, server.call("echo", text=f"{number}"))
            assert text_of((await reply.messages())[0]) == f"{number}"
            call = server.call("work", progress_meta(), say=2)
            assert len(await (await wire.post(server.modern, call)).messages()) == 3


@pytest.mark.requirement("F3")
@pytest.mark.parametrize("name", ["work", "work_quietly"])
async def test_a_disconnect_on_a_socket_cancels(name: str) -> None:
    worker = Worker()
    async with served(worker.registry) as server:
        for say in (0, 1):
            async with server.connect() as wire:
                arguments = {"say": say} if name == "work" else {}
                await wire.post(server.modern, server.call(name, progress_meta(), **arguments))
                await worker.until(running=1)
            await worker.until(running=0)
        assert worker.finished == 0


@pytest.mark.requirement("F3")
async def test_a_session_on_a_socket() -> None:
    """Its calls go on when the client has left, and it finds the answer."""
    worker = Worker()
    async with served(worker.registry) as server:
        await use_a_session(server, worker)


async def use_a_session(server: Served, worker: Worker) -> None:
    maker = server.legacy
    params = {"name": "work", "arguments": {"say": 1}, "_meta": progress_meta()}
    async with server.connect() as wire:
        await server.initialize(wire)
        reply = await wire.post(maker, maker.request_of("tools/call", params))
        await reply.head()
        ids = [each.id for each in (await reply.event(), await reply.event()) if each]
        assert worker.running == 1
    worker.go_on.set()
    async with server.connect() as wire:
        reply = await server.resume(wire, ids[-1])
        [answer] = await reply.messages()
        assert text_of(answer) == "done"
        assert worker.cancelled == 0
    for _ in range(3):
        async with server.connect() as wire:
            reply = await server.resume(wire)
            assert reply.status == 200
    async with server.connect() as wire:
        reply = await wire.send("DELETE", headers=maker.session_headers())
        assert (await reply.whole()).status == 200


@pytest.mark.requirement("F5")
async def test_stop_ends_everything_in_good_order() -> None:
    shop = Shop()
    async with served(shop.registry) as server:
        async with server.connect() as listening, server.connect() as calling:
            params = {"notifications": {"toolsListChanged": True}}
            request = server.modern.request_of("subscriptions/listen", params)
            stream = await listening.post(server.modern, request)
            await stream.message()
            call = await calling.post(server.modern, server.call("work"))
            await shop.worker.until(running=1)
            async with server.connect() as idle:
                await (await idle.send("GET", "/health")).whole()
                server.handle.stop()
                assert await idle.rest() == b"", "an idle connection is closed"
            await server.handle.wait_for(ServerState.DRAINING)
            assert "result" in await stream.message()
            assert await stream.message() is None
            while True:  # the listener is closed soon
                try:
                    await (await server.open()).aclose()
                except OSError:
                    break
            assert server.handle.state is ServerState.DRAINING
            assert shop.worker.running == 1
            assert shop.happened == ["opened"]
            shop.worker.go_on.set()
            [answer] = await call.messages()
            assert text_of(answer) == "done"
            assert call.headers["connection"] == "close"
    assert shop.happened == ["opened", "closed"]


@pytest.mark.requirement("F5")
async def test_stop_does_not_wait_for_ever() -> None:
    shop = Shop()
    limits = Limits(shutdown_grace=0.01)
    async with served(shop.registry, limits=limits) as server:
        async with server.connect() as wire:
            await wire.post(server.modern, server.call("work"))
            await shop.worker.until(running=1)
            server.handle.stop()
            server.handle.stop()
            await wire.rest()
    assert shop.worker.cancelled == 1
    assert shop.happened == ["opened", "closed"]


@pytest.mark.requirement("F5")
async def test_stopped_before_anybody_came() -> None:
    shop = Shop()
    async with served(shop.registry) as server:
        server.handle.stop()
    assert shop.happened == ["opened", "closed"]


@pytest.mark.requirement("F5")
async def test_cancelled_it_ends_at_once() -> None:
    shop = Shop()
    with trio.fail_after(TIME_LIMIT):
        async with trio.open_nursery() as nursery:
            handle = await nursery.start(serve_http, shop.registry, "127.0.0.1", 0)
            wire = Wire(await trio.open_tcp_stream("127.0.0.1", handle.port))
            await (await wire.send("GET", "/health")).whole()
            nursery.cancel_scope.cancel()
        assert handle.state is ServerState.STOPPED
        assert await wire.rest() == b""
        await wire.stream.aclose()


@pytest.mark.requirement("F5", "F6")
async def test_a_server_that_cannot_start() -> None:
    """It says why, and leaves nothing open."""
    with socket.socket() as taken:
        port = free_port()  # which is free later on, too
        taken.bind(("127.0.0.1", port))
        taken.listen()
        shop = Shop()
        with pytest.raises(OSError, match=f"in use: '127.0.0.1:{port}'"):
            await serve_http(shop.registry, port=port)
        assert shop.happened == []
    with pytest.raises(LifespanError, match="RuntimeError: no shop today") as caught:
        await serve_http(Shop(opens="no shop today").registry, port=port)
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(ValueError, match="path"):
        await serve_http(shop.registry, port=port, path="mcp")
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))


@pytest.mark.requirement("F5")
async def test_a_lifespan_that_fails_in_the_end() -> None:
    class Stopped(trio.TaskStatus[Any]):
        def started(self, value: Any = None) -> None:
            handles.append(value)
            value.stop()

    handles: list[Any] = []
    with pytest.raises(LifespanError, match="RuntimeError: the till is short") as caught:
        shop = Shop(closes="the till is short")
        await serve_http(shop.registry, port=0, task_status=Stopped())
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert handles[0].state is ServerState.STOPPED


@pytest.mark.requirement("F4")
@pytest.mark.parametrize(
    ("host", "policy", "warned"),
    [
        ("127.0.0.1", None, False),
        ("localhost", None, False),
        ("0.0.0.0", None, True),
        ("0.0.0.0", HttpPolicy(allowed_hosts=["*"]), True),
        ("0.0.0.0", HttpPolicy(tokens={"secret": "alice"}), False),
    ],
)
async def test_a_server_beyond_this_machine_is_warned_of(
    host: str, policy: HttpPolicy | None, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with trio.open_nursery() as nursery:
        start = partial(serve_http, registry_of(echo), host, 0, policy=policy)
        handle = await nursery.start(start)
        handle.stop()
    warnings = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(warnings) == warned
    assert all("token" in each.getMessage() for each in warnings)
    assert "secret" not in caplog.text


@pytest.mark.requirement("F4")
async def test_it_listens_on_loopback_alone_unless_told_otherwise() -> None:
    async with trio.open_nursery() as nursery:
        handle = await nursery.start(partial(serve_http, registry_of(echo), port=0))
        assert {address for address, _ in handle.server.addresses} == {"127.0.0.1"}
        handle.stop()


@pytest.mark.requirement("F6")
async def test_tls() -> None:
    authority = trustme.CA()
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    worker = Worker()
    worker.go_on.set()
    async with served(worker.registry, ssl_context=theirs) as server:
        assert server.handle.url == f"https://127.0.0.1:{server.handle.port}/mcp"
        secured = trio.SSLStream(
            await server.open(), ours, server_hostname="127.0.0.1", https_compatible=True
        )
        wire = Wire(secured)
        reply = await wire.post(server.modern, server.call("echo", text="x"))
        assert text_of((await reply.messages())[0]) == "x"
        call = server.call("work", progress_meta(), say=2)
        assert len(await (await wire.post(server.modern, call)).messages()) == 3
        await secured.aclose()
        async with server.connect() as plain:
            await plain.stream.send_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"HTTP/1.1 200" not in await plain.rest()


@pytest.mark.requirement("F6")
async def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with served(registry_of(echo), unix_socket=path) as server:
        reply = await server.ask(server.call("echo", text="x"))
        assert text_of(reply.json()) == "x"
        for name in ("url", "port"):
            with pytest.raises(RuntimeError, match="does not listen on a port"):
                getattr(server.handle, name)
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


@pytest.mark.requirement("F6")
async def test_a_unix_socket_for_a_group(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with served(registry_of(echo), unix_socket=path, unix_socket_mode=0o660):
        assert path.stat().st_mode & 0o777 == 0o660


@pytest.mark.requirement("F6")
async def test_listeners_that_somebody_else_has_opened() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    async with served(registry_of(echo), listeners=listeners) as server:
        assert server.handle.port == port
        reply = await server.ask(server.call("echo", text="x"))
        assert text_of(reply.json()) == "x"
    with pytest.raises(OSError, match="connect"):
        await trio.open_tcp_stream("127.0.0.1", port)


@pytest.mark.requirement("F2")
@pytest.mark.parametrize("most", [2000, 12 * 2**20])
async def test_the_bound_of_messages_is_that_of_bodies(most: int) -> None:
    async def size_of(text: str) -> int:
        return len(text)

    async with served(registry_of(size_of), limits=Limits(max_message_bytes=most)) as server:
        for size, status in ((100, 200), (most - 1000, 200), (most, 413)):
            reply = await server.ask(server.call("size_of", text="x" * size))
            assert reply.status == status


@pytest.mark.requirement("F5")
async def test_running_calls_have_the_grace_of_the_limits(autojump_clock: Any) -> None:
    async def nap() -> str:
        await trio.sleep(30)
        return "done"

    listener, maker = MemoryListener(), ModernClient(None)  # type: ignore[arg-type]
    limits = Limits(shutdown_grace=33)
    async with trio.open_nursery() as nursery:
        start = partial(serve_http, registry_of(nap), listeners=[listener], limits=limits)
        handle = await nursery.start(start)
        wire = Wire(listener.connect())
        call = maker.request_of("tools/call", {"name": "nap", "arguments": {}})
        reply = await wire.post(maker, call)
        await wait_all_tasks_blocked()
        handle.stop()
        assert text_of((await reply.whole()).json()) == "done"
        await wire.stream.aclose()


async def test_two_places_to_listen_at_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="listeners and unix_socket"):
        await serve_http(Registry("x"), listeners=[MemoryListener()], unix_socket=tmp_path / "s")


@pytest.mark.requirement("F6")
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"unix_socket": ""}, "the path of the socket is empty"),
        ({"host": ""}, "the host is empty: it is '127.0.0.1', or '0.0.0.0' for all"),
        ({"workers": "2", "own_process": True}, "workers must be 1 or more, not '2'"),
        ({"card": "card"}, "card must be a ServerCard, not str"),
        ({"store": "redis"}, "write 'redis://localhost:6379/0'"),
    ],
)
async def test_what_names_no_place_or_is_none_is_refused(option: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        await serve_http(Registry("x"), **{"port": 0, **option})


@pytest.mark.requirement("F1", "B6")
async def test_nothing_internal_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def verify(token: str) -> str | None:
        if token == "x":
            raise RuntimeError("the secret database is down")
        return token

    async def fail() -> str:
        raise RuntimeError("the secret of /usr/lib/secret.py")

    async with served(registry_of(fail), policy=HttpPolicy(verify=verify)) as server:
        statuses = []
        for token, arguments in (("x", {}), ("y", {}), ("y", {"z": 1})):
            request = server.call("fail", **arguments)
            reply = await server.ask(request, authorization=f"Bearer {token}")
            statuses.append(reply.status)
            said = reply.body.decode() + str(reply.headers)
            for word in ("secret", "Traceback", "/usr", ".py", "RuntimeError"):
                assert word not in said
        assert statuses == [500, 200, 200]
    assert "the secret database is down" in caplog.text
    assert "the secret of /usr/lib/secret.py" in caplog.text


# -- under Hypercorn ------------------------------------------------------------------------------


@asynccontextmanager
async def under_hypercorn(
    registry: Registry, *, sse_path: str | None = None, **config: Any
) -> AsyncIterator[Served]:
    """Serve a registry with Hypercorn's Trio worker."""
    settings = Config()
    settings.bind = ["127.0.0.1:0"]
    settings.graceful_timeout = 0.1
    for name, value in config.items():
        setattr(settings, name, value)
    stop = trio.Event()
    failure: BaseException | None = None
    with trio.fail_after(TIME_LIMIT):
        async with trio.open_nursery() as nursery:
            app: Any = http_app(registry, sse_path=sse_path)
            start = partial(hypercorn, app, settings, shutdown_trigger=stop.wait)
            [bound] = await nursery.start(start)
            try:
                yield Served(None, ("127.0.0.1", int(bound.rpartition(":")[2])))
            except BaseException as error:  # raised again below, outside of any exception group
                failure = error
            stop.set()
    if failure is not None:
        raise failure


@pytest.mark.requirement("F6")
async def test_the_app_under_hypercorn() -> None:
    shop = Shop()
    shop.worker.go_on.set()
    async with under_hypercorn(shop.registry) as server:
        assert shop.happened == ["opened"]
        assert text_of((await server.ask(server.call("look"))).json()) == "the till"
        async with server.connect() as wire:
            call = server.call("work", progress_meta(), say=2)
            reply = await wire.post(server.modern, call)
            assert len(await reply.messages()) == 3
            assert reply.headers["content-type"] == "text/event-stream"
        assert (await server.get("/health")).status == 200
        assert (await server.get("/mcp")).status in (405, 406)
        assert (await server.ask(server.call("look"), host="evil.example")).status == 403
    assert shop.happened == ["opened", "looked", "closed"]


@pytest.mark.requirement("F3", "F6")
@pytest.mark.parametrize(("name", "say"), [("work", 0), ("work", 1), ("work_quietly", None)])
async def test_a_disconnect_under_hypercorn_cancels(name: str, say: int | None) -> None:
    worker = Worker()
    async with under_hypercorn(worker.registry) as server:
        async with server.connect() as wire:
            arguments = {} if say is None else {"say": say}
            await wire.post(server.modern, server.call(name, progress_meta(), **arguments))
            await worker.until(running=1)
        await worker.until(running=0)
        assert worker.finished == 0


@pytest.mark.requirement("F3", "F6")
async def test_a_session_under_hypercorn() -> None:
    """Its streams notice that a client has left, and its calls go on."""
    worker = Worker()
    async with under_hypercorn(worker.registry) as server:
        await use_a_session(server, worker)


async def rest_of(response: httpx2.Response) -> str:
    """What comes of a response, which has to end as HTTP has it."""
    await response.aread()
    return response.text


@pytest.mark.requirement("F5", "F6")
async def test_hypercorn_cancels_requests_without_a_word_and_they_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its lifespan ends when all of them are gone."""
    monkeypatch.setattr("trio_mcp.transports.http.answering._LAST_WORDS", TIME_LIMIT)
    worker = Worker()
    outcomes: dict[str, Any] = {}
    async with AsyncExitStack() as stack, trio.open_nursery() as reading:
        client = await stack.enter_async_context(
            httpx2.AsyncClient(timeout=TIME_LIMIT, trust_env=False, verify=False)
        )

        async def read(name: str, request: Any, started: trio.Event) -> None:
            async with client.stream(**request) as response:
                started.set()
                outcomes[name] = response.status_code, await rest_of(response)

        async with under_hypercorn(worker.registry, sse_path="/sse") as server:
            url = f"http://127.0.0.1:{server.address[1]}"
            call = server.call("work")
            headers: Any = server.modern.headers_for(call)
            plain = {"method": "POST", "url": f"{url}/mcp", "headers": headers, "json": call}
            reading.start_soon(read, "call", plain, trio.Event())
            await worker.until(1)
            hello = server.legacy.initialize_request()
            headers = server.legacy.headers_for(hello)
            begun = await client.post(f"{url}/mcp", json=hello, headers=headers)
            session = {"mcp-session-id": begun.headers["mcp-session-id"]}
            stream = {"method": "GET", "url": f"{url}/mcp"}
            stream["headers"] = {"accept": "text/event-stream", **session}
            reading.start_soon(read, "stream", stream, started := trio.Event())
            await started.wait()
            old = {"method": "GET", "url": f"{url}/sse"}
            reading.start_soon(read, "old stream", old, started := trio.Event())
            await started.wait()
    assert outcomes["call"][0] == 200
    assert json.loads(outcomes["call"][1])["error"]["message"] == "Request cancelled"
    assert outcomes["stream"][0] == outcomes["old stream"][0] == 200


@pytest.mark.requirement("F6")
async def test_a_lifespan_that_fails_under_hypercorn() -> None:
    shop = Shop(opens="no shop today")
    with pytest.raises(BaseExceptionGroup) as caught:
        async with under_hypercorn(shop.registry):
            raise AssertionError
    assert "Lifespan failure in startup" in str(caught.value.exceptions)
    assert "no shop today" not in str(caught.value.exceptions)


@pytest.mark.requirement("F6")
async def test_http_2_under_hypercorn(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    files = {"certfile": tmp_path / "cert.pem", "keyfile": tmp_path / "key.pem"}
    certificate.cert_chain_pems[0].write_to_path(files["certfile"])
    certificate.private_key_pem.write_to_path(files["keyfile"])
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    worker = Worker()
    worker.go_on.set()
    config = {name: str(path) for name, path in files.items()}
    async with under_hypercorn(worker.registry, **config) as server:
        url = f"https://127.0.0.1:{server.address[1]}/mcp"
        async with httpx2.AsyncClient(http2=True, verify=ours) as client:
            for name, arguments, length in (("echo", {"text": "x"}, 0), ("work", {"say": 2}, 3)):
                message = server.call(name, progress_meta(), **arguments)
                headers: Any = server.modern.headers_for(message)
                response = await client.post(url, json=message, headers=headers)
                assert response.http_version == "HTTP/2"
                assert response.status_code == 200
                assert response.text.count("data: ") == length
