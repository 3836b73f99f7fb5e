"""HTTP servers that do what a test tells them, and note what they are asked.

They speak HTTP through h11 over loopback sockets, or, for tests that turn the clock, over streams
in memory; in both cases the client's whole HTTP stack is the real one.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import h11
import httpcore2
import httpx2
import pytest
import trio
from attrs import define, field
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from trio_mcp import HttpOptions
from trio_mcp.background import background_nursery
from trio_mcp.wire.sse import encode_event

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
TIME_LIMIT = 120  # seconds, for what must not hang
HOST = "server.test"

ECHO: dict[str, Any] = {
    "name": "echo",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}


@define(eq=False)
class Incoming:
    """A request that the server got, and the ways to answer it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    _http: h11.Connection
    stream: trio.abc.Stream
    gone: bool = False
    """Whether the connection is closed."""

    @property
    def message(self) -> Any:
        """The JSON-RPC message in the body."""
        return json.loads(self.body)

    @property
    def rpc(self) -> str | None:
        """The JSON-RPC method, if there is one."""
        return self.message.get("method") if self.body else None

    @property
    def params(self) -> Any:
        """Its parameters."""
        return self.message["params"]

    async def respond(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Answer with a body."""
        await self.begin(status, {"content-length": str(len(body)), **named(headers)})
        if body:
            await self._send(h11.Data(body))
        await self.end()

    async def json(self, value: Any, status: int = 200, **headers: str) -> None:
        """Answer with JSON."""
        headers = {"content_type": "application/json", **headers}
        await self.respond(status, json.dumps(value).encode(), **headers)

    async def result(self, value: Any, **headers: str) -> None:
        """Answer with a JSON-RPC result."""
        await self.json(self.answer(value), **headers)

    async def error(self, status: int, code: int, message: str, data: Any = None) -> None:
        """Answer with a JSON-RPC error."""
        error = {"code": code, "message": message, "data": data}
        await self.json({"jsonrpc": "2.0", "id": self.message["id"], "error": error}, status)

    def answer(self, value: Any) -> Any:
        """The JSON-RPC response with a result."""
        return {"jsonrpc": "2.0", "id": self.message["id"], "result": value}

    async def start(self, **headers: str) -> None:
        """Begin a stream of events."""
        await self.begin(200, named({"content_type": "text/event-stream", **headers}))

    async def event(self, message: Any, **fields: Any) -> None:
        """Send an event; bytes as they are, anything else as JSON."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        await self.write(encode_event(data, **fields))

    async def write(self, data: bytes) -> None:
        """Send a piece of the stream."""
        await self._send(h11.Data(data))

    async def end(self) -> None:
        """End the body."""
        await self._send(h11.EndOfMessage())

    async def raw(self, data: bytes) -> None:
        """Send bytes past the HTTP library."""
        await self.stream.send_all(data)

    async def drop(self) -> None:
        """Break the connection off."""
        self.gone = True
        await self.stream.aclose()

    async def until_gone(self) -> None:
        """Wait until the client has closed the connection."""
        try:
            assert await self.stream.receive_some() == b""
        except trio.BrokenResourceError:
            pass
        self.gone = True

    async def begin(self, status: int, headers: dict[str, str]) -> None:
        """Send the head of an answer."""
        await self._send(h11.Response(status_code=status, headers=list(headers.items())))

    async def _send(self, event: Any) -> None:
        await self.stream.send_all(self._http.send(event))


def named(headers: dict[str, str]) -> dict[str, str]:
    """Headers from keywords."""
    return {name.replace("_", "-"): value for name, value in headers.items()}


Answer = Callable[[Incoming], Awaitable[None]]


@define(eq=False)
class Script:
    """What a server does: by default, it is a friendly modern one."""

    era: str = "modern"
    session: str | None = "session-1"
    tools: list[Any] = field(factory=lambda: [ECHO])
    on: dict[str, Answer] = field(factory=dict)
    """Answers by target, by JSON-RPC method, or by HTTP method for what has none."""
    requests: list[Incoming] = field(factory=list)
    connections: int = 0
    accepted: int = 0
    """The connections so far."""
    """How many are open."""
    _news: trio.Condition = field(factory=trio.Condition)

    def asked(self, what: str) -> list[Incoming]:
        """The requests with a JSON-RPC method, or else an HTTP method."""
        return [each for each in self.requests if what in (each.rpc, each.method)]

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until something is true that changes with requests or connections."""
        with trio.fail_after(TIME_LIMIT):
            async with self._news:
                while not condition():
                    await self._news.wait()

    async def wait_asked(self, what: str, times: int = 1) -> Incoming:
        """Wait until something has been asked so often."""
        await self.wait_for(lambda: len(self.asked(what)) >= times)
        return self.asked(what)[times - 1]

    async def let_time_pass(self, what: str, clock: trio.testing.MockClock) -> None:
        """Have a minute pass when something has been asked, and the server has said what it says."""
        await self.wait_asked(what)
        await wait_all_tasks_blocked()
        clock.jump(60)

    async def changed(self) -> None:
        """Have those who wait look again."""
        async with self._news:
            self._news.notify_all()

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serve one connection."""
        self.connections += 1
        self.accepted += 1
        try:
            async with stream:
                await self._serve(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError, h11.ProtocolError):
            pass
        finally:
            self.connections -= 1
            with trio.CancelScope(shield=True):
                await self.changed()

    async def _serve(self, stream: trio.abc.Stream) -> None:
        http = h11.Connection(h11.SERVER)
        while True:
            request = None
            body = b""
            while True:
                event = http.next_event()
                if event is h11.NEED_DATA:
                    http.receive_data(await stream.receive_some())
                elif isinstance(event, h11.Request):
                    request = event
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    break
                else:
                    return
            assert request is not None
            incoming = Incoming(
                request.method.decode(),
                request.target.decode(),
                {name.decode(): value.decode("latin-1") for name, value in request.headers},
                body,
                http,
                stream,
            )
            self.requests.append(incoming)
            await self.changed()
            await self.handle(incoming)
            if incoming.gone or http.our_state is not h11.DONE:
                return
            http.start_next_cycle()

    async def handle(self, incoming: Incoming) -> None:
        """Answer a request."""
        key = incoming.rpc or incoming.method
        if incoming.target in self.on:
            await self.on[incoming.target](incoming)
        elif key in self.on:
            await self.on[key](incoming)
        elif incoming.method != "POST":
            await incoming.respond(405)
        elif self.era == "modern":
            await self.modern(incoming)
        else:
            await self.legacy(incoming)

    async def modern(self, incoming: Incoming) -> None:
        """Answer as a modern server does."""
        complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        match incoming.rpc:
            case "server/discover":
                versions = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}}
                await incoming.result({**complete, **versions})
            case "tools/list":
                await incoming.result({**complete, "tools": self.tools})
            case "tools/call":
                await incoming.result({**complete, **said(incoming)})
            case _:
                await incoming.error(404, -32601, "Method not found")

    async def legacy(self, incoming: Incoming) -> None:
        """Answer as a legacy server does."""
        match incoming.rpc:
            case "initialize":
                offered = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
                agreed = {"protocolVersion": LEGACY, "capabilities": offered}
                headers = {"mcp_session_id": self.session} if self.session else {}
                who = {"serverInfo": {"name": "scripted", "version": "1"}}
                await incoming.result({**agreed, **who}, **headers)
            case "tools/list":
                await incoming.result({"tools": self.tools})
            case "tools/call":
                await incoming.result(said(incoming))
            case None:
                await incoming.respond(202)
            case method if method.startswith("notifications/"):
                await incoming.respond(202)
            case "server/discover":
                await incoming.respond(400, b"Bad Request: no session")
            case _:
                await incoming.result({})


