"""Our HTTP/1.1 transport, against a server that says what each test has it say."""

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import httpx2
import pytest
import trio
import trustme
from attrs import define, field
from trio.testing import wait_all_tasks_blocked

from trio_mcp.transports import Http1Transport

TLS_SERVER = ssl.PROTOCOL_TLS_SERVER
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which is quickly made
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
Serve = Callable[[trio.SocketStream, int], Awaitable[None]]
"""What a server does with a connection, the first of which is number 0."""


@define
class Server:
    """A server whose connections are pairs of sockets; it is there as soon as one is opened."""

    serve: Serve
    nursery: trio.Nursery
    opened: list[tuple[str, int]] = field(factory=list)
    closed: int = 0
    _news: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    async def open(self, host: str, port: int) -> trio.SocketStream:
        ours, theirs = map(trio.socket.from_stdlib_socket, socket.socketpair())
        self.nursery.start_soon(self._run, trio.SocketStream(theirs), len(self.opened))
        self.opened.append((host, port))
        return trio.SocketStream(ours)

    async def _run(self, stream: trio.SocketStream, number: int) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError):
                await self.serve(stream, number)
        self.closed += 1
        self._news.unpark_all()

    async def until_closed(self, count: int) -> None:
        while self.closed < count:
            await self._news.park()


@pytest.fixture
async def serving(nursery: trio.Nursery) -> AsyncIterator[Any]:
    """Make a server, and a client of it."""
    clients: list[httpx2.AsyncClient] = []

    def start(serve: Serve, **options: Any) -> tuple[Server, httpx2.AsyncClient]:
        server = Server(serve, nursery)

        class Transport(Http1Transport):
            async def _open(self, host: str, port: int) -> trio.abc.Stream:
                return await server.open(host, port)

        timeout = options.pop("timeout", None)
        client = httpx2.AsyncClient(
            transport=Transport(verify=NO_TLS, **options), timeout=timeout, base_url="http://a.test"
        )
        clients.append(client)
        return server, client

    yield start
    for client in clients:
        await client.aclose()


def answering(*replies: bytes, asked: list[bytes] | None = None) -> Serve:
    """Give the same replies on each connection, one for each request, and then close it."""

    async def serve(stream: trio.SocketStream, number: int) -> None:
        for reply in replies:
            request = await whole_request(stream)
            if asked is not None:
                asked.append(request)
            await stream.send_all(reply)
        await wait_all_tasks_blocked()

    return serve


async def whole_request(stream: trio.SocketStream) -> bytes:
    request = b""
    while not request.endswith((b"\r\n\r\n", b"END")):
        piece = await stream.receive_some()
        if not piece:
            raise trio.BrokenResourceError("the client has left")
        request += piece
    return request


async def until_closed(stream: trio.SocketStream) -> None:
    while await stream.receive_some():
        pass


async def test_what_is_sent_and_what_is_received(serving) -> None:
    asked: list[bytes] = []
    server, client = serving(answering(OK, asked=asked))
    response = await client.post("/a%20b?c=d", content=b"the END")
    assert (response.status_code, response.reason_phrase, response.content) == (200, "OK", b"hello")
    assert (response.http_version, server.opened) == ("HTTP/1.1", [("a.test", 80)])
    assert asked[0].startswith(b"POST /a%20b?c=d HTTP/1.1\r\nHost: a.test\r\n")
    assert b"\r\nContent-Length: 7\r\n" in asked[0]
    assert asked[0].endswith(b"\r\n\r\nthe END")


