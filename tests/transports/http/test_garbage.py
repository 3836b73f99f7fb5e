"""What ends is freed at once: nothing waits for the garbage collector, which takes long pauses."""

from __future__ import annotations

import gc
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.support.client import LEGACY
from tests.support.tools import echo, registry_of
from tests.transports.http.sockets import Served, Wire, served
from trio_mcp import Context, McpError, serve_stream
from trio_mcp.extensions.tasks import Tasks

pytestmark = pytest.mark.requirement("F2")

TIMES = 5
SSE = "/sse"
"""The path for HTTP+SSE."""
EVENTS = {"accept": "text/event-stream"}
EVERYTHING = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}
TASKS = {"io.modelcontextprotocol/tasks": {}}
ECHO: dict[str, Any] = {"name": "echo", "arguments": {"text": "x"}}
INITIALIZE = {
    "protocolVersion": LEGACY[-1],
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "client", "version": "1"},
}


async def ask(context: Context) -> str:
    """Ask the caller."""
    return (await context.elicit("Go on?", bool)).action


async def wait(context: Context) -> str:
    """Say something, and wait."""
    await context.info("waiting")
    await trio.sleep_forever()
    return ""


async def refuse() -> str:
    """Refuse the call."""
    raise McpError(-32000, "no")


async def fail() -> str:
    """Raise something else."""
    raise LookupError("x")


@asynccontextmanager
async def no_garbage() -> AsyncIterator[None]:
    """Fail if what was done in the block is left to the collector."""
    gc.freeze()  # what is older is not looked at below
    gc.disable()
    try:
        yield
        await wait_all_tasks_blocked()
        assert gc.collect() < TIMES  # nothing of each time
    finally:
        gc.enable()


# -- what a client does ---------------------------------------------------------------------------


async def post(wire: Wire, method: str, params: dict[str, Any], path: str = "/mcp", **more: Any):
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return await wire.send("POST", path, {**EVERYTHING, **more}, json.dumps(message).encode())


async def leave(wire: Wire) -> None:
    """Leave, and wait until the server has closed the connection, too."""
    await wire.stream.send_eof()
    await wire.rest()


async def call(server: Served, wire: Wire, name: str, **meta: Any) -> None:
    arguments = {"text": "x"} if name in ("echo", "kept") else {}
    message = server.call(name, meta or None, **arguments)
    assert (await (await wire.post(server.modern, message)).whole()).status in (200, 400)


async def begin(wire: Wire) -> dict[str, Any]:
    """Begin a session, and return the headers that name it."""
    reply = await (await post(wire, "initialize", INITIALIZE)).whole()
    return {"mcp-session-id": reply.headers["mcp-session-id"]}


async def end(wire: Wire, session: dict[str, Any]) -> None:
    assert (await (await wire.send("DELETE", headers=session)).whole()).status == 200


async def use_session(server: Served, wire: Wire) -> None:
    session = await begin(wire)
    assert (await (await post(wire, "tools/call", ECHO, **session)).whole()).status == 200
    await end(wire, session)


async def leave_stream(server: Served, wire: Wire) -> None:
    session = await begin(wire)
    async with server.connect() as other:
        assert await (await other.send("GET", headers={**EVENTS, **session})).head() == 200
        await leave(other)
    await end(wire, session)


async def end_with_stream(server: Served, wire: Wire) -> None:
    session = await begin(wire)
    async with server.connect() as other:
        reply = await other.send("GET", headers={**EVENTS, **session})
        assert await reply.head() == 200
        await end(wire, session)
        await reply.whole()
        await leave(other)


async def leave_question(server: Served, wire: Wire) -> None:
    session = await begin(wire)
    async with server.connect() as other:
        reply = await post(other, "tools/call", {"name": "ask", "arguments": {}}, **session)
        assert (await reply.message())["method"] == "elicitation/create"
        await leave(other)
    await end(wire, session)


async def refuse_question(server: Served, wire: Wire) -> None:
    session = await begin(wire)
    async with server.connect() as other:
        reply = await post(other, "tools/call", {"name": "ask", "arguments": {}}, **session)
        refusal = {"code": -32000, "message": "no"}
        answer = {"jsonrpc": "2.0", "id": (await reply.message())["id"], "error": refusal}
        headers = {**EVERYTHING, **session}
        body = json.dumps(answer).encode()
        assert (await (await wire.send("POST", "/mcp", headers, body)).whole()).status == 202
        assert "error" in await reply.message()
        await leave(other)
    await end(wire, session)


