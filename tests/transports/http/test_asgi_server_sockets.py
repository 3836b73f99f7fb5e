"""The embedded HTTP server on real sockets: TCP, Unix and TLS, with independent clients."""

import errno
import json
import os
import socket
import ssl
import stat
import struct
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from functools import partial
from typing import Any

import httpx2
import pytest
import trio
import trio.testing
import trustme
from trio.testing import wait_all_tasks_blocked

from tests.transports.http.asgi_server_support import (
    Client,
    MemoryListener,
    answering,
    echo,
    get,
    post,
    read_body,
    reply,
    serving,
)
from trio_mcp.transports.http.server import (
    HttpLimits,
    HttpServer,
    SharedListener,
    open_tcp,
    open_unix,
    serve_asgi,
)
from trio_mcp.transports.http.server.asgi import direct_exchange
from trio_mcp.transports.http.server.listeners import Backlog


class Running:
    """A running server, and its clients that are still to be closed."""

    def __init__(self, server: HttpServer) -> None:
        self.addresses = server.addresses
        self.counters = server.counters
        self.stop = server.stop
        self.clients: list[Client] = []

    async def connect(
        self, context: ssl.SSLContext | None = None, *, source: str | None = None
    ) -> Client:
        [address] = self.addresses
        if isinstance(address, str):
            stream: trio.abc.Stream = await trio.open_unix_socket(address)
        else:
            stream = await trio.open_tcp_stream(*address, local_address=source)
        if context is not None:
            stream = trio.SSLStream(stream, context, server_hostname="test", https_compatible=False)
        client = Client(stream)
        self.clients.append(client)
        if isinstance(stream, trio.SSLStream):
            await stream.do_handshake()
        return client


@asynccontextmanager
async def running(
    app: Any,
    listeners: Any,
    max_body_bytes: int = 10_000_000,
    options: dict[str, Any] | None = None,
    **limits: Any,
) -> AsyncIterator[Running]:
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            bounds = {"limits": HttpLimits(**limits), "max_body_bytes": max_body_bytes}
            serve = partial(serve_asgi, app, listeners, **bounds, **(options or {}))
            server = Running(await nursery.start(serve))
            try:
                yield server
            finally:
                for client in server.clients:
                    await trio.aclose_forcefully(client.stream)
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def on_tcp(app: Any, **limits: Any) -> AsyncIterator[Running]:
    async with running(app, await open_tcp("127.0.0.1", 0), **limits) as server:
        yield server


def url_of(server: Running, scheme: str = "http") -> str:
    host, port = server.addresses[0]
    return f"{scheme}://{host}:{port}"


async def describe(scope: Any, receive: Any, send: Any) -> None:
    """Answers with what the scope says of the connection, and with the size of the body."""
    said = {name: scope[name] for name in ("scheme", "client", "server", "http_version", "path")}
    said["size"] = len(await read_body(receive))
    await reply(send, json.dumps(said).encode())


# TCP -------------------------------------------------------------------------------------------


async def test_httpx_gets_its_answers_over_one_connection() -> None:
    async with (
        on_tcp(describe) as server,
        httpx2.AsyncClient(base_url=url_of(server), verify=False) as client,
    ):
        for size in (0, 10, 1_000_000):
            said = (await client.post("/a", content=b"x" * size)).json()
            host, port = server.addresses[0]
            assert said["server"] == [host, port]
            assert said["client"][0] == "127.0.0.1"
            assert said["client"][1] not in (0, port)
            assert (said["scheme"], said["http_version"]) == ("http", "1.1")
            assert (said["path"], said["size"]) == ("/a", size)

        async def pieces():
            for _ in range(10):
                yield b"x" * 10_000

        assert (await client.post("/", content=pieces())).json()["size"] == 100_000
        assert server.counters.accepted == 1
        assert server.counters.requests == 4


async def test_httpx_streams() -> None:
    go_on = trio.Event()

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"one\n", "more_body": True})
        await go_on.wait()
        await send({"type": "http.response.body", "body": b"two\n"})

    async with (
        on_tcp(app) as server,
        httpx2.AsyncClient(base_url=url_of(server), verify=False) as client,
    ):
        for _ in range(2):
            async with client.stream("GET", "/") as response:
                lines = response.aiter_lines()
                assert await anext(lines) == "one"
                go_on.set()
                assert [line async for line in lines] == ["two"]