async def test_a_connection_has_one_request_after_the_other(serving) -> None:
    server, client = serving(answering(OK, OK, OK))
    for _ in range(3):
        assert (await client.get("/")).text == "hello"
    assert len(server.opened) == 1


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
async def test_a_reply_may_come_in_pieces(serving, size: int) -> None:
    reply = (
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        b"HTTP/1.1 201 Made it\r\nX-One: 1\r\nTransfer-Encoding: chunked\r\nTrailer: X-Two\r\n\r\n"
        b"5\r\nhello\r\n6;note=1\r\n world\r\n0\r\nX-Two: 2\r\n\r\n"
    )

    async def serve(stream: trio.SocketStream, number: int) -> None:
        for _ in range(2):
            await whole_request(stream)
            for start in range(0, len(reply), size):
                await stream.send_all(reply[start : start + size])
                await wait_all_tasks_blocked()

    server, client = serving(serve)
    for _ in range(2):
        response = await client.get("/")
        assert (response.status_code, response.reason_phrase) == (201, "Made it")
        assert response.text == "hello world"
        assert set(response.headers) == {"x-one", "transfer-encoding", "trailer"}
    assert len(server.opened) == 1


async def test_a_body_is_there_as_it_comes(serving) -> None:
    async def serve(stream: trio.SocketStream, number: int) -> None:
        await whole_request(stream)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for piece in (b"one", b"two"):
            await wait_all_tasks_blocked()
            await stream.send_all(piece)

    _, client = serving(serve)
    async with client.stream("GET", "/") as response:
        assert [piece async for piece in response.aiter_raw()] == [b"one", b"two"]


