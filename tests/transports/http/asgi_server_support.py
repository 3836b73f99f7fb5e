"""A server on memory streams, and a client that has h11 judge what the server says."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import h11
import trio
from attrs import define
from trio.testing import memory_stream_pair

from trio_mcp.transports.http.server import HttpLimits, HttpServer, serve_asgi

StreamPair = Callable[[], tuple[trio.abc.Stream, trio.abc.Stream]]


class MemoryListener(trio.abc.Listener[trio.abc.Stream]):
    """Clients in the same process."""

    def __init__(self, pair: StreamPair = memory_stream_pair) -> None:
        self._pair = pair
        self._sender, self._receiver = trio.open_memory_channel[trio.abc.Stream](1000)

    def connect(self) -> trio.abc.Stream:
        mine, theirs = self._pair()
        self._sender.send_nowait(theirs)
        return mine

    @property
    def waiting(self) -> int:
        """How many connections were not accepted yet."""
        return self._receiver.statistics().current_buffer_used

    async def accept(self) -> trio.abc.Stream:
        return await self._receiver.receive()

    async def aclose(self) -> None:
        with suppress(trio.WouldBlock, trio.ClosedResourceError):
            while True:  # as the kernel does with connections that nobody has accepted
                waiting: Any = self._receiver.receive_nowait()
                waiting.send_stream.close()
                waiting.receive_stream.close()
        self._receiver.close()
        await trio.lowlevel.checkpoint()


@define
class Answer:
    """A response, as h11 understood it."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    informational: list[int]


class Client:
    """The client's side of a connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._rest = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def answer(self, method: str = "GET") -> Answer:
        """Read one whole response to a request with that method.

        Raises:
            h11.RemoteProtocolError: It is none, or it is not complete.
        """
        judge = judge_of_response(method)
        if self._rest:
            judge.receive_data(self._rest)
        answer = Answer(0, {}, b"", [])
        while True:
            event = judge.next_event()
            if event is h11.NEED_DATA:
                judge.receive_data(await self.receive())
            elif isinstance(event, h11.InformationalResponse):
                answer.informational.append(event.status_code)
            elif isinstance(event, h11.Response):
                answer.status = event.status_code
                answer.headers = dict(event.headers)
            elif isinstance(event, h11.Data):
                answer.body += bytes(event.data)
            else:
                assert isinstance(event, h11.EndOfMessage), event
                self._rest = judge.trailing_data[0]
                return answer

    async def receive(self) -> bytes:
        return bytes(await self.stream.receive_some(65536))

    async def ask(self, request: bytes) -> Answer:
        await self.send(request)
        return await self.answer(request.split(b" ", 1)[0].strip().decode())

    async def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        data = self._rest
        while more := await self.receive():
            data += more
        return data


def judge_of_response(method: str) -> h11.Connection:
    judge = h11.Connection(h11.CLIENT)
    judge.send(h11.Request(method=method, target="/", headers=[("host", "x")]))
    judge.send(h11.EndOfMessage())
    return judge


@define
class Serving:
    """A running server and the way to it."""

    listener: MemoryListener
    server: HttpServer
    done: trio.Event
    """`serve_asgi` has returned."""

    def connect(self) -> Client:
        return Client(self.listener.connect())

    async def ask(self, request: bytes) -> Answer:
        """Ask on a connection of its own."""
        return await self.connect().ask(request)


@asynccontextmanager
async def serving(
    app: Any,
    pair: StreamPair = memory_stream_pair,
    *,
    max_body_bytes: int = 10_000_000,
    shutdown_grace: float = 5.0,
    **limits: Any,
) -> AsyncIterator[Serving]:
    """Serve an app to clients in memory. Whatever waits for ever fails."""
    listener = MemoryListener(pair)
    async with trio.open_nursery() as nursery:
        start = partial(
            serve_asgi,
            app,
            [listener],
            limits=HttpLimits(**limits),
            max_body_bytes=max_body_bytes,
            shutdown_grace=shutdown_grace,
        )
        done = trio.Event()

        async def serve(*, task_status: trio.TaskStatus[HttpServer]) -> None:
            await start(task_status=task_status)
            done.set()

        server = await nursery.start(serve)
        with trio.fail_after(10_000):
            yield Serving(listener, server, done)
        nursery.cancel_scope.cancel()


def get(target: str = "/", *headers: str, version: str = "1.1") -> bytes:
    return request("GET", target, *headers, version=version)


def request(
    method: str, target: str, *headers: str, body: bytes = b"", version: str = "1.1"
) -> bytes:
    lines = [f"{method} {target} HTTP/{version}", "Host: test", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def post(body: bytes, *headers: str, target: str = "/") -> bytes:
    return request("POST", target, f"Content-Length: {len(body)}", *headers, body=body)


def post_chunks(chunks: Iterable[bytes], *headers: str, trailers: bytes = b"") -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    body += b"0\r\n" + trailers + b"\r\n"
    return request("POST", "/", "Transfer-Encoding: chunked", *headers, body=body)


# Apps ------------------------------------------------------------------------------------------


async def read_body(receive: Any) -> bytes:
    """The whole body of a request."""
    body = b""
    while True:
        message = await receive()
        assert message["type"] == "http.request", message
        body += message["body"]
        if not message["more_body"]:
            return body


async def reply(send: Any, body: bytes = b"", status: int = 200, *headers: Any) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with what it was asked."""
    body = await read_body(receive)
    await reply(send, b"%b %b:%b" % (scope["method"].encode(), scope["path"].encode(), body))


def answering(body: bytes = b"fine", status: int = 200, *headers: Any) -> Any:
    """An app that answers without a look at the request."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await reply(send, body, status, *headers)

    return app
