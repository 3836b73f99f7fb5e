"""A connection in memory, of which both sides are in this process.

It is the same as any other, but nothing is cut into bytes and put together again: a line goes from
one side's writer to the other side's reader as it is. Most requests and results do not even become
lines: if no other message waits before it, the task that sends a message hands a copy of it to the
other connection, which handles it at once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final, Self

import trio
from attrs import define, frozen

from trio_mcp.peer.connection import Connection
from trio_mcp.peer.inbound import Handler, InboundRequest
from trio_mcp.peer.lines import IO_ERRORS, OutgoingLines
from trio_mcp.peer.outbound import OutgoingRequest
from trio_mcp.peer.requests import (
    OutgoingRequests,
    RelayedRequest,
    TaskRequest,
    is_large_request,
)
from trio_mcp.peer.time_limits import TimeLimit
from trio_mcp.wire import codec
from trio_mcp.wire.answers import Reply, Result
from trio_mcp.wire.framing import Frame
from trio_mcp.wire.jsonrpc import Id, Json, Request, Response
from trio_mcp.wire.limits import Limits

_SHORT: Final = 16 * 1024
"""Bytes of a value that is soon copied, whatever is in it."""


@define(eq=False)
class _Direction:
    """One of the two directions of a connection in memory."""

    sender: trio.MemorySendChannel[list[Frame]]
    receiver: trio.MemoryReceiveChannel[list[Frame]]
    unread: int = 0
    """Lists of lines that were sent, and not received yet."""
    end: MemoryConnection | None = None
    """The connection that it leads to."""

    def ready_end(self, lines: OutgoingLines) -> MemoryConnection | None:
        """Return the connection that it leads to, if that can handle a message at once.

        Args:
            lines: The lines that are sent in this direction: no message may overtake them.
        """
        end = self.end
        waits = end is None or self.unread or lines.pending or not end.is_ready
        return None if waits else end


@frozen(eq=False)
class MemoryLines:
    """One end of a connection in memory (a `LineTransport`). Made by `memory_lines_pair`."""

    outgoing: _Direction
    incoming: _Direction

    async def receive(self) -> list[Frame]:
        try:
            frames = await self.incoming.receiver.receive()
        except trio.EndOfChannel:
            return []
        self.incoming.unread -= 1
        return frames

    async def send(self, lines: list[bytes]) -> None:
        frames: list[Frame] = [line[:-1] for line in lines]
        sender = self.outgoing.sender
        try:
            sender.send_nowait(frames)  # no checkpoint: the writer has one between lines
        except trio.WouldBlock:
            await sender.send(frames)
        self.outgoing.unread += 1

    def send_nowait(self, line: bytes) -> int:
        """Send a line if the other side has taken the last ones; return how many bytes that was."""
        try:
            self.outgoing.sender.send_nowait([line[:-1]])
        except (trio.WouldBlock, *IO_ERRORS):  # `send` says which
            return 0
        self.outgoing.unread += 1
        return len(line)

    def has_hung_up(self) -> bool:
        """Whether the other side has left, even if something of it is not read yet."""
        return not self.incoming.receiver.statistics().open_send_channels

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.incoming.end = None  # which knows this end: a cycle
        self.outgoing.sender.close()
        self.incoming.receiver.close()


def memory_lines_pair() -> tuple[MemoryLines, MemoryLines]:
    one, other = (_Direction(*trio.open_memory_channel[list[Frame]](1)) for _ in range(2))
    return MemoryLines(one, other), MemoryLines(other, one)


class _MemoryRequests(OutgoingRequests):
    """Our own requests on a connection in memory."""

    def __init__(self, lines: OutgoingLines, direction: _Direction) -> None:
        super().__init__(lines)
        self._lines: OutgoingLines = lines
        self._direction = direction

    async def send(
        self,
        method: str,
        params: dict[str, Json] | None = None,
        limit: TimeLimit | None = None,
        id: Id | None = None,
    ) -> Json:
        is_plain = limit is not None and not is_large_request(params)
        taker = self._taker_of(params) if is_plain else None
        if taker is None or limit is None:
            return await super().send(method, params, limit, id)
        id = self.next_id() if id is None else id
        request = TaskRequest(id, method, params, limit, self, self._lines)
        self._hand_over(request, *taker)
        return await trio.lowlevel.wait_task_rescheduled(request.abandon)

    def begin(
        self,
        method: str,
        params: dict[str, Json],
        limit: TimeLimit,
        on_end: Callable[[RelayedRequest], object],
        owner: object,
        is_encodable: bool = False,
    ) -> RelayedRequest | None:
        taker = self._taker_of(params, is_encodable)
        if taker is None:
            return super().begin(method, params, limit, on_end, owner, is_encodable)
        id = self.next_id()
        request = RelayedRequest(id, method, None, limit, self, self._lines, on_end, owner)
        self._hand_over(request, *taker)
        return request

    def _taker_of(
        self, params: dict[str, Json] | None, is_encodable: bool = False
    ) -> tuple[MemoryConnection, Json, int] | None:
        """Find the connection that can handle a request at once.

        Returns:
            The connection, a copy of the parameters, and their size in bytes; `None` for a request
            that has to be sent as a line.
        """
        end = self._direction.ready_end(self._lines)
        if end is None or self.ended is not None or params is None:
            return None
        copied = _copied(params, is_encodable)
        return None if copied is None else (end, *copied)

    def _hand_over(
        self, request: OutgoingRequest, end: MemoryConnection, params: Json, size: int
    ) -> None:
        self.add(request)
        # No answer comes before this returns: whatever answers it has a turn of its own.
        end.take_request(Request(request.id, request.method, params), size)


class MemoryConnection(Connection):
    """One side of a connection in memory.

    Args:
        lines: Its end of the pair of lines.
        handler: As for a `Connection`.
        limits: As for a `Connection`.
        shows_lines: Returns whether something looks at the lines that come in, so that each message
            has to be sent as one.
        options: The other arguments of a `Connection`.
    """

    def __init__(
        self,
        lines: MemoryLines,
        handler: Handler,
        limits: Limits,
        *,
        shows_lines: Callable[[], bool] = lambda: False,
        **options: Any,
    ) -> None:
        self._direction = lines.outgoing
        super().__init__(lines, handler, limits, send_nowait=lines.send_nowait, **options)
        self._shows_lines = shows_lines
        self._context = copy_context()  # a handler must not see the context of the sender
        self._is_taking = False
        lines.incoming.end = self

    def _make_requests(self, lines: OutgoingLines) -> OutgoingRequests:
        return _MemoryRequests(lines, self._direction)

    def respond_nowait(self, id: Id, reply: Reply | None) -> bool:
        end = self._direction.ready_end(self._lines)
        copied = None
        if end is not None and isinstance(reply, Result) and not reply.is_large:
            copied = _copied(reply.members, reply.is_encodable)
        if end is None or copied is None:
            return super().respond_nowait(id, reply)
        end.take_response(Response(id, copied[0], size=copied[1]))
        self._lines.sent += 1
        return True

    @property
    def is_ready(self) -> bool:
        """Whether it can handle a message past its reader."""
        # A message that is being handled may lead back here, through other servers.
        is_open = not (self._reading is None or self.requests.ended or self._is_taking)
        is_full = self._lines.full or self._inbound.waiting_bytes > self._limits.max_waiting_bytes
        return is_open and not (self._rests or is_full or self._shows_lines())

    def take_request(self, request: Request, size: int) -> None:
        """Handle a request in the task that sends it."""
        self._take_now(self._take_request, request, size)

    def take_response(self, response: Response) -> None:
        """Handle a response in the task that sends it."""
        self._take_now(self.requests.respond, response)

    def _take_now(self, take: Callable[..., object], *message: Any) -> None:
        self._is_taking = True
        try:
            self._context.run(take, *message)
        finally:
            self._is_taking = False

    def _take_request(self, request: Request, size: int) -> None:
        admitted = self._inbound.admit(request, self, size)
        if isinstance(admitted, InboundRequest):
            self._start(admitted)
        else:
            self._reply(request.id, admitted)


def _copied(value: Json, is_encodable: bool) -> tuple[Json, int] | None:
    """Copy a short value by writing and parsing it, as a line would be (`encode`).

    Returns:
        The copy and its size in bytes; `None` for a value that is long or that JSON may change.
    """
    try:
        text = codec.dumps_unchecked(value) if is_encodable else codec.dumps(value)
    except TypeError:  # for long integers, or for what is not JSON
        return None
    may_have_nan = not is_encodable and text.rfind(b"null") >= 0
    if may_have_nan or len(text) > _SHORT:
        return None
    return codec.loads(text), len(text)
