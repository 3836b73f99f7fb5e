"""Clients that mean harm, on real sockets: afterwards the server serves as before."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import h11
import pytest
import trio
import trio.testing

from tests.support.tools import echo, registry_of, text_of
from tests.transports.http.sockets import Served, served
from tests.transports.http.support import Worker, event_of, progress_meta
from trio_mcp import Context, HttpLimits, HttpPolicy, Limits, Registry, SessionOptions

LOG_LEVEL = "io.modelcontextprotocol/logLevel"

pytestmark = pytest.mark.requirement("F2")


@asynccontextmanager
async def attacked(registry: Registry, **options: Any) -> AsyncIterator[Served]:
    """A server that has to serve as usual in the end, with nothing left of the attack."""
    registry.add_tool(echo, name="usual")
    async with served(registry, **options) as server:
        yield server
        await serves_as_usual(server)
        while server.handle.server.counters.connections:
            await trio.testing.wait_all_tasks_blocked()


async def serves_as_usual(server: Served) -> None:
    reply = await server.ask(server.call("usual", text="x"))
    assert reply.status == 200
    assert text_of(reply.json()) == "x"


def raw(server: Served, message: Any, *more: str) -> bytes:
    """A modern request as bytes, with further header lines."""
    body = json.dumps(message).encode()
    headers = {"host": "localhost", **server.modern.headers_for(message)}
    lines = [f"{name}: {value}" for name, value in headers.items() if isinstance(value, str)]
    head = "\r\n".join(
        ["POST /mcp HTTP/1.1", *lines, f"content-length: {len(body)}", *more, "", ""]
    )
    return head.encode() + body


def reset(stream: trio.SocketStream) -> None:
    """Have the kernel break the connection off when it is closed."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


# -- injection ------------------------------------------------------------------------------------

INJECTIONS = [
    "x\r\nSet-Cookie: stolen=1\r\n\r\n<script>",
    "x\nSet-Cookie: stolen=1",
    "\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    'x\n\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n',
    "x\rdata: forged\r\r",
    "\u2028\u2029\x85\x00\x0b\x0c\x1c",
    'x", error="y',
]


async def speak(context: Context, text: str) -> str:
    """Say the text in every way there is."""
    await context.progress(1, message=text)
    await context.info(text, logger=text)
    return text


