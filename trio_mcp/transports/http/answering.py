"""Answering one request with one response: a JSON body, or a stream once something is said before.

A handler that takes no context can say nothing, so its answer is a body, and it runs in the task
of the HTTP request with nothing beside it. Any other gets a writer beside it, which turns the
response into a stream of events when the first line comes. A subscription speaks in its own task
and nowhere else, so it writes by itself: there may be thousands of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from math import inf
from typing import Any, Final, TypeVar

import trio

from trio_mcp.peer.exchange import Call, Exchange, SteadyBack
from trio_mcp.server.running import CallRunner
from trio_mcp.transports.background import background_task
from trio_mcp.transports.http.request import Disconnected, Header, HttpRequest
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
from trio_mcp.wire.sse import encode_event

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
_CLOSE: Final = [(b"connection", b"close")]
_ESCAPED: Final = 6
"""Bytes that a character of an id may take."""


class ResponseBack(SteadyBack):
    """The way back to the sender of one request (a `Back`): its response, as a stream."""

    def __init__(self, http: HttpRequest, *, max_bytes: int, keep_alive: float) -> None:
        self._http = http
        self._max_bytes = max_bytes
        self._seconds = keep_alive
        self._events: deque[bytes] = deque()
        self._pending = 0
        self._closed = False
        self._given_up = False
        self._answer: bytes | None = None
        self._changed = trio.lowlevel.ParkingLot()

    async def say(self, line: bytes) -> None:
        """Send a notification, once there is room."""
        while self._pending > self._max_bytes and not self._closed:
            await self._changed.park()
        self.say_nowait(line)

    def say_nowait(self, line: bytes) -> None:
        """Send a notification, whether there is room or not."""
        if self._closed:  # somebody has answered in place of the handler
            return
        self._events.append(encode_event(line.rstrip(b"\n"), event="message"))
        self._pending += len(self._events[-1])
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
        while self._events or not self._closed:
            await self.flush()
            if not self._closed:
                seconds = self._seconds if self._http.started else inf
                with trio.move_on_after(seconds) as quiet:
                    await self._changed.park()
                if quiet.cancelled_caught:
                    await self._http.send_comment()
        if self._given_up:
            await finish(self._http, self._answer, headers=_CLOSE)

    async def flush(self) -> None:
        """Send what was said so far."""
        while self._events:
            if not self._http.started:
                await self._http.start_stream()
            event = self._events.popleft()
            await self._http.send_raw(event)
            self._pending -= len(event)
            self._changed.unpark_all()

    def give_up(self, line: bytes | None) -> None:
        """Have the writer send the answer, in place of a call that does not end."""
        self._given_up, self._answer = True, line
        self.close()

    def close(self) -> None:
        """Nothing more will be said."""
        self._closed = True
        self._changed.unpark_all()


class SpokenBack(ResponseBack):
    """The same for a call that speaks in its own task alone: nothing runs beside it."""

    @property
    def keep_alive(self) -> float:
        """Seconds of silence after which a comment is due."""
        return self._seconds

    async def send_keep_alive(self) -> None:
        """Send a comment."""
        await self._http.send_comment()

    async def say(self, line: bytes) -> None:
        """Send a notification."""
        self.say_nowait(line)
        await self.flush()


async def run_call(
    http: HttpRequest,
    exchange: Exchange,
    runner: CallRunner,
    *,
    max_bytes: int,
    keep_alive: float,
) -> bytes | None:
    """Run a call, and send what it says meanwhile. Returns the line that answers it.

    Args:
        http: The request, which the response answers.
        exchange: The call.
        runner: What runs it.
        max_bytes: So many bytes may wait to be written before the call pauses.
        keep_alive: Seconds between the comments that keep a quiet stream open.

    Cancelled, or when the client leaves, the call is cancelled.
    """

    async def run() -> bytes | None:
        if exchange.call.long_lived:
            with suppress(Disconnected):
                exchange.back = SpokenBack(http, max_bytes=max_bytes, keep_alive=keep_alive)
                return await runner.run(exchange)
            return None
        if not _may_speak(exchange.call):
            return await runner.run(exchange)
        back = ResponseBack(http, max_bytes=max_bytes, keep_alive=keep_alive)
        exchange.back = back
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

        async with background_task(watch):
            return await work()
    return None


async def finish(
    http: HttpRequest, line: bytes | None, status: int = 200, headers: Iterable[Header] = ()
) -> None:
    """Send the answer, in whichever way the response has begun."""
    if http.started:
        if line is not None:
            await http.send_event(line)
        await http.end_stream()
    elif line is not None:
        await http.respond(status, line[:-1], headers=headers)


async def answer_overdue(http: HttpRequest, exchange: Exchange, line: bytes | None) -> None:
    """Answer in place of a call that goes on although it was cancelled.

    It keeps the task of its connection, so the client is told not to use that any more.
    """
    if isinstance(exchange.back, ResponseBack):
        exchange.back.give_up(line)
    else:
        with suppress(Disconnected):
            await finish(http, line, headers=_CLOSE)


def status_of(line: bytes, id: Id) -> int:
    """The status for a line that answers a modern request with that id."""
    most = _HEAD_BYTES if id.__class__ is int else _HEAD_BYTES + _ESCAPED * len(str(id))
    if b'"error"' not in line[:most]:
        return 200
    import orjson

    error = orjson.loads(line).get("error")
    return STATUSES.get(error["code"], 200) if isinstance(error, dict) else 200
