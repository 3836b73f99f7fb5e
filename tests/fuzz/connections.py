"""Entrances that are connections: lines to a server and to a client, HTTP, events.

The clock jumps, so whatever waits for ever fails at once.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, Final

import httpx2
import orjson
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from tests.fuzz.judging import Finding
from tests.fuzz.registry import registry
from tests.transports.http.asgi_server_support import echo, serving
from trio_mcp import Client, HttpOptions, Limits, McpError, connect, http_app, serve_stream
from trio_mcp.errors import ClientError

LIMITS: Final = Limits(max_message_bytes=20_000, max_concurrent_calls=4, tool_timeout=20.0)
LIMITS_OF_CLIENT: Final = Limits(max_message_bytes=20_000)
_URL: Final = "http://server.test/mcp"
_HANGS: Final = 2000.0
"""Seconds of the clock that jumps."""
_REALLY_HANGS: Final = 60.0
_LAST: Final = {"jsonrpc": "2.0", "id": "the last request of all", "method": "ping"}


def _run(main: Callable[[], Awaitable[bytes | None]]) -> bytes | None:
    async def bounded(seconds: float) -> bytes | None:
        with trio.fail_after(seconds):
            return await main()

    sent: bytes | None
    try:
        sent = trio.run(bounded, _HANGS, clock=MockClock(autojump_threshold=0))
    except trio.TooSlowError:
        # What a thread does takes no time of a clock that jumps while all tasks wait: so a schema
        # that is checked in one looks as if it took for ever. The real clock decides.
        sent = trio.run(bounded, _REALLY_HANGS)
    return sent


async def _collect(stream: trio.abc.ReceiveStream, into: bytearray) -> None:
    async for chunk in stream:
        into += chunk


# -- lines ---------------------------------------------------------------------------------------


def lines_to_server(data: bytes) -> bytes | None:
    """Lines on the input of a server; afterwards it has to serve as before."""
    return _run(partial(_serve_lines, data))


async def _serve_lines(data: bytes) -> bytes:
    ours, theirs = memory_stream_pair()
    received = bytearray()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve_stream, registry, theirs, limits=LIMITS))
        nursery.start_soon(_collect, ours, received)
        await ours.send_all(data + b"\n" + json.dumps(_LAST).encode() + b"\n")
        await wait_all_tasks_blocked()
        await ours.send_stream.aclose()
    messages = [json.loads(line) for line in received.splitlines()]
    if sum(isinstance(each, dict) and each.get("id") == _LAST["id"] for each in messages) != 1:
        raise Finding("the next request was not answered, or not once")
    return bytes(received)


_INITIALIZED: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}, "resources": {}, "prompts": {}},
    "serverInfo": {"name": "stranger", "version": "1"},
}
_DISCOVERED: Final = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}, "resources": {}},
    "serverInfo": {"name": "stranger", "version": "1"},
    "ttlMs": 0,
    "cacheScope": "private",
}
_ANSWERS: Final = {"initialize": _INITIALIZED, "server/discover": _DISCOVERED}


def _answer_of(message: Any, is_modern: bool) -> Any:
    """What a server says to the first messages of a client; `None` for all others."""
    method = message.get("method")
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message.get("id")}
    if method == "server/discover" and not is_modern:
        return {**answer, "error": {"code": -32601, "message": "Method not found"}}
    return {**answer, "result": _ANSWERS[method]} if method in _ANSWERS else None


async def _use(client: Client) -> None:
    """Do what one does with a client; a server that talks nonsense gets errors that are decided."""
    for use in (client.refresh_tools, partial(client.call_tool, "echo", {"text": "x"})):
        try:
            await use()
        except (ClientError, McpError):
            pass


def lines_to_client(data: bytes) -> bytes | None:
    """Lines of a server, after a sound handshake; `ID` is the id of the client's request."""
    return _run(partial(_connect_lines, data))