@pytest.mark.parametrize("text", INJECTIONS, ids=range(len(INJECTIONS)))
async def test_nothing_that_a_client_says_becomes_http(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in a head nor in a stream of events, nor as a line of the log."""
    caplog.set_level("INFO")
    async with attacked(registry_of(speak)) as server:
        meta = {**progress_meta(text), LOG_LEVEL: "debug"}
        call = {**server.call("speak", meta, text=text), "id": text}
        async with server.connect() as wire:
            reply = await wire.post(server.modern, call)
            messages = await reply.messages()
            assert len(messages) == 3
            assert messages[0]["params"]["progressToken"] == text
            assert messages[0]["params"]["message"] == text
            assert messages[1]["params"] == {"level": "info", "data": text, "logger": text}
            assert messages[2]["id"] == text
            assert text_of(messages[2]) == text
            assert reply.body.count(b"\n\n") == 3
            assert b"\r" not in reply.body
            expected = {"content-type", "cache-control", "x-accel-buffering", "date"}
            assert reply.headers.keys() == {*expected, "transfer-encoding"}

            unknown = {**server.call(text), "id": text}
            reply = await (await wire.post(server.modern, unknown, **{"mcp-name": None})).whole()
            assert reply.status == 400
            assert reply.headers.keys() == {"content-type", "content-length", "date"}
        for method in (text, f"tools/{text}"):
            reply = await server.ask(
                server.modern.request_of(method), **{"mcp-method": "tools/list"}
            )
            assert reply.status == 400
        lines = [each.getMessage() for each in caplog.records if each.name.startswith("trio_mcp")]
        assert lines
        assert all(line.isprintable() for line in lines)
        assert "stolen" not in "".join(lines)


@pytest.mark.parametrize("text", INJECTIONS, ids=range(len(INJECTIONS)))
async def test_nothing_that_a_legacy_client_says_becomes_http(text: str) -> None:
    async with attacked(registry_of(speak)) as server, server.connect() as wire:
        await server.initialize(wire)
        maker = server.legacy
        params = {"name": "speak", "arguments": {"text": text}, "_meta": progress_meta(text)}
        call = {**maker.request_of("tools/call", params), "id": text}
        reply = await wire.post(maker, call)
        messages = await reply.messages()
        assert len(messages) == 3
        assert text_of(messages[-1]) == text
        blocks = reply.body.decode().split("\n\n")
        assert len(blocks) == 5
        assert all(event_of(each).id for each in blocks[:-1])


@pytest.mark.requirement("F1")
async def test_an_id_of_a_session_is_never_the_clients_choice() -> None:
    """Whatever way it is suggested: nobody can be lured into a session that somebody knows."""
    async with attacked(registry_of(echo)) as server, server.connect() as wire:
        maker = server.legacy
        chosen = "A" * 43
        for headers in (
            {"mcp-session-id": chosen},
            {"cookie": f"mcp-session-id={chosen}"},
            {"x-mcp-session-id": chosen},
        ):
            reply = await wire.post(maker, maker.initialize_request(), **headers)
            await reply.whole()
            assert reply.status == 200
            assert chosen not in str(reply.headers) + reply.body.decode()
        reply = await wire.post(maker, maker.request_of("ping"), **{"mcp-session-id": chosen})
        assert (await reply.whole()).status == 404


@pytest.mark.requirement("F4")
async def test_a_name_that_was_made_to_resolve_here() -> None:
    async with attacked(registry_of(echo)) as server:
        message = server.modern.request_of("tools/list")
        for headers in (
            {"host": "evil.example"},
            {"host": f"evil.example:{server.handle.port}"},
            {"host": "localhost", "origin": "http://evil.example"},
            {"host": "localhost", "origin": "null"},
        ):
            assert (await server.ask(message, **headers)).status == 403
        plain = raw(server, message)
        for request in (
            plain.replace(b"host: localhost", b"host: localhost\r\nhost: evil.example"),
            plain.replace(b"host: localhost", b"host: evil.example\r\nhost: localhost"),
            plain.replace(b"POST /mcp", b"POST http://evil.example/mcp"),
            plain.replace(b"host: localhost\r\n", b""),
            plain.replace(b"host: localhost", b"host: localhost@evil.example"),
        ):
            async with server.connect() as wire:
                await wire.stream.send_all(request)
                await wire.stream.send_eof()  # type: ignore[attr-defined]
                answer = await wire.rest()
                assert answer.split(b" ")[1] in (b"400", b"403"), answer


# -- smuggling ------------------------------------------------------------------------------------

SMUGGLED = [
    "Transfer-Encoding: chunked",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding: xchunked",
    "Content-Length: 0",
    "Content-Length: 5, 5",
    "Content-Length: +5",
    "X: y\nTransfer-Encoding: chunked",
    " Transfer-Encoding: chunked",
]


@pytest.mark.parametrize("line", SMUGGLED)
async def test_no_request_hides_in_another(line: str) -> None:
    """Where it is not clear what is one request, none of it is served."""
    worker = Worker()
    async with attacked(worker.registry) as server, server.connect() as wire:
        hidden = raw(server, server.call("work"))
        request = raw(server, server.modern.request_of("tools/list"), line)
        await wire.stream.send_all(request + b"0\r\n\r\n" + hidden)
        answer = await wire.rest()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1") == 1
        assert worker.most == 0


# -- too much of everything -----------------------------------------------------------------------


async def status_of(server: Served, data: bytes) -> int:
    """The status that some bytes are answered with."""
    async with server.connect() as wire:
        with contextlib.suppress(trio.BrokenResourceError):
            await wire.stream.send_all(data)
        answer = b""
        while b"\r\n" not in answer:
            chunk = await wire.stream.receive_some(65536)
            assert chunk, "the connection was closed without a word"
            answer += chunk
        assert answer.startswith(b"HTTP/1.1 ")
        return int(answer[9:12])


async def test_too_much_of_everything() -> None:
    limits = Limits(max_message_bytes=100_000, max_batch=10)
    http_limits = HttpLimits(max_header_bytes=10_000, max_headers=50)
    async with attacked(registry_of(echo), limits=limits, http_limits=http_limits) as server:
        small = server.modern.request_of("tools/list")
        close = "connection: close"
        many = [f"x{number}: y" for number in range(100)]
        begin = raw(server, small).partition(b"content-length")[0]
        for data, statuses in (
            (raw(server, small, "x: " + "y" * 20_000), {431}),
            (raw(server, small, "y" * 20_000 + ": x"), {431}),
            (raw(server, small, *many), {431}),
            (b"POST /" + b"x" * 20_000 + b" HTTP/1.1\r\n", {414, 431}),
            (b"X" * 20_000, {400, 414, 431, 501}),
            (raw(server, server.call("echo", text="x" * 150_000), close), {413}),
            (raw(server, server.call("echo", text="x" * 250_000)), {413}),
            (begin + b"content-length: 99999999999999\r\n\r\n", {413}),
            (begin + b"content-length: " + b"9" * 500 + b"\r\n\r\n", {400, 413}),
            (begin + b"transfer-encoding: chunked\r\n\r\n" + b"f" * 2000, {400}),
        ):
            assert await status_of(server, data) in statuses, data[:50]
            await serves_as_usual(server)


async def test_too_much_in_a_message() -> None:
    limits = Limits(max_message_bytes=1_000_000, max_batch=10)
    async with attacked(registry_of(echo), limits=limits) as server, server.connect() as wire:

        async def answer_to(body: bytes, **headers: str) -> tuple[int, Any]:
            own = {**server.modern.headers_for(None), **headers}
            reply = await wire.send("POST", headers=own, body=body)
            await reply.whole()
            return reply.status, reply.json()

        for body in (
            b"[" * 500_000,
            b"[" * 400_000 + b"]" * 400_000,
            b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
            b"9" * 500_000,
            b'{"jsonrpc":"2.0","id":' + b"9" * 100_000 + b',"method":"tools/list"}',
            b'{"jsonrpc":"2.0","id":1,"method":"x"' + b',"a":1' * 100_000 + b"}",
            b"\x1f\x8b" + b"\x00" * 100_000,
            b"\x00" * 100_000,
            b"\xef\xbb\xbf" * 100_000,
        ):
            status, answer = await answer_to(body)
            assert status == 400, body[:50]
            assert answer["error"]["code"] in (-32600, -32700)
            assert len(json.dumps(answer)) < 2000, "what is too long is not repeated"
        for message in (
            server.modern.request_of("x" * 500_000),
            server.call("x" * 500_000),
            server.modern.request_of("resources/read", {"uri": "x:" + "y" * 500_000}),
        ):
            body = json.dumps(message).encode()
            status, answer = await answer_to(body, **{"mcp-method": "x", "mcp-name": "y"})
            assert status == 400
            assert len(json.dumps(answer)) < 2000


async def test_too_much_in_the_headers_of_a_session() -> None:
    async with attacked(registry_of(echo)) as server, server.connect() as wire:
        await server.initialize(wire)
        headers = server.legacy.session_headers()
        for name, status in (
            ("mcp-session-id", 404),
            ("last-event-id", 400),
            ("mcp-protocol-version", 400),
        ):
            own = {**headers, "accept": "text/event-stream", name: "9-" + "9" * 50_000}
            reply = await wire.send("GET", headers=own)
            assert (await reply.whole()).status == status
            assert len(reply.body) < 2000


# -- too many, too slow ---------------------------------------------------------------------------


@pytest.mark.long
async def test_thousands_of_connections_that_say_nothing() -> None:
    """No more are kept than there may be, and a few that wait."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    sockets: list[socket.socket] = []
    try:
        limits = HttpLimits(max_connections=5)
        async with attacked(registry_of(echo), http_limits=limits) as server:
            counters = server.handle.server.counters
            for number in range(3000):
                half = socket.create_connection(("127.0.0.1", server.handle.port))
                sockets.append(half)
                if number % 2:
                    half.send(b"POST /mcp HTTP/1.1\r\nHost: local")
                if number % 100 == 0:
                    await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked()
            assert counters.connections <= 5 + 8
            while sockets:
                sockets.pop().close()
    finally:
        for each in sockets:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


HEAD = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n"


@pytest.mark.parametrize(
    "begin",
    [b"", b"P", b"POST /mcp HTTP/1.1\r\n", HEAD, HEAD + b"\r\n", HEAD + b"\r\n{"],
    ids=range(6),
)
@pytest.mark.parametrize("drips", [False, True])
async def test_clients_that_take_their_time(
    begin: bytes, drips: bool, mock_clock: trio.testing.MockClock
) -> None:
    """They hold all the connections there may be, until their time is over."""
    limits = HttpLimits(
        max_connections=5,
        header_timeout=0.1,
        body_timeout=0.1,
        min_body_rate=1e6,
        idle_timeout=0.1,
        linger_timeout=0.05,
    )
    async with attacked(registry_of(echo), http_limits=limits) as server:
        async with trio.open_nursery() as nursery:

            async def take_time(task_status: trio.TaskStatus[None]) -> None:
                async with server.connect() as wire:
                    await wire.stream.send_all(begin)
                    task_status.started()
                    with contextlib.suppress(trio.BrokenResourceError):
                        while drips:
                            await wire.stream.send_all(b"x")
                            await trio.sleep(0.02)
                    answer = await wire.rest()
                    assert b" 200 " not in answer

            for _ in range(5):
                await nursery.start(take_time)
            nursery.start_soon(serves_as_usual, server)
            await pass_time(mock_clock, nursery)


async def pass_time(clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    """Move the clock until all tasks are over, and only while nothing is left to do."""
    while nursery.child_tasks:
        await trio.testing.wait_all_tasks_blocked()
        clock.jump(0.02)


async def test_a_connection_that_asks_nothing_more(mock_clock: trio.testing.MockClock) -> None:
    limits = HttpLimits(max_connections=1, idle_timeout=0.05)
    async with attacked(registry_of(echo), http_limits=limits) as server:
        async with server.connect() as wire, trio.open_nursery() as nursery:
            await (await wire.send("GET", "/health")).whole()
            nursery.start_soon(serves_as_usual, server)
            await pass_time(mock_clock, nursery)


class Flood:
    """A tool that says more than anybody reads."""

    def __init__(self) -> None:
        self.said = 0
        self.ended = trio.Event()

    async def flood(self, context: Context) -> str:
        """Say something for ever."""
        try:
            while True:
                await context.info("x" * 10_000)
                self.said += 1
        finally:
            self.ended.set()


async def blocked(flood: Flood) -> None:
    """Wait until the tool waits for its reader."""
    said = -1
    while flood.said != said:
        said = flood.said
        await trio.testing.wait_all_tasks_blocked(0.02)


@pytest.mark.requirement("F3")
async def test_a_reader_that_stalls(mock_clock: trio.testing.MockClock) -> None:
    """It stops its own speaker, in bounded memory, until its time is over."""
    mock_clock.rate = 1  # so that what hangs is noticed
    flood = Flood()
    limits, http_limits = Limits(max_outgoing_bytes=100_000), HttpLimits(write_timeout=30)
    registry = registry_of(flood.flood)
    async with attacked(registry, limits=limits, http_limits=http_limits) as server:
        async with server.connect() as wire:
            call = server.call("flood", {LOG_LEVEL: "info"})
            reply = await wire.post(server.modern, call)
            await reply.head()
            await blocked(flood)
            assert flood.said < 2000, "what the kernel takes, and not much more"
            await serves_as_usual(server)
            mock_clock.jump(30)
            await flood.ended.wait()


@pytest.mark.requirement("F3")
async def test_a_reader_of_a_session_that_stalls(mock_clock: trio.testing.MockClock) -> None:
    """When its time is over the call goes on, since the client may come back."""
    mock_clock.rate = 1  # so that what hangs is noticed
    flood = Flood()
    http_limits = HttpLimits(write_timeout=30)
    sessions = SessionOptions(max_events=10)
    async with attacked(
        registry_of(flood.flood), sessions=sessions, http_limits=http_limits
    ) as server:
        async with server.connect() as wire:
            await server.initialize(wire)
            maker = server.legacy
            params = {"name": "flood", "arguments": {}}
            reply = await wire.post(maker, maker.request_of("tools/call", params))
            await reply.head()
            await blocked(flood)
            stalled = flood.said
            await serves_as_usual(server)
            mock_clock.jump(30)
            while flood.said <= stalled + 100:
                await trio.lowlevel.checkpoint()
        async with server.connect() as wire:
            await (await wire.send("DELETE", headers=maker.session_headers())).whole()
            await flood.ended.wait()


# -- leaving --------------------------------------------------------------------------------------


@pytest.mark.requirement("F3")
@pytest.mark.parametrize("breaks", [False, True])
async def test_leaving_at_every_stage_of_a_request(breaks: bool) -> None:
    """Whether the connection is closed or breaks off."""
    worker = Worker()
    async with attacked(worker.registry) as server:
        request = raw(server, server.call("work", progress_meta(), say=1))
        places = {*range(0, len(request), 29), len(request) - 1, len(request)}
        for place in sorted(places):
            stream = await server.open()
            await stream.send_all(request[:place])
            if place == len(request):
                await worker.until(running=1)
            if breaks:
                reset(stream)
            await stream.aclose()
        await worker.until(running=0)
        assert worker.most == 1
        assert worker.finished == 0


@pytest.mark.requirement("F3")
@pytest.mark.parametrize("breaks", [False, True])
async def test_leaving_at_every_stage_of_a_stream(breaks: bool) -> None:
    flood = Flood()
    async with attacked(registry_of(flood.flood)) as server:
        for size in (1, 100, 1000, 100_000):
            flood.ended = trio.Event()
            stream = await server.open()
            await stream.send_all(raw(server, server.call("flood", {LOG_LEVEL: "info"})))
            got = 0
            while got < size:
                got += len(await stream.receive_some(size - got))
            if breaks:
                reset(stream)
            await stream.aclose()
            await flood.ended.wait()


@pytest.mark.requirement("F3")
async def test_leaving_and_coming_back_all_the_time() -> None:
    """Many requests begun and left at once leave nothing behind."""
    worker = Worker()
    limits = HttpLimits(max_connections=50)
    policy = HttpPolicy(max_concurrent=10)
    async with attacked(worker.registry, policy=policy, http_limits=limits) as server:
        request = raw(server, server.call("work"))

        async def leave() -> None:
            for _ in range(5):
                stream = await server.open()
                await stream.send_all(request)
                reset(stream)
                await stream.aclose()

        async with trio.open_nursery() as nursery:
            for _ in range(40):
                nursery.start_soon(leave)
        await worker.until(running=0)
        assert worker.most <= 10
        assert worker.finished == 0


async def test_many_requests_in_one_write() -> None:
    async with attacked(registry_of(echo)) as server, server.connect() as wire:
        requests = b"".join(
            raw(server, server.call("echo", text=f"{number}")) for number in range(200)
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.stream.send_all, requests)
            data = b""
            while data.count(b"HTTP/1.1 200 ") < 200 or not data.endswith(b"}"):
                data += await wire.stream.receive_some(65536)
        texts = [f'"text":"{number}"'.encode() for number in range(200)]
        places = [data.index(text) for text in texts]
        assert places == sorted(places)


@pytest.mark.requirement("F1")
async def test_header_names_in_any_case() -> None:
    async with attacked(registry_of(echo)) as server, server.connect() as wire:
        message = server.call("echo", text="x")
        headers = {
            name.upper() if name != "host" else name: value
            for name, value in server.modern.headers_for(message).items()
        }
        reply = await wire.send("POST", headers=headers, body=json.dumps(message).encode())
        assert text_of((await reply.messages())[0]) == "x"


def test_h11_is_a_strict_judge() -> None:
    """These tests rely on it: what it lets pass is HTTP."""
    judge = h11.Connection(h11.CLIENT)
    judge.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    judge.send(h11.EndOfMessage())
    judge.receive_data(b"HTTP/1.1 200 OK\r\nx: a\x00b\r\n\r\n")
    with pytest.raises(h11.RemoteProtocolError):
        judge.next_event()