async def test_a_large_response_arrives_whole() -> None:
    body = os.urandom(5_000_000)
    async with on_tcp(answering(body)) as server:
        client = await server.connect()
        for _ in range(3):
            assert (await client.ask(get())).body == body
        # The last piece of the third may have been read before it was counted, no earlier one.
        assert server.counters.bytes_out > 10_000_000


async def test_all_who_knock_are_let_in_together() -> None:
    """Not one in a turn of the scheduler, each of which serves all the others first."""
    [listener] = await open_tcp("127.0.0.1", 0)
    with closing(Backlog(listener)) as backlog:
        async with listener:
            assert list(backlog.take()) == []
            guests = [await trio.testing.open_stream_to_socket_listener(listener) for _ in range(5)]
            let_in = list(backlog.take())
            assert len(let_in) == 5
            for guest, stream in zip(guests, let_in, strict=True):
                await guest.send_all(b"x")
                assert await stream.receive_some() == b"x"
                await guest.aclose()
                await stream.aclose()


async def test_a_server_lets_all_in_who_wait_when_it_looks() -> None:
    """In one step: nothing else runs between the first of them and the last."""
    [listener] = await open_tcp("127.0.0.1", 0)
    guests = [await trio.testing.open_stream_to_socket_listener(listener) for _ in range(20)]
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve_asgi, answering(b""), [listener])
        while not server.counters.accepted:
            await trio.lowlevel.checkpoint()
        assert server.counters.accepted == 20
        nursery.cancel_scope.cancel()
    for guest in guests:
        await guest.aclose()


async def test_no_more_are_let_in_than_may_be() -> None:
    inside = 0
    full, everybody, release = trio.Event(), trio.Event(), trio.Event()

    async def app(scope, receive, send):
        nonlocal inside
        inside += 1
        if inside == 8:
            full.set()
        if inside == 12:
            everybody.set()
        await release.wait()
        await reply(send, b"")

    async with on_tcp(app, max_connections=8) as server:
        streams = [await trio.open_tcp_stream(*server.addresses[0]) for _ in range(12)]
        for stream in streams:
            await stream.send_all(get())
        await full.wait()
        await wait_all_tasks_blocked(0.05)
        assert inside == server.counters.requests == 8
        for stream in streams[:8]:
            await stream.aclose()
        await everybody.wait()
        for stream in streams[8:]:
            await stream.aclose()


class Keeper:
    """An app whose requests go on until they may end, but for `/health`."""

    def __init__(self) -> None:
        self.release = trio.Event()
        self.inside = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != "/health":
            self.inside += 1
            try:
                await self.release.wait()
            finally:
                self.inside -= 1
        await reply(send, b"fine")


@pytest.mark.skipif(sys.platform != "linux", reason="has no other loopback addresses")
@pytest.mark.requirement("F2")
@pytest.mark.parametrize(
    "says", [b"", b"GET / HTTP/1.1\r\n", get()], ids=["nothing", "half", "all"]
)
async def test_an_address_with_all_connections_keeps_no_other_out(says: bytes) -> None:
    app = Keeper()
    async with on_tcp(app, max_connections=8) as server:
        greedy = [await server.connect(source="127.0.0.2") for _ in range(30)]
        for client in greedy:
            with suppress(trio.BrokenResourceError):  # it was pushed out
                await client.send(says)
        while server.counters.accepted < 30:
            await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked(0.01)
        others = []
        for number in range(3, 7):
            others.append(await server.connect(source=f"127.0.0.{number}"))
            await others[-1].send(get())
        client = await server.connect(source="127.0.0.9")
        assert (await client.ask(get("/health"))).body == b"fine"
        await wait_all_tasks_blocked(0.01)
        assert 4 <= app.inside <= 8
        app.release.set()
        for client in others:
            assert (await client.answer()).body == b"fine"


@pytest.mark.requirement("F2")
async def test_there_is_room_for_what_is_always_served() -> None:
    app, limits = Keeper(), {"max_connections": 3}
    options = {"always_served": ["/health"]}
    async with running(app, await open_tcp("127.0.0.1", 0), options=options, **limits) as server:
        for _ in range(3):
            await (await server.connect()).send(get())
        while app.inside < 3:
            await trio.lowlevel.checkpoint()
        waiting = await server.connect()
        await waiting.send(get())
        for _ in range(30):
            client = await server.connect()
            answer = await client.ask(get("/health"))
            assert (answer.body, answer.headers[b"connection"]) == (b"fine", b"close")
            assert await client.rest() == b""
        assert app.inside == 3
        app.release.set()
        assert (await waiting.answer()).body == b"fine"
        assert (await waiting.ask(get("/health"))).headers.get(b"connection") != b"close"