async def test_a_body_that_only_the_end_ends_is_not_whole_if_the_connection_breaks(serving) -> None:
    async def serve(stream: trio.SocketStream, number: int) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\nhello")
        await stream.wait_send_all_might_not_block()
        await stream.socket.recv(1)  # closed with the rest unread, it is reset
        await wait_all_tasks_blocked()

    _, client = serving(serve)
    with pytest.raises(httpx2.ReadError):
        await client.get("/")


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"", "without a reply"),
        (b"HTTP/1.1 200 OK\r\nConte", "without a reply"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "ended before the reply"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "ended before"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n", "chunk size"),
        (b"HTTP/1.1 200 OK\r\nX: 1\0\r\n\r\n", "header value"),
        (b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "another protocol"),
        (OK.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n"), "Content-Length"),
        (OK.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"), "Content-Length"),
        (OK.replace(b"\r\n", b"\n"), "CR"),
        (b"SSH-2.0-OpenSSH\r\n", "Expected HTTP/"),
    ],
)
async def test_a_reply_that_is_none_is_an_error(serving, reply: bytes, words: str) -> None:
    _, client = serving(answering(reply))
    with pytest.raises(httpx2.RemoteProtocolError, match=words):
        await client.get("/")


async def test_headers_without_end_are_an_error(serving) -> None:
    async def serve(stream: trio.SocketStream, number: int) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\n")
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await stream.send_all(b"X: 1\r\n" * 1000)

    server, client = serving(serve)
    with pytest.raises(httpx2.RemoteProtocolError, match="too long"):
        await client.get("/")
    await server.until_closed(1)


@pytest.mark.parametrize("start", [b"5;note=", b"5\r\nhello\r\n0\r\nX: "])
async def test_what_surrounds_a_body_has_an_end(serving, start: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def serve(stream: trio.SocketStream, number: int) -> None:
        await stream.send_all(head + start)
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await stream.send_all(b"x" * 10_000)

    server, client = serving(serve)
    with pytest.raises(httpx2.RemoteProtocolError, match="too long"):
        await client.get("/")
    await server.until_closed(1)


async def test_spaces_around_a_value_are_no_part_of_it(serving) -> None:
    _, client = serving(answering(b"HTTP/1.1 200 OK\r\nX: \t a \t \r\nContent-Length: 0 \r\n\r\n"))
    response = await client.get("/")
    assert response.headers.raw == [(b"X", b"a"), (b"Content-Length", b"0")]


async def test_no_more_is_read_of_a_reply_that_was_closed(serving) -> None:
    async def serve(stream: trio.SocketStream, number: int) -> None:
        await whole_request(stream)
        await stream.send_all(OK[:-2])
        await until_closed(stream)

    _, client = serving(serve)
    async with client.stream("GET", "/") as response:
        pieces = response.aiter_raw()
        assert await anext(pieces) == b"hel"
        await response.aclose()
        with pytest.raises(httpx2.ReadError):
            await anext(pieces)


async def test_a_reply_may_be_closed_while_another_task_reads_it(serving) -> None:
    async def serve(stream: trio.SocketStream, number: int) -> None:
        await whole_request(stream)
        await stream.send_all(OK[:-2])
        await until_closed(stream)

    async def read(response: httpx2.Response) -> None:
        with pytest.raises(httpx2.ReadError):
            await response.aread()

    _, client = serving(serve)
    async with client.stream("GET", "/") as response, trio.open_nursery() as readers:
        readers.start_soon(read, response)
        await wait_all_tasks_blocked()
        await response.aclose()


async def test_what_comes_before_rubbish_can_be_read(serving) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    _, client = serving(answering(head + b"5\r\nhello\r\nrubbish"))
    async with client.stream("GET", "/") as response:
        pieces = response.aiter_raw()
        assert await anext(pieces) == b"hello"
        with pytest.raises(httpx2.RemoteProtocolError):
            await anext(pieces)


async def test_a_reply_without_a_body_may_say_how_long_that_would_be(serving) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    nothing = b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"
    server, client = serving(answering(head, nothing, OK))
    assert (await client.head("/")).headers["content-length"] == "5"
    assert (await client.get("/")).content == b""
    assert (await client.get("/")).text == "hello"
    assert len(server.opened) == 1


@pytest.mark.parametrize(
    "reply",
    [
        OK + OK,
        OK + b"rubbish",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
    ],
)
async def test_a_connection_is_not_used_again_if_more_came_or_an_end(serving, reply: bytes) -> None:
    server, client = serving(answering(reply))
    for _ in range(2):
        assert (await client.get("/")).text == "hello"
    assert len(server.opened) == 2


async def test_a_body_where_there_can_be_none_is_no_reply_to_the_next_request(serving) -> None:
    server, client = serving(answering(OK))
    for _ in range(2):
        assert (await client.head("/")).content == b""
    assert len(server.opened) == 2


@pytest.mark.parametrize("late", [b"", OK])
async def test_a_kept_connection_is_not_used_if_the_server_has_sent_something(
    serving, late: bytes
) -> None:
    async def serve(stream: trio.SocketStream, number: int) -> None:
        await whole_request(stream)
        await stream.send_all(OK)
        await wait_all_tasks_blocked()
        await stream.send_all(late)

    server, client = serving(serve)
    for number in (1, 2):
        assert (await client.get("/")).text == "hello"
        await server.until_closed(number)
    assert len(server.opened) == 2


@pytest.mark.parametrize(
    "header", [("X", "a\r\nY: b"), ("X", "a\nb"), ("X", "a\0"), ("X: y", "a"), ("X\r\nY", "a")]
)
async def test_a_header_cannot_bring_another(serving, header: tuple[str, str]) -> None:
    server, client = serving(answering(OK))
    with pytest.raises(httpx2.LocalProtocolError):
        await client.get("/", headers=[header])
    assert server.opened == []


async def test_other_schemes_are_refused(serving) -> None:
    _, client = serving(answering(OK))
    with pytest.raises(httpx2.UnsupportedProtocol):
        await client.get("ftp://a.test/")


# -- bodies of requests ----------------------------------------------------------------------------


async def pieces(*texts: bytes) -> AsyncIterator[bytes]:
    for text in texts:
        yield text


async def test_a_body_in_pieces_is_sent_as_chunks(serving) -> None:
    asked: list[bytes] = []
    _, client = serving(answering(OK, asked=asked))
    await client.post("/", content=pieces(b"hello", b"", b" world"))
    assert asked[0].endswith(b"\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")


async def test_a_body_in_pieces_may_say_how_long_it_is(serving) -> None:
    asked: list[bytes] = []
    _, client = serving(answering(OK, asked=asked))
    await client.post("/", content=pieces(b"the ", b"END"), headers={"Content-Length": "7"})
    assert asked[0].endswith(b"\r\n\r\nthe END")


async def test_a_whole_body_is_sent_in_chunks_if_a_header_says_so(serving) -> None:
    asked: list[bytes] = []
    _, client = serving(answering(OK, asked=asked))
    await client.post("/", content=b"hello", headers={"Transfer-Encoding": "chunked"})
    assert asked[0].endswith(b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    assert b"Content-Length" not in asked[0]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("length", ["6", "8", "seven", "-7"])
async def test_a_body_of_another_length_breaks_the_connection(
    serving, length: str, whole: bool
) -> None:
    async def serve(stream: trio.SocketStream, number: int) -> None:
        await until_closed(stream)

    server, client = serving(serve)
    with pytest.raises(httpx2.LocalProtocolError):
        body = b"the END" if whole else pieces(b"the ", b"END")
        await client.post("/", content=body, headers={"Content-Length": length})
    await server.until_closed(1)


@pytest.mark.parametrize(
    "headers",
    [
        [("Content-Length", "3"), ("Content-Length", "7")],
        [("Content-Length", "7"), ("Transfer-Encoding", "chunked")],
        [("Transfer-Encoding", "gzip")],
    ],
)
async def test_a_request_says_in_one_way_how_long_its_body_is(serving, headers: Any) -> None:
    server, client = serving(answering(OK))
    with pytest.raises(httpx2.LocalProtocolError, match="in one way"):
        await client.post("/", content=b"the END", headers=headers)
    await server.until_closed(1)


async def test_a_server_may_answer_before_it_has_read_everything() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(b"HTTP/1.1 413 Too long\r\nContent-Length: 0\r\n\r\n")
    theirs.shutdown(socket.SHUT_RD)

    class Transport(Http1Transport):
        async def _open(self, host: str, port: int) -> trio.abc.Stream:
            return trio.SocketStream(trio.socket.from_stdlib_socket(ours))

    with theirs:
        async with httpx2.AsyncClient(transport=Transport()) as client:
            assert (await client.post("http://a.test/", content=b"x")).status_code == 413


async def test_a_connection_that_took_no_whole_request_is_not_used_again() -> None:
    opened = []

    class Transport(Http1Transport):
        async def _open(self, host: str, port: int) -> trio.abc.Stream:
            ours, theirs = socket.socketpair()
            theirs.sendall(OK)
            theirs.shutdown(socket.SHUT_RD)
            opened.append(theirs)
            return trio.SocketStream(trio.socket.from_stdlib_socket(ours))

    async with httpx2.AsyncClient(transport=Transport(verify=NO_TLS)) as client:
        for _ in range(2):
            assert (await client.post("http://a.test/", content=b"x")).text == "hello"
    assert len(opened) == 2
    for theirs in opened:
        theirs.close()


async def test_a_body_in_pieces_leaves_other_tasks_their_turn(serving, nursery) -> None:
    others = trio.Event()

    async def other() -> None:
        others.set()

    async def body() -> AsyncIterator[bytes]:
        nursery.start_soon(other)
        yield b"th"
        yield b"e "  # of two tasks that are ready, either may be first
        assert others.is_set()
        yield b"END"

    _, client = serving(answering(OK))
    response = await client.post("/", content=body(), headers={"Content-Length": "7"})
    assert response.text == "hello"


async def test_an_error_of_the_body_is_none_of_the_connection(serving) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"hello"
        raise trio.BrokenResourceError("where the body comes from")

    async def serve(stream: trio.SocketStream, number: int) -> None:
        await until_closed(stream)

    server, client = serving(serve)
    with pytest.raises(trio.BrokenResourceError, match="where the body comes from"):
        await client.post("/", content=broken())
    await server.until_closed(1)


# -- how many there are, and for how long ----------------------------------------------------------


async def test_requests_wait_for_a_connection(serving, nursery) -> None:
    going = trio.Event()

    async def serve(stream: trio.SocketStream, number: int) -> None:
        while True:
            await whole_request(stream)
            await going.wait()
            await stream.send_all(OK)

    server, client = serving(serve, limits=httpx2.Limits(max_connections=2))
    for _ in range(5):
        nursery.start_soon(client.get, "/")
    await wait_all_tasks_blocked()
    assert len(server.opened) == 2
    going.set()
    assert (await client.get("/")).text == "hello"
    await wait_all_tasks_blocked()
    assert len(server.opened) == 2
    nursery.cancel_scope.cancel()


async def test_a_kept_connection_makes_room_for_another_server(serving) -> None:
    async def serve(stream: trio.SocketStream, number: int) -> None:
        await whole_request(stream)
        await stream.send_all(OK)
        await until_closed(stream)

    server, client = serving(serve, limits=httpx2.Limits(max_connections=1))
    await client.get("/")
    await client.get("http://b.test:81/")
    await server.until_closed(1)
    assert server.opened == [("a.test", 80), ("b.test", 81)]


@pytest.mark.parametrize(("kept", "opened"), [(0, 2), (1, 1), (None, 1)])
async def test_so_many_connections_are_kept(serving, kept: int | None, opened: int) -> None:
    limits = httpx2.Limits(max_keepalive_connections=kept)
    server, client = serving(answering(OK, OK), limits=limits)
    for _ in range(2):
        await client.get("/")
    assert len(server.opened) == opened


@pytest.mark.parametrize(("seconds", "opened"), [(9.0, 1), (10.0, 2)])
async def test_connections_are_kept_for_so_long(
    serving, autojump_clock, seconds: float, opened: int
) -> None:
    async def serve(stream: trio.SocketStream, number: int) -> None:
        while await stream.receive_some():
            await stream.send_all(OK)

    server, client = serving(serve, limits=httpx2.Limits(keepalive_expiry=10.0))
    await client.get("/")
    await trio.sleep(seconds)
    await client.get("/")
    assert len(server.opened) == opened


async def test_those_that_are_too_old_are_closed_though_nobody_wants_them(
    serving, autojump_clock
) -> None:
    async def serve(stream: trio.SocketStream, number: int) -> None:
        while await stream.receive_some():
            await stream.send_all(OK)

    server, client = serving(serve, limits=httpx2.Limits(keepalive_expiry=10.0))
    await client.get("/")
    await trio.sleep(11)
    await client.get("http://b.test/")
    await server.until_closed(1)
    assert len(server.opened) == 2


async def test_connections_that_ended_together_are_let_go_of_by_several_requests(serving) -> None:
    ending = trio.Event()

    async def serve(stream: trio.SocketStream, number: int) -> None:
        await whole_request(stream)
        await wait_all_tasks_blocked()  # so that each request has its own
        await stream.send_all(OK)
        await (ending.wait() if number < 5 else until_closed(stream))

    async def ask() -> None:
        assert (await client.get("/")).text == "hello"

    server, client = serving(serve)
    for opened in (5, 10):
        async with trio.open_nursery() as requests:
            for _ in range(5):
                requests.start_soon(ask)
        assert len(server.opened) == opened
        ending.set()
        await server.until_closed(5)


async def test_a_reply_gives_its_connection_back_once(serving) -> None:
    async def serve(stream: trio.SocketStream, number: int) -> None:
        for _ in range(2):
            await whole_request(stream)
            await stream.send_all(OK[:-2])
            await wait_all_tasks_blocked()
            await stream.send_all(OK[-2:])

    server, client = serving(serve)
    async with client.stream("GET", "/") as first:
        assert await first.aread() == b"hello"
    async with client.stream("GET", "/") as second:
        await first.stream.aclose()
        assert await second.aread() == b"hello"
    assert len(server.opened) == 1


async def test_no_connection_is_kept_when_the_client_is_closed(serving) -> None:
    async def serve(stream: trio.SocketStream, number: int) -> None:
        for _ in range(2):
            await whole_request(stream)
            await stream.send_all(OK[:-2])
            await wait_all_tasks_blocked()
            await stream.send_all(OK[-2:])
        await until_closed(stream)

    server, client = serving(serve)
    await client.get("/")
    async with client.stream("GET", "/") as response:
        await client.aclose()
        assert await response.aread() == b"hello"
    await server.until_closed(1)


async def test_a_reply_that_is_left_closes_its_connection(serving) -> None:
    async def serve(stream: trio.SocketStream, number: int) -> None:
        await whole_request(stream)
        await stream.send_all(OK[:-2])
        await until_closed(stream)

    server, client = serving(serve, limits=httpx2.Limits(max_connections=1))
    for number in (1, 2):
        async with client.stream("GET", "/"):
            pass
        await server.until_closed(number)
        assert len(server.opened) == number


async def test_a_request_that_is_cancelled_closes_its_connection(serving) -> None:
    async def serve(stream: trio.SocketStream, number: int) -> None:
        await until_closed(stream)

    server, client = serving(serve, limits=httpx2.Limits(max_connections=1))
    for number in (1, 2):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.get, "/")
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await server.until_closed(number)
        assert len(server.opened) == number


async def test_nothing_is_sent_for_a_task_that_is_cancelled(serving) -> None:
    server, client = serving(answering(OK))
    with trio.CancelScope() as scope:
        scope.cancel()
        await client.get("/")
    assert scope.cancelled_caught
    assert server.opened == []


@pytest.mark.parametrize(
    ("limit", "error"),
    [("read", httpx2.ReadTimeout), ("write", httpx2.WriteTimeout), ("pool", httpx2.PoolTimeout)],
)
async def test_timeouts(serving, nursery, autojump_clock, limit: str, error: Any) -> None:
    async def serve(stream: trio.SocketStream, number: int) -> None:
        if limit == "pool":
            await until_closed(stream)
        await trio.sleep_forever()

    _, client = serving(
        serve,
        limits=httpx2.Limits(max_connections=1),
        timeout=httpx2.Timeout(None, **{limit: 5.0}),
    )
    if limit == "pool":
        nursery.start_soon(client.get, "/")
        await wait_all_tasks_blocked()
    before = trio.current_time()
    with pytest.raises(error):
        await client.post("/", content=b"x" * 10_000_000 if limit == "write" else b"x")
    assert trio.current_time() - before == pytest.approx(5)
    nursery.cancel_scope.cancel()


# -- how a connection comes about ------------------------------------------------------------------


async def failing(error: Exception | None) -> None:
    if error is not None:
        raise error
    await trio.sleep_forever()


@pytest.mark.parametrize(
    ("problem", "error"),
    [(ConnectionRefusedError(), httpx2.ConnectError), (None, httpx2.ConnectTimeout)],
)
async def test_there_may_be_no_connection(autojump_clock, problem: Any, error: Any) -> None:
    class Transport(Http1Transport):
        async def _open(self, host: str, port: int) -> trio.abc.Stream:
            await failing(problem)
            raise AssertionError

    transport = Transport(limits=httpx2.Limits(max_connections=1))
    async with httpx2.AsyncClient(transport=transport, timeout=5.0) as client:
        for _ in range(2):  # it does not keep the only one that there may be
            with pytest.raises(error) as found:
                await client.get("http://a.test/")
            assert isinstance(found.value.__cause__, OSError | trio.TooSlowError)


@pytest.mark.parametrize("name", ["a.test", "other.test"])
async def test_tls(nursery: trio.Nursery, name: str) -> None:
    """Two requests on one connection, if the certificate is the server's."""
    authority = trustme.CA()
    ours, theirs = (ssl.SSLContext(each) for each in (ssl.PROTOCOL_TLS_CLIENT, TLS_SERVER))
    authority.configure_trust(ours)
    authority.issue_cert(name).configure_cert(theirs)

    async def serve(stream: trio.SocketStream, number: int) -> None:
        tls: Any = trio.SSLStream(stream, theirs, server_side=True, https_compatible=True)
        await answering(OK, OK)(tls, number)

    server = Server(serve, nursery)

    class Transport(Http1Transport):
        async def _open(self, host: str, port: int) -> trio.abc.Stream:
            return await server.open(host, port)

    async with httpx2.AsyncClient(transport=Transport(verify=ours)) as client:
        if name == "a.test":
            for _ in range(2):
                assert (await client.get("https://a.test/")).text == "hello"
        else:
            with pytest.raises(httpx2.ConnectError):
                await client.get("https://a.test/")
    assert server.opened == [("a.test", 443)]
