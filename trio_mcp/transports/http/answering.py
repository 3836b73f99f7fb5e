"""Answering one request with one response: a JSON body, or a stream once something is said before.

A handler that takes no context can say nothing, so its answer is a body, and it runs in the task
of the HTTP request with nothing beside it. Any other gets a writer beside it, which turns the
response into a stream of events when the first line comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Final, TypeVar

import trio

from trio_mcp.peer.exchange import Call, Exchange
from trio_mcp.server.running import CallRunner
from trio_mcp.transports.beside import beside
from trio_mcp.transports.http.request import Disconnected, HttpRequest
from trio_mcp.transports.http.server.peers import CANCELS
from trio_mcp.wire.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    McpError,
)
from trio_mcp.wire.jsonrpc import Id, Json

T = TypeVar("T")

STATUSES: Final = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    METHOD_NOT_FOUND: 404,
    HEADER_MISMATCH: 400,
    MISSING_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_PROTOCOL_VERSION: 400,
}
"""The status that a modern client gets with an error; 200 with any other."""

_HEAD_BYTES: Final = 4096
"""Of a line with a short id: what has the word `error` in it, if the line is one."""
_ESCAPED: Final = 6
"""Bytes that a character of an id may take."""


class ResponseBack:
    """The way back to the sender of one request (a `Back`): its response, as a stream."""

    def __init__(self, http: HttpRequest, *, max_bytes: int, keep_alive: float) -> None:
        self._http = http
        self._max_bytes = max_bytes
        self._keep_alive = keep_alive
        self._lines: deque[bytes] = deque()
        self._pending = 0
        self._closed = False
        self._changed = trio.lowlevel.ParkingLot()

    async def say(self, line: bytes) -> None:
        """Send a notification, once there is room."""
        while self._pending > self._max_bytes:
            await self._changed.park()
        self.say_nowait(line)

    def say_nowait(self, line: bytes) -> None:
        """Send a notification, whether there is room or not."""
        self._lines.append(line)
        self._pending += len(line)
        self._changed.unpark_all()

    async def ask(self, method: str, params: dict[str, Json], deadline: float) -> Json:
        """Refuse: an answer would find no way back.

        Raises:
            McpError: Always (`-32600`).
        """
        raise McpError(INVALID_REQUEST, "The client cannot be asked anything without a session")

    def hang_up(self) -> None:
        """Do nothing: nobody could come back to this stream."""

    async def write(self) -> None:
        """Send what is said, until `close`; and comments while nothing is."""
        while self._lines or not self._closed:
            if not self._lines:
                seconds = self._keep_alive if self._http.started else inf
                with trio.move_on_after(seconds) as quiet:
                    await self._changed.park()
                if quiet.cancelled_caught:
                    await self._http.send_comment()
                continue
            if not self._http.started:
                await self._http.start_stream()
            line = self._lines.popleft()
            await self._http.send_event(line)
            self._pending -= len(line)
            self._changed.unpark_all()

    def close(self) -> None:
        """Nothing more will be said."""
        self._closed = True
        self._changed.unpark_all()


async def run_call(
    http: HttpRequest,
    exchange: Exchange,
    runner: CallRunner,
    back_of: Callable[[HttpRequest], ResponseBack],
) -> bytes | None:
    """Run a call, and send what it says meanwhile. Returns the line that answers it.

    Cancelled, or when the client leaves, the call is cancelled.
    """

    async def run() -> bytes | None:
        if not _may_speak(exchange.call):
            return await runner.run(exchange)
        exchange.back = back = back_of(http)
        line: bytes | None = None
        async with trio.open_nursery() as nursery:

            async def write() -> None:
                try:
                    await back.write()
                except Disconnected:
                    nursery.cancel_scope.cancel()

            nursery.start_soon(write)
            line = await runner.run(exchange)
            back.close()
        return line

    return await while_connected(http, run)


def _may_speak(call: Call) -> bool:
    handler: Any = getattr(call, "handler", None)
    if handler is None or handler.context_parameter is not None:
        return True
    of_call: Any = call
    return of_call.dispatcher.registry.log_bridge is not None


async def while_connected(http: HttpRequest, work: Callable[[], Awaitable[T]]) -> T | None:
    """Do some work, and cancel it when the client leaves; then `None` is returned."""
    if CANCELS in (http.scope.get("extensions") or {}):
        return await work()
    with trio.CancelScope() as scope:

        async def watch() -> None:
            await http.wait_for_disconnect()
            scope.cancel()

        async with beside(watch):
            return await work()
    return None


async def finish(http: HttpRequest, line: bytes | None, status: int = 200) -> None:
    """Send the answer, in whichever way the response has begun."""
    if http.started:
        if line is not None:
            await http.send_event(line)
        await http.end_stream()
    elif line is not None:
        await http.respond(status, line[:-1])


def status_of(line: bytes, id: Id) -> int:
    """The status for a line that answers a modern request with that id."""
    most = _HEAD_BYTES if id.__class__ is int else _HEAD_BYTES + _ESCAPED * len(str(id))
    if b'"error"' not in line[:most]:
        return 200
    import orjson

    error = orjson.loads(line).get("error")
    return STATUSES.get(error["code"], 200) if isinstance(error, dict) else 200