@pytest.mark.requirement("F2")
async def test_who_has_waited_for_longest_is_pushed_out() -> None:
    app = Keeper()
    async with on_tcp(app, max_connections=2) as server:
        for _ in range(2):
            await (await server.connect()).send(get())
        while app.inside < 2:
            await trio.lowlevel.checkpoint()
        waiting = []
        for number in range(9):
            waiting.append(await server.connect())
            await waiting[-1].send(get())
            while server.counters.accepted < 3 + number:
                await trio.lowlevel.checkpoint()
        assert await waiting[0].rest() == b""
        app.release.set()
        for client in waiting[1:]:
            assert (await client.answer()).body == b"fine"


async def test_a_pipeline_leaves_others_their_turn() -> None:
    ran = []
    begun = trio.Event()

    async def other():
        await begun.wait()
        ran.append(None)

    async def app(scope, receive, send):
        begun.set()
        await reply(send)
        ran.append(scope["raw_path"])

    async with on_tcp(app) as server, trio.open_nursery() as nursery:
        nursery.start_soon(other)
        client = await server.connect()
        await client.send(get() * 100)
        for _ in range(100):
            await client.answer()
    assert ran.index(None) < 10


async def test_a_stream_leaves_others_their_turn() -> None:
    ran = []
    begun = trio.Event()

    async def other():
        await begun.wait()
        ran.append(None)

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        for number in range(100):
            begun.set()
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            ran.append(number)
        await send({"type": "http.response.body"})

    async with on_tcp(app) as server, trio.open_nursery() as nursery:
        nursery.start_soon(other)
        client = await server.connect()
        assert (await client.ask(get())).body == b"x" * 100
    assert ran.index(None) < 10


async def test_packets_are_not_held_back() -> None:
    options = []

    class Spy(trio.abc.Listener[trio.SocketStream]):
        def __init__(self, inner):
            self.inner = inner

        async def accept(self):
            stream = await self.inner.accept()
            options.append(stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            return stream

        async def aclose(self):
            await self.inner.aclose()

    [listener] = await open_tcp("127.0.0.1", 0)
    port = listener.socket.getsockname()[1]
    async with running(answering(), [Spy(listener)]) as server:
        assert server.addresses == ()  # it cannot know
        client = Client(await trio.open_tcp_stream("127.0.0.1", port))
        server.clients.append(client)
        assert (await client.ask(get())).body == b"fine"
    assert options == [1]


@pytest.mark.parametrize("how", ["close", "half-close", "reset"])
async def test_a_disconnect_cancels_the_app(how) -> None:
    ended = trio.Event()

    async def app(scope, receive, send):
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async with on_tcp(app) as server:
        client = await server.connect()
        await client.send(get())
        while not server.counters.requests:
            await trio.lowlevel.checkpoint()
        if how == "half-close":
            await client.stream.send_eof()
        else:
            if how == "reset":
                client.stream.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
            await client.stream.aclose()
        await ended.wait()


async def test_a_client_that_is_gone_before_it_is_accepted_disturbs_nobody() -> None:
    listeners = await open_tcp("127.0.0.1", 0)
    address = listeners[0].socket.getsockname()
    for _ in range(3):
        gone = await trio.open_tcp_stream(*address)
        await gone.send_all(get())
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await gone.aclose()
    async with running(answering(), listeners) as server:
        client = await server.connect()
        assert (await client.ask(get())).body == b"fine"
        assert server.counters.accepted == 4


async def test_a_socket_that_is_ready_for_nothing_is_waited_for(monkeypatch) -> None:
    calls = {os.read: 0, os.write: 0}

    def blocks_first(call):
        def instead(descriptor, argument):
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                return call(descriptor, argument)
            calls[call] += 1
            if calls[call] % 2:
                raise BlockingIOError
            return call(descriptor, argument)

        return instead

    async with on_tcp(answering()) as server:
        client = await server.connect()
        for call in list(calls):
            monkeypatch.setattr(os, call.__name__, blocks_first(call))
        for _ in range(3):
            assert (await client.ask(get())).body == b"fine"
    assert min(calls.values()) >= 3


async def leave_while_it_writes(app, ended: trio.Event) -> None:
    """Begin to read a response, and leave; the app ends, and no connection fails or stays."""
    async with on_tcp(app) as server:
        client = await server.connect()
        await client.send(get())
        await client.receive()
        await client.stream.aclose()
        await ended.wait()
        while server.counters.connections:
            await trio.lowlevel.checkpoint()
        assert server.counters.failed == 0


async def test_a_reset_while_writing_cancels_the_app() -> None:
    ended = trio.Event()

    async def app(scope, receive, send):
        try:
            await send({"type": "http.response.start", "status": 200})
            while True:
                await send({"type": "http.response.body", "body": b"x" * 9999, "more_body": True})
        finally:
            ended.set()

    await leave_while_it_writes(app, ended)


async def test_what_is_sent_without_waiting_is_whole_and_in_its_place() -> None:
    pieces: list[bytes] = []

    async def app(scope, receive, send):
        direct = direct_exchange(receive, send)
        assert direct is not None
        send_nowait = direct.send_nowait
        await send({"type": "http.response.start", "status": 200})
        assert not send_nowait(b"before it has begun")
        await send({"type": "http.response.body", "body": b"begin,", "more_body": True})
        while send_nowait(piece := b"%d," % len(pieces) * 4999):  # until the client has to read
            pieces.append(piece)
        await send({"type": "http.response.body", "body": b"more,", "more_body": True})
        await send({"type": "http.response.body", "body": b"end"})
        assert not send_nowait(b"after its end")

    async with on_tcp(app) as server:
        client = await server.connect()
        assert (await client.ask(get())).body == b"begin," + b"".join(pieces) + b"more,end"
        assert len(pieces) > 1
        assert server.counters.failed == 0


async def test_a_client_that_leaves_while_the_rest_follows_cancels_the_app() -> None:
    ended = trio.Event()

    async def app(scope, receive, send):
        direct = direct_exchange(receive, send)
        assert direct is not None
        send_nowait = direct.send_nowait
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"begin", "more_body": True})
        try:
            while send_nowait(b"x" * 9999):
                pass
            await trio.sleep_forever()
        finally:
            ended.set()

    await leave_while_it_writes(app, ended)