async def leave_call(server: Served, wire: Wire) -> None:
    async with server.connect() as other:
        message = server.call("wait", {"io.modelcontextprotocol/logLevel": "info"})
        reply = await other.post(server.modern, message)
        assert (await reply.message())["method"] == "notifications/message"
        await leave(other)


async def subscribe(server: Served, wire: Wire) -> None:
    async with server.connect() as other:
        params = {"notifications": {"toolsListChanged": True}}
        message = server.modern.request_of("subscriptions/listen", params)
        assert (
            "acknowledged" in (await (await other.post(server.modern, message)).message())["method"]
        )
        await leave(other)


async def use_sse(server: Served, wire: Wire) -> None:
    async with server.connect() as other:
        stream = await other.send("GET", SSE, EVENTS)
        assert await stream.head() == 200
        endpoint = await stream.event()
        assert endpoint is not None
        assert endpoint.data is not None
        for method, params in (("initialize", INITIALIZE), ("tools/call", ECHO)):
            reply = await post(wire, method, params, endpoint.data)
            assert (await reply.whole()).status == 202
            assert "result" in await stream.message()
        params = {"name": "wait", "arguments": {}}
        await (await post(wire, "tools/call", params, endpoint.data)).whole()
        assert (await stream.message())["method"] == "notifications/message"
        await leave(other)


USES: dict[str, Callable[[Served, Wire], Awaitable[None]]] = {
    "a call": partial(call, name="echo"),
    "a call of an unknown tool": partial(call, name="nothing"),
    "a call that is refused": partial(call, name="refuse"),
    "a call that is left": leave_call,
    "a call that fails": partial(call, name="fail"),
    "a task": partial(
        call,
        name="kept",
        **{"io.modelcontextprotocol/clientCapabilities": {"extensions": TASKS}},
    ),
    "a session": use_session,
    "a session whose stream is left": leave_stream,
    "a session that ends before its stream": end_with_stream,
    "a question that is not answered": leave_question,
    "a question that is refused": refuse_question,
    "a subscription": subscribe,
    "HTTP+SSE": use_sse,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_over_http_nothing_is_left_to_the_collector(use: Any) -> None:
    registry = registry_of(echo, ask, wait, refuse, fail, extensions=[Tasks()])
    registry.add_tool(echo, name="kept", task=True)
    async with served(registry, sse_path=SSE) as server, server.connect() as wire:
        await use(server, wire)
        async with no_garbage():
            for _ in range(TIMES):
                await use(server, wire)


@pytest.mark.parametrize("use", [use_session, end_with_stream, refuse_question])
async def test_shared_sessions_leave_nothing_to_the_collector(use: Any, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'store.db'}"
    async with served(registry_of(echo, ask), store=store) as server, server.connect() as wire:
        await use(server, wire)
        async with no_garbage():
            for _ in range(TIMES):
                await use(server, wire)


async def test_an_idle_session_is_few_objects() -> None:
    """The collector looks at all of them, again and again."""
    sessions = 50
    async with served(registry_of(echo)) as server, server.connect() as wire:

        async def begin_and_go_on() -> None:
            session = await begin(wire)
            await (await post(wire, "tools/call", ECHO, **session)).whole()

        await begin_and_go_on()
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(sessions):
            await begin_and_go_on()
        gc.collect()
        assert len(gc.get_objects()) - before < 40 * sessions


async def test_a_connection_leaves_nothing_to_the_collector() -> None:
    registry = registry_of(echo)
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": ECHO},
    ]

    async def connect() -> None:
        ours, theirs = map(trio.SocketStream, trio.socket.socketpair())
        async with trio.open_nursery() as nursery, ours:
            nursery.start_soon(serve_stream, registry, theirs)
            for line in lines:
                await ours.send_all(json.dumps(line).encode() + b"\n")
                assert b'"result"' in await ours.receive_some()
            await ours.send_eof()
            assert await ours.receive_some() == b""

    await connect()
    async with no_garbage():
        for _ in range(TIMES):
            await connect()
