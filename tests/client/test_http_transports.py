"""A client of the user's own making: whatever its transport is, it gets the whole URL."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import trio

from trio_mcp import HttpOptions, Registry, connect, http_app

KEY = "s3cr3t-key"


def registry() -> Registry:
    made = Registry("far")

    @made.tool
    def echo(text: str) -> str:
        """Return the text."""
        return text

    return made


class OwnTransport(httpx2.AsyncBaseTransport):
    """A transport of the user's own, which looks at the URL in a way of its own."""

    def __init__(self, answer: Callable[[httpx2.Request], Awaitable[httpx2.Response]]) -> None:
        self._answer = answer

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        again = httpx2.Request(
            request.method,
            str(request.url),
            headers=request.headers,
            content=await request.aread(),
        )
        return await self._answer(again)


def only_with_key(app: Any) -> Any:
    """Refuse the requests of an ASGI app that do not bring the key in the query."""

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["query_string"] != f"api_key={KEY}".encode():
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await app(scope, receive, send)

    return guarded


TRANSPORTS: dict[str, Callable[[Any], httpx2.AsyncBaseTransport]] = {
    "ASGITransport": lambda app: httpx2.ASGITransport(app),
    "MockTransport": lambda app: httpx2.MockTransport(
        httpx2.ASGITransport(app).handle_async_request
    ),
    "own": lambda app: OwnTransport(httpx2.ASGITransport(app).handle_async_request),
}


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("name", TRANSPORTS)
async def test_a_key_in_the_query_reaches_the_server(name, era, caplog) -> None:
    caplog.set_level(logging.INFO)
    app = only_with_key(http_app(registry()))
    options = HttpOptions(
        client_factory=lambda: httpx2.AsyncClient(transport=TRANSPORTS[name](app)), listen=False
    )
    url = f"http://127.0.0.1:8000/mcp?api_key={KEY}"
    async with running(app), connect(url, http=options, era=era) as client:
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
    assert "HTTP Request" in caplog.text  # httpx2 says what it does, in its own log
    assert KEY not in caplog.text


@asynccontextmanager
async def running(app: Any) -> AsyncIterator[None]:
    """Keep an ASGI app's lifespan open for the length of the block."""
    to_app, from_test = trio.open_memory_channel[dict[str, Any]](5)
    said = {"lifespan.startup.complete": trio.Event(), "lifespan.shutdown.complete": trio.Event()}

    async def send(message: Any) -> None:
        said[message["type"]].set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(app, {"type": "lifespan"}, from_test.receive, send)
        for kind in ("startup", "shutdown"):
            await to_app.send({"type": f"lifespan.{kind}"})
            await said[f"lifespan.{kind}.complete"].wait()
            if kind == "startup":
                yield


class OldServer:
    """A server of HTTP+SSE: one GET brings all messages, and a POST names its session."""

    def __init__(self) -> None:
        self._messages, self._posted = trio.open_memory_channel[bytes](10)

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.params.get("sessionId") == "abc":
            await self._take(json.loads(await request.aread()))
            return httpx2.Response(202)
        if request.url.params.get("api_key") != KEY:
            return httpx2.Response(403)
        if request.method == "POST":
            return httpx2.Response(405)
        return httpx2.Response(
            200, headers={"content-type": "text/event-stream"}, stream=Events(self._posted)
        )

    async def _take(self, message: Any) -> None:
        results = {
            "initialize": {
                "protocolVersion": "2024-11-05",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "old", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "hello"}]},
        }
        if message["method"] in results:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
            await self._messages.send(json.dumps(answer).encode())


class Events(httpx2.AsyncByteStream):
    def __init__(self, messages: trio.MemoryReceiveChannel[bytes]) -> None:
        self._messages = messages

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"event: endpoint\ndata: /messages?sessionId=abc\n\n"
        async for message in self._messages:
            yield b"event: message\ndata: " + message + b"\n\n"


@pytest.mark.parametrize("kind", [httpx2.MockTransport, OwnTransport])
async def test_the_session_of_an_old_server_stands_in_a_query(kind) -> None:
    server = OldServer()
    options = HttpOptions(
        client_factory=lambda: httpx2.AsyncClient(transport=kind(server.answer)), listen=False
    )
    url = f"http://old.test/sse?api_key={KEY}"
    async with connect(url, http=options) as client:
        assert client.revision == "2024-11-05"
        assert (await client.call_tool("echo")).text == "hello"
