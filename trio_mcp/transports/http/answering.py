"""Answering one request with one response: a JSON body, or a stream once something is said before.

A handler that takes no context can say nothing, so its answer is a body, and it runs in the task
of the HTTP request with nothing beside it. Any other gets a writer beside it, which turns the
response into a stream of events when the first line comes. A subscription speaks in its own task,
or in its place where a change is noted, so it writes by itself: there may be thousands of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from math import inf
from typing import Final, TypeVar

import trio

from trio_mcp.background import background_nursery
from trio_mcp.peer.channel import ReplyChannel
from trio_mcp.transports.http.request import (
    Body,
    Disconnected,
    Header,
    HttpRequest,
    Pieces,
    body_of,
    event_of,
)
from trio_mcp.wire.answers import Reply, reply_line
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
from trio_mcp.wire.jsonrpc import UNKNOWN_ID, Id
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

_CLOSE: Final = [(b"connection", b"close")]
_LAST_WORDS: Final = 1.0
"""Seconds that a request still has to be answered when its server cancels it."""


class ResponseChannel(ReplyChannel):
    """The way back to the sender of one request: its response.

    For calls that send nothing but the response, or send it all in their own task.
    """

    def __init__(self, http: HttpRequest, keep_alive: float) -> None:
        self._http = http
        self.keep_alive = keep_alive
        self.reply: Reply | None = None
        self.ended = False

    async def send_notification(self, line: bytes) -> None:
        if not self._http.started:
            await self._http.start_stream()
        await self._http.send_event(line)

    def offer_notification(self, line: bytes) -> bool:
        return self._http.offer_event(line)

    async def send_keep_alive(self) -> None:
        await self._http.send_comment()

    def respond_nowait(self, id: Id, reply: Reply | None) -> bool:
        """Keep the answer: a call that waits for the client to read it needs no slot any more."""
        self.reply = reply
        return True

    async def respond(self, id: Id, reply: Reply | None, *, overdue: bool = False) -> None:
        """Send the answer of an overdue call, which keeps the task that would send it."""
        self.reply = reply
        self.ended = True
        with suppress(Disconnected):
            await finish(self._http, outgoing(self._http, id, reply), headers=_CLOSE)


class QueuedChannel(ResponseChannel):
    """The same for a call that may send from any task: a writer beside it does the sending."""

    def __init__(self, http: HttpRequest, keep_alive: float, max_bytes: int) -> None:
        super().__init__(http, keep_alive)
        self._max_bytes = max_bytes
        self._events: deque[bytes] = deque()
        self._pending = 0
        self._closed = False
        self._id: Id = UNKNOWN_ID  # of the request, once it is answered
        self._changed = trio.lowlevel.ParkingLot()

    async def send_notification(self, line: bytes) -> None:
        while self._pending > self._max_bytes and not self._closed:
            await self._changed.park()
        self.send_notification_nowait(line)

    offer_notification = ReplyChannel.offer_notification  # what is queued comes first

    def send_notification_nowait(self, line: bytes) -> None:
        if not self._closed:  # else it was answered in place of the handler
            self._events.append(encode_event(line.rstrip(b"\n"), event="message"))
            self._pending += len(self._events[-1])
            self._changed.unpark_all()

    async def send_keep_alive(self) -> None:
        """Do nothing: the writer keeps the response open."""
        await trio.lowlevel.checkpoint()

    def respond_nowait(self, id: Id, reply: Reply | None) -> bool:
        """Keep the answer, and let the writer end."""
        self.reply, self._closed = reply, True
        self._id = id
        self._changed.unpark_all()
        return True

    async def respond(self, id: Id, reply: Reply | None, *, overdue: bool = False) -> None:
        """Have the writer send the answer of an overdue call."""
        self.ended = True
        self.respond_nowait(id, reply)

    async def write(self) -> None:
        """Send what there is, until the response is there; and comments while nothing is."""
        while self._events or not self._closed:
            await self._flush()
            if not self._closed:
                seconds = self.keep_alive if self._http.started else inf
                with trio.move_on_after(seconds) as quiet:
                    await self._changed.park()
                if quiet.cancelled_caught:
                    await self._http.send_comment()
        if self.ended:
            await finish(self._http, outgoing(self._http, self._id, self.reply), headers=_CLOSE)

    async def _flush(self) -> None:
        while self._events:
            if not self._http.started:
                await self._http.start_stream()
            event = self._events.popleft()
            await self._http.send_raw(event)
            self._pending -= len(event)
            self._changed.unpark_all()


async def run_with_writer(channel: QueuedChannel, run: Callable[[], Awaitable[None]]) -> None:
    """Run a call, and send what it sends meanwhile through its channel."""
    async with trio.open_nursery() as nursery:

        async def write() -> None:
            try:
                await channel.write()
            except Disconnected:
                nursery.cancel_scope.cancel()

        nursery.start_soon(write)
        await run()


def while_connected(http: HttpRequest, work: Callable[[], Awaitable[T]]) -> Awaitable[T | None]:
    """Do some work, and cancel it when the client leaves; then `None` is returned."""
    return work() if http.cancels else _while_connected(http, work)


async def _while_connected(http: HttpRequest, work: Callable[[], Awaitable[T]]) -> T | None:
    with trio.CancelScope() as scope:

        async def watch() -> None:
            await http.wait_for_disconnect()
            scope.cancel()

        async with background_nursery(watch):
            return await work()
    return None


async def ending_in_order(http: HttpRequest, work: Callable[[], Awaitable[None]]) -> None:
    """Do the work of a request that its server may cancel without a word, when it stops.

    Then the calls in it are cancelled and have a moment to be answered. What is left of the
    response is ended, so that the client has an answer, if only that the server stops.
    """
    shield, done = trio.CancelScope(shield=True), False

    async def wait_for_cancellation() -> None:
        try:
            await trio.sleep_forever()
        finally:
            if not done:
                patience = 0.0
                if http.on_cut is not None:
                    http.on_cut()
                    patience = _LAST_WORDS
                shield.deadline = trio.current_time() + patience

    async with background_nursery(wait_for_cancellation):
        with shield:
            try:
                await work()
            finally:
                done = True
        if shield.cancelled_caught:
            with trio.move_on_after(_LAST_WORDS, shield=True), suppress(Disconnected):
                await http.cut_short()
            await trio.lowlevel.checkpoint()  # where the cancellation from outside is raised


def outgoing(http: HttpRequest, id: Id, reply: Reply | None) -> Body | None:
    """Encode an answer for `finish`: as an event if the response has begun as a stream."""
    if reply is None:
        return None
    line = reply_line(id, reply)
    return event_of(line) if http.started else body_of(line)


def finish(
    http: HttpRequest, answer: Body | None, status: int = 200, headers: Iterable[Header] = ()
) -> Awaitable[None]:
    """Send an answer, or end the stream that the response has begun as."""
    if http.started:
        return _end(http, answer)
    if answer is None:  # the client has cancelled it
        return http.respond(202, headers=headers)
    return http.respond(status, answer, headers=headers)


async def _end(http: HttpRequest, answer: Body | None) -> None:
    if answer is not None:
        await http.send_pieces(Pieces((answer,)) if isinstance(answer, bytes) else answer)
    await http.end_stream()


def status_of(reply: Reply | None) -> int:
    return STATUSES.get(reply.code, 200) if isinstance(reply, McpError) else 200