async def test_a_client_that_does_not_read_holds_up_its_app_and_nobody_else() -> None:
    written = 0

    async def app(scope, receive, send):
        nonlocal written
        if scope["path"] == "/quick":
            return await reply(send)
        await send({"type": "http.response.start", "status": 200})
        while True:
            await send({"type": "http.response.body", "body": b"x" * 99_999, "more_body": True})
            written += 99_999

    async with on_tcp(app, write_timeout=0.5) as server:
        stalled, other = await server.connect(), await server.connect()
        stalled.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await stalled.send(get("/endless"))
        while server.counters.connections == 2 or server.counters.accepted < 2:
            assert (await other.ask(get("/quick"))).status == 200
        assert written < 50_000_000


@pytest.mark.parametrize("why", ["failure", "half-close"])
async def test_an_old_client_sees_that_a_response_was_cut_short(why, caplog) -> None:
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        if why == "failure":
            raise ValueError("cut short")
        await trio.sleep_forever()

    async with on_tcp(app) as server:
        client = await server.connect()
        await client.send(get(version="1.0"))
        if why == "half-close":
            await client.stream.send_eof()
        with pytest.raises(trio.BrokenResourceError):
            await client.rest()


async def test_a_refusal_can_be_read_by_a_client_that_sends_on() -> None:
    async with on_tcp(echo, max_body_bytes=10, linger_timeout=60) as server:
        async with httpx2.AsyncClient(base_url=url_of(server), verify=False) as client:
            for _ in range(5):
                response = await client.post("/", content=b"x" * 1_000_000)
                assert response.status_code == 413


async def test_a_stop_refuses_new_connections() -> None:
    async with on_tcp(echo) as server:
        client = await server.connect()
        await client.ask(get())
        server.stop()
        assert await client.rest() == b""
        with pytest.raises(OSError, match="all attempts to connect"):
            await server.connect()


async def test_thousands_of_silent_connections_are_held_off() -> None:
    async with on_tcp(answering(), max_connections=20) as server:
        silent = [await server.connect() for _ in range(200)]
        while server.counters.accepted < 200:
            await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert server.counters.connections == 20 + 8
        for client in silent:
            await client.stream.aclose()
        assert (await (await server.connect()).ask(get())).body == b"fine"


# Trouble with accepting ------------------------------------------------------------------------


class FailingListener(MemoryListener):
    """Fails before it works."""

    def __init__(self, *errors: OSError) -> None:
        super().__init__()
        self.errors = list(errors)

    async def accept(self) -> trio.abc.Stream:
        if self.errors:
            raise self.errors.pop(0)
        return await super().accept()