async def _connect_lines(data: bytes) -> bytes:
    ours, theirs = memory_stream_pair()
    said = bytearray()
    is_modern, data = data[:1] == b"m", data[1:]

    async def server() -> None:
        buffer = b""
        async for chunk in theirs:
            said.extend(chunk)
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                message = json.loads(line)
                answer = _answer_of(message, is_modern)
                if answer is not None:
                    await theirs.send_all(orjson.dumps(answer) + b"\n")
                elif "method" in message and "id" in message:
                    await theirs.send_all(data.replace(b"ID", orjson.dumps(message["id"])) + b"\n")
        await theirs.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(server)
        try:
            async with connect(ours, limits=LIMITS_OF_CLIENT, list_tools=False) as client:
                await _use(client)
        except (ClientError, McpError):
            pass
        nursery.cancel_scope.cancel()
    return bytes(said)


# -- HTTP ----------------------------------------------------------------------------------------


async def _exchange(app: Any, data: bytes) -> bytes:
    async with serving(app, max_body_bytes=20_000) as host:
        client = host.connect()
        received = bytearray()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_collect, client.stream, received)
            try:
                await client.send(data)
                await wait_all_tasks_blocked()
                await client.stream.send_stream.aclose()  # type: ignore[attr-defined]
            except trio.BrokenResourceError:  # the server has seen enough
                pass
        if not (await host.ask(b"GET /alive HTTP/1.1\r\nHost: localhost\r\n\r\n")).status:
            raise Finding("the next request was not answered")
    return bytes(received)


def http_bytes(data: bytes) -> bytes | None:
    """Bytes on a connection to the HTTP server; afterwards it has to serve as before."""
    return _run(partial(_exchange, echo, data))


_POST: Final = (
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n%b\r\n%b"
)
_BETWEEN: Final = b"\n---\n"


def http_requests(data: bytes) -> bytes | None:
    """Headers and bodies of requests to the app, with `SESSION` for the session's id."""
    return _run(partial(_post, data))


async def _post(data: bytes) -> bytes:
    app = http_app(registry)
    received, session = b"", b"none"
    async with app.running():
        for each in data.split(_BETWEEN)[:8]:
            head, _, body = each.replace(b"SESSION", session).partition(b"\n\n")
            fields = b"".join(line.strip(b"\r") + b"\r\n" for line in head.split(b"\n") if line)
            answer = await _exchange(app, _POST % (len(body), fields, body))
            found = answer.lower().partition(b"mcp-session-id: ")[2]
            if found:
                start = len(answer) - len(found)
                session = answer[start:].partition(b"\r\n")[0]
            received += answer
    return received


class _Body(httpx2.AsyncByteStream):
    """A body that comes in two pieces."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        half = len(self._data) // 2
        for piece in (self._data[:half], self._data[half:]):
            await trio.lowlevel.checkpoint()
            yield piece


def _response(kind: str, body: bytes) -> httpx2.Response:
    return httpx2.Response(200, headers={"content-type": kind}, stream=_Body(body))


def events_to_client(data: bytes) -> bytes | None:
    """The events with which a server answers over HTTP; `ID` is the id of the request."""
    return _run(partial(_connect_http, data))


async def _connect_http(data: bytes) -> None:
    is_modern, data = data[:1] == b"m", data[1:]

    async def answer(request: httpx2.Request) -> httpx2.Response:
        await trio.lowlevel.checkpoint()
        if request.method != "POST":
            return httpx2.Response(405, stream=_Body(b""))
        message = json.loads(request.content)
        known = _answer_of(message, is_modern)
        if known is not None:
            return _response("application/json", orjson.dumps(known))
        if "id" not in message:
            return _response("text/plain", b"")
        events = data.replace(b"ID", orjson.dumps(message["id"]))
        return _response("text/event-stream", events)

    def client_factory() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(answer))

    options = HttpOptions(client_factory=client_factory, listen=False)
    try:
        async with connect(_URL, http=options, limits=LIMITS_OF_CLIENT, list_tools=False) as client:
            await _use(client)
    except (ClientError, McpError):
        pass