def said(incoming: Incoming) -> dict[str, Any]:
    """The result of the tool `echo`."""
    text = incoming.params["arguments"].get("text", "")
    return {"content": [{"type": "text", "text": text}]}


@asynccontextmanager
async def serving(
    script: Script, tls: ssl.SSLContext | None = None, path: str = "/mcp"
) -> AsyncIterator[str]:
    """Serve on a loopback socket; yield the URL. Afterwards no connection may be open."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    scheme = "http"
    if tls is not None:
        listeners = [trio.SSLListener(each, tls, https_compatible=True) for each in listeners]
        scheme = "https"

    async def serve(stream: Any) -> None:
        await script.serve(stream)

    async def listen() -> None:
        await trio.serve_listeners(serve, listeners)

    with trio.fail_after(TIME_LIMIT):
        async with background_nursery(listen):
            yield f"{scheme}://127.0.0.1:{port}{path}"
            await script.wait_for(lambda: script.connections == 0)


# -- in memory, for tests that turn the clock ----------------------------------------------------


class MemoryStream(httpcore2.AsyncNetworkStream):
    """The client's end of a connection in memory."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return await self._stream.receive_some(max_bytes)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise httpcore2.ReadError(error) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            await self._stream.send_all(buffer)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise httpcore2.WriteError(error) from error

    async def aclose(self) -> None:
        await self._stream.aclose()

    def get_extra_info(self, info: str) -> Any:
        return None


@define(eq=False)
class MemoryNetwork(httpcore2.AsyncNetworkBackend):
    """A network with one server on it."""

    script: Script
    nursery: trio.Nursery
    refuses: int = 0
    """How many more connections it refuses."""
    attempts: list[float] = field(factory=list)
    """When connections were made or refused."""

    async def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        await trio.lowlevel.checkpoint()
        self.attempts.append(trio.current_time())
        if self.refuses:
            self.refuses -= 1
            raise httpcore2.ConnectError("refused")
        ours, theirs = memory_stream_pair()
        self.nursery.start_soon(self.script.serve, theirs)
        return MemoryStream(ours)

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)

    def make_client(self) -> httpx2.AsyncClient:
        """An httpx2 client on this network."""
        pool = partial(httpcore2.AsyncConnectionPool, network_backend=self)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(httpcore2, "AsyncConnectionPool", pool)
            return httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(verify=False))


@asynccontextmanager
async def in_memory(
    script: Script, **options: Any
) -> AsyncIterator[tuple[str, HttpOptions, MemoryNetwork]]:
    """Serve in memory; yield the URL, how it is reached, and the network."""
    ready = trio.Event()
    networks: list[MemoryNetwork] = []

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            networks.append(MemoryNetwork(script, nursery))
            ready.set()
            await trio.sleep_forever()

    async with background_nursery(run):
        await ready.wait()
        network = networks[0]
        http = HttpOptions(client_factory=network.make_client, **options)
        yield f"http://{HOST}/mcp", http, network
        await script.wait_for(lambda: script.connections == 0)