async def test_a_shortage_of_descriptors_passes(autojump_clock, caplog) -> None:
    shortages = [OSError(number, "shortage") for number in (errno.EMFILE, errno.ENOBUFS)]
    listener = FailingListener(*shortages)
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_asgi, answering(), [listener])
        began = trio.current_time()
        assert (await Client(listener.connect()).ask(get())).body == b"fine"
        assert 0.1 <= trio.current_time() - began < 1
        nursery.cancel_scope.cancel()
    assert [record.name for record in caplog.records] == ["trio_mcp.http"]


async def test_in_a_shortage_of_descriptors_idle_connections_make_room(autojump_clock) -> None:
    listener = FailingListener()
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve_asgi, answering(), [listener])
        idle, silent = Client(listener.connect()), Client(listener.connect())
        assert (await idle.ask(get())).body == b"fine"
        listener.errors = [OSError(errno.EMFILE, "shortage")]
        later = [Client(listener.connect()) for _ in range(2)]
        assert [(await client.ask(get())).body for client in later] == [b"fine"] * 2
        assert await idle.rest() == b""
        assert (await silent.ask(get())).body == b"fine"
        assert server.counters.connections == 3
        assert trio.current_time() < 1
        nursery.cancel_scope.cancel()


async def test_a_listener_that_fails_ends_the_server() -> None:
    listener = FailingListener(OSError(errno.EBADF, "gone"))
    with pytest.raises(ExceptionGroup) as caught:
        await serve_asgi(answering(), [listener])
    assert caught.group_contains(OSError, match="gone")


async def test_a_connection_that_fails_disturbs_nobody(caplog) -> None:
    class Broken(trio.abc.Stream):
        async def receive_some(self, max_bytes=None):
            raise RuntimeError("a fault of the stream")

        async def send_all(self, data):
            raise RuntimeError

        async def wait_send_all_might_not_block(self):
            raise RuntimeError

        async def aclose(self):
            await trio.lowlevel.checkpoint()

    streams: list[trio.abc.Stream] = [Broken()]

    def pair():
        client, server = trio.testing.memory_stream_pair()
        return client, streams.pop() if streams else server

    async with serving(answering(), pair) as server:
        server.connect()
        assert (await server.ask(get())).body == b"fine"
        assert server.server.counters.connections == 1
    assert "a fault of the stream" in caplog.text


# Unix sockets ----------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    return "s"


async def test_a_unix_socket_is_there_for_its_owner_while_it_is_served(path) -> None:
    async with running(describe, await open_unix(path)) as server:
        assert server.addresses == (path,)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        transport = httpx2.AsyncHTTPTransport(uds=path)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
            said = (await client.post("/", content=b"hello")).json()
            assert said["client"] is None
            assert said["server"] == [path, None]
            assert said["size"] == 5
    assert not os.path.exists(path)


async def test_a_unix_socket_has_the_permissions_that_were_asked_for(path) -> None:
    async with running(describe, await open_unix(path, mode=0o660)):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o660


async def test_a_dead_socket_is_replaced_and_a_live_one_is_not(path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    async with running(answering(), await open_unix(path)) as server:
        with pytest.raises(OSError, match="another server listens") as caught:
            await open_unix(path)
        assert caught.value.errno == errno.EADDRINUSE
        client = await server.connect()
        assert (await client.ask(get())).body == b"fine"


async def test_a_busy_socket_is_not_replaced(path) -> None:
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(path)
        busy.listen(0)
        waiting.connect(path)
        with pytest.raises(OSError, match="another server listens"):
            await open_unix(path)


async def test_what_is_no_socket_is_not_replaced(path) -> None:
    with open(path, "w") as file:
        file.write("precious")
    with pytest.raises(FileExistsError, match="not a socket"):
        await open_unix(path)
    os.symlink("elsewhere", "link")
    with pytest.raises(FileExistsError):
        await open_unix("link")
    with open(path) as file:
        assert file.read() == "precious"


async def test_a_socket_whose_file_is_gone_is_closed_all_the_same(path) -> None:
    async with running(answering(), await open_unix(path)) as server:
        client = await server.connect()
        os.unlink(path)
        assert (await client.ask(get())).body == b"fine"
        server.stop()
        assert await client.rest() == b""


async def test_the_socket_of_a_successor_is_left_alone(path) -> None:
    async with running(answering(), await open_unix(path)):
        os.unlink(path)
        [successor] = await open_unix(path)
    assert os.path.exists(path)
    await successor.aclose()
    assert not os.path.exists(path)


async def test_a_shared_listener_lets_other_processes_go_first(path, autojump_clock) -> None:
    """Of connections that come at once it takes one, and more each time while some still wait."""
    with socket.socket(socket.AF_UNIX) as sock, ExitStack() as guests:
        sock.bind(path)
        sock.listen(16)

        def knock(times: int) -> None:
            for _ in range(times):
                guests.enter_context(socket.socket(socket.AF_UNIX)).connect(path)

        taken: list[int] = []

        async def take() -> None:
            while True:
                await (await listener.accept()).aclose()
                taken.append(round(trio.current_time() * 1000 - began))

        knock(6)
        began = trio.current_time() * 1000
        async with SharedListener(sock.dup()) as listener, trio.open_nursery() as nursery:
            nursery.start_soon(take)
            await trio.sleep(1)
            assert taken == [0, 1, 1, 2, 2, 2]
            knock(3)  # the first of which comes when none has waited for long
            await trio.sleep(1)
            assert taken[6:] == [1000, 1001, 1001]
            nursery.cancel_scope.cancel()


async def test_a_unix_socket_that_cannot_be_opened_leaves_nothing(path) -> None:
    with pytest.raises(OSError, match="too long"):
        await open_unix("x" * 200)
    with pytest.raises(FileNotFoundError):
        await open_unix("no/such/directory")
    assert os.listdir() == []


# TLS -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server_context(authority) -> Iterator[ssl.SSLContext]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1", "test").configure_cert(context)
    return context


@pytest.fixture
def client_context(authority) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_httpx_gets_its_answers_over_tls(server_context, client_context) -> None:
    listeners = await open_tcp("127.0.0.1", 0, ssl_context=server_context)
    async with running(describe, listeners) as server:
        url = url_of(server, "https")
        async with httpx2.AsyncClient(base_url=url, verify=client_context) as client:
            for size in (0, 10, 1_000_000):
                said = (await client.post("/a", content=b"x" * size)).json()
                assert (said["scheme"], said["size"]) == ("https", size)
                assert said["server"] == list(server.addresses[0])
        assert server.counters.accepted == 1


async def test_a_disconnect_cancels_the_app_over_tls(server_context, client_context) -> None:
    ended = trio.Event()

    async def app(scope, receive, send):
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    listeners = await open_tcp("127.0.0.1", 0, ssl_context=server_context)
    async with running(app, listeners) as server:
        client = await server.connect(client_context)
        await client.send(get())
        while not server.counters.requests:
            await trio.lowlevel.checkpoint()
        await trio.aclose_forcefully(client.stream)
        await ended.wait()


async def test_keeping_and_closing_over_tls(server_context, client_context) -> None:
    async def app(scope, receive, send):
        body = await read_body(receive)
        with trio.move_on_after(0.15):  # long enough for it to be listened to
            await trio.sleep(1 if scope["path"] == "/slow" else 0)
        await reply(send, body)

    listeners = await open_tcp("127.0.0.1", 0, ssl_context=server_context)
    async with running(app, listeners) as server:
        client = await server.connect(client_context)
        for target in ("/", "/slow", "/", "/slow"):
            assert (await client.ask(post(b"hello", target=target))).body == b"hello"
        assert (await client.ask(get("/", "Connection: close"))).status == 200
        assert await client.rest() == b""  # an orderly end, or it would raise
        refused = await server.connect(client_context)
        await refused.send(b"nonsense\r\n\r\n" + b"x" * 10_000)
        assert (await refused.answer()).status == 400


async def test_a_handshake_that_stalls_holds_up_nobody(
    server_context, client_context, mock_clock: trio.testing.MockClock
) -> None:
    listeners = await open_tcp("127.0.0.1", 0, ssl_context=server_context)
    async with running(answering(), listeners, header_timeout=0.3) as server:
        stalled = await server.connect()
        await stalled.send(b"\x16\x03\x01")
        client = await server.connect(client_context)
        assert (await client.ask(get())).body == b"fine"
        mock_clock.jump(0.3)
        assert await stalled.rest() == b""
        wrong = await server.connect()
        await wrong.send(get())
        await wrong.rest()
        assert (await client.ask(get())).body == b"fine"


async def test_tls_over_a_unix_socket(path, server_context, client_context) -> None:
    async with running(describe, await open_unix(path, ssl_context=server_context)) as server:
        assert server.addresses == (path,)
        answer = await (await server.connect(client_context)).ask(get())
        assert json.loads(answer.body)["scheme"] == "https"
