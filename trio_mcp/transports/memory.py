"""A registry in the same process: over a connection in memory, or message by message.

A connection in memory is the same as any other, but nothing is cut into bytes and put together
again: a line goes from one side's writer to the other side's reader as it is. Most requests and
results do not even become lines. Where nothing waits before it, the task that sends a message hands
it to the other side, which sees to it at once. What is handed over is a copy, so neither side can
change what the other one holds.

A host that carries messages by itself needs no connection: an `Embedded` server takes a message
and returns its answer. The call runs in the task that waits for it, so there is nothing that could
outlive it.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import Any, Final, Self

import trio
from attrs import define, evolve, frozen

from trio_mcp.background import background_nursery
from trio_mcp.peer.channel import ResponseOnly
from trio_mcp.peer.connection import Connection
from trio_mcp.peer.inbound import Handler, Inbound, InboundRequest, Slots
from trio_mcp.peer.lines import IO_ERRORS, OutgoingLines, decoded
from trio_mcp.peer.outbound import OutgoingRequest
from trio_mcp.peer.requests import (
    OutgoingRequests,
    RelayedRequest,
    TaskRequest,
    is_large_request,
)
from trio_mcp.peer.runner import Runner
from trio_mcp.peer.time_limits import TimeLimit
from trio_mcp.public import public
from trio_mcp.registry import Registry
from trio_mcp.registry.entrances import check_trio
from trio_mcp.registry.lifespan import Opened
from trio_mcp.registry.registry import catalogue_of, check_registry
from trio_mcp.server.dispatcher import Dispatcher
from trio_mcp.server.server import Server
from trio_mcp.server.session import Session
from trio_mcp.transports.stream import run_connection
from trio_mcp.wire import codec
from trio_mcp.wire.answers import Reply, Result, id_of_message, reply_line
from trio_mcp.wire.framing import Frame
from trio_mcp.wire.jsonrpc import Id, Json, Message, Request, Response
from trio_mcp.wire.limits import Limits

_SHORT: Final = 16 * 1024
"""Bytes of a message that is copied in no time, whatever is in it."""


@define(eq=False)
class _Way:
    """One of the two directions of a connection in memory."""

    sender: trio.MemorySendChannel[list[Frame]]
    receiver: trio.MemoryReceiveChannel[list[Frame]]
    unread: int = 0
    """Lists of lines that were sent, and not received yet."""
    end: MemoryConnection | None = None
    """The connection that it leads to."""

    def ready_end(self, lines: OutgoingLines) -> MemoryConnection | None:
        """Return the connection that it leads to, if that can see to a message at once.

        Args:
            lines: What is sent this way, which no message may overtake.
        """
        end = self.end
        waits = end is None or self.unread or lines.pending or not end.is_ready
        return None if waits else end


@frozen(eq=False)
class MemoryLines:
    """One end of a connection in memory (a `LineTransport`). Made by `memory_lines_pair`."""

    outgoing: _Way
    incoming: _Way

    async def receive(self) -> list[Frame]:
        try:
            frames = await self.incoming.receiver.receive()
        except trio.EndOfChannel:
            return []
        self.incoming.unread -= 1
        return frames

    async def send(self, lines: list[bytes]) -> None:
        frames: list[Frame] = [line[:-1] for line in lines]
        way = self.outgoing
        try:
            way.sender.send_nowait(frames)  # no checkpoint: the writer has one between lines
        except trio.WouldBlock:
            await way.sender.send(frames)
        way.unread += 1

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
    one, other = (_Way(*trio.open_memory_channel[list[Frame]](1)) for _ in range(2))
    return MemoryLines(one, other), MemoryLines(other, one)


class _MemoryRequests(OutgoingRequests):
    """Our own requests on a connection in memory."""

    def __init__(self, lines: OutgoingLines, way: _Way) -> None:
        super().__init__(lines)
        self._lines: OutgoingLines = lines
        self._way = way

    async def send(
        self,
        method: str,
        params: dict[str, Json] | None = None,
        limit: TimeLimit | None = None,
        id: Id | None = None,
    ) -> Json:
        is_plain = limit is not None and not is_large_request(params)
        way = self._ready_way(params) if is_plain else None
        if way is None or limit is None:
            return await super().send(method, params, limit, id)
        id = self.next_id() if id is None else id
        request = TaskRequest(id, method, params, limit, self, self._lines)
        self._hand_over(request, *way)
        return await trio.lowlevel.wait_task_rescheduled(request.abandon)

    def begin(
        self,
        method: str,
        params: dict[str, Json],
        limit: TimeLimit,
        on_end: Callable[[RelayedRequest], object],
        owner: object,
    ) -> RelayedRequest | None:
        way = self._ready_way(params)
        if way is None:
            return super().begin(method, params, limit, on_end, owner)
        id = self.next_id()
        request = RelayedRequest(id, method, None, limit, self, self._lines, on_end, owner)
        self._hand_over(request, *way)
        return request

    def _ready_way(
        self, params: dict[str, Json] | None
    ) -> tuple[MemoryConnection, Json, int] | None:
        """Return who can see to a request at once, and its parameters as that one is to get them.

        Returns:
            `None` for one that has to be sent as a line.
        """
        end = self._way.ready_end(self._lines)
        if end is None or self.ended is not None or params is None:
            return None
        copied = _copied(params)
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
        lines: Its end of that.
        handler: As for a `Connection`, and so is the rest.
        limits: Likewise.
        shows_lines: Tells whether the lines that come in are looked at, and so have to be made.
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
        self._way = lines.outgoing
        super().__init__(lines, handler, limits, send_nowait=lines.send_nowait, **options)
        self._shows_lines = shows_lines
        self._context = copy_context()  # what is taken must not see that of its sender
        self._is_taking = False
        lines.incoming.end = self

    def _make_requests(self, lines: OutgoingLines) -> OutgoingRequests:
        return _MemoryRequests(lines, self._way)

    def respond_nowait(self, id: Id, reply: Reply | None) -> bool:
        end = self._way.ready_end(self._lines)
        copied = None
        if end is not None and isinstance(reply, Result) and not reply.is_large:
            copied = _copied(reply.members)
        if end is None or copied is None:
            return super().respond_nowait(id, reply)
        end.take_response(Response(id, copied[0], size=copied[1]))
        self._lines.sent += 1
        return True

    @property
    def is_ready(self) -> bool:
        """Whether a message can be seen to that the reader has not read."""
        # What is being seen to may lead back here, through other servers.
        is_open = not (self._reading is None or self.requests.ended or self._is_taking)
        is_full = self._lines.full or self._inbound.waiting_bytes > self._limits.max_waiting_bytes
        return is_open and not (self._rests or is_full or self._shows_lines())

    def take_request(self, request: Request, size: int) -> None:
        """See to a request in the task that sends it."""
        self._take_now(self._take_request, request, size)

    def take_response(self, response: Response) -> None:
        """See to a response in the task that sends it."""
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


def _copied(value: Json) -> tuple[Json, int] | None:
    """Return a short value as the other side would read it, and how many bytes it would have.

    Returns:
        `None` for one that is not plainly the same when it is written and read again.
    """
    try:
        text = codec.dumps(value)
    except TypeError:  # for long integers, or for what is not JSON
        return None
    if len(text) > _SHORT or text.rfind(b"null") >= 0:  # which may be NaN
        return None
    return codec.loads(text), len(text)


@asynccontextmanager
async def serve_in_memory(registry: Registry, limits: Limits) -> AsyncIterator[MemoryLines]:
    """Serve a registry to a client in the same process, for the length of the block.

    Yields:
        The client's end of the connection.

    Raises:
        Exception: Whatever the registry's lifespan raises.

    At the end, and when it is cancelled, the calls that still run are cancelled.
    """
    async with catalogue_of(registry).opened(limits) as opened:
        ours, theirs = memory_lines_pair()
        session = Session()
        dispatcher = Dispatcher(Server(registry, limits, opened), session)
        # Who leaves the block wants no answers, so what runs then gets no grace.
        limits = evolve(limits, eof_grace=0)
        connection = MemoryConnection(theirs, dispatcher, limits, has_hung_up=theirs.has_hung_up)
        finished = trio.Event()

        async def serve() -> None:
            try:
                with theirs:
                    await run_connection(connection, registry, session)
            finally:
                finished.set()

        async with background_nursery(serve):
            try:
                with ours:
                    yield ours
            finally:
                await finished.wait()


class Embedded:
    """One client's view of a registry that runs in the same process.

    Args:
        opened: What is open while the registry is served; `None` where `open` is called later.

    Raises:
        TypeError: There is no registry to serve.
    """

    def __init__(
        self, registry: Registry, limits: Limits | None = None, opened: Opened | None = None
    ) -> None:
        check_registry(registry)
        self._limits = limits or Limits()
        self._server = Server(registry, self._limits, opened)
        self.session = Session(f"in-process-{secrets.token_hex(8)}")
        self._idle = trio.lowlevel.ParkingLot()
        self._inbound = Inbound(
            Dispatcher(self._server, self.session),
            Slots(self._limits.max_concurrent_calls),
            on_change=self._idle.unpark_all,
        )
        self._runner = Runner(self._limits.cancel_timeout)
        self.is_open = False

    def open(self, opened: Opened) -> None:
        """Give handlers what the registry's lifespan yielded, and extensions what theirs did."""
        self._server.open(opened)
        self.is_open = True

    async def aclose(self) -> None:
        """Take no more requests, cancel those that run in other tasks, and wait for their end.

        Cancelled or not, it waits for at most `Limits.cancel_timeout` seconds: a tool that
        ignores its cancellation goes on in the task that called it.
        """
        self._inbound.cancel_all()
        with trio.CancelScope(shield=True) as scope:
            scope.deadline = trio.current_time() + self._limits.cancel_timeout
            while self._inbound:
                await self._idle.park()

    async def handle(self, message: bytes) -> bytes | None:
        """Answer one message: a request, a notification, or a batch.

        Returns:
            The answer, without a newline; `None` if there is none to give.

        Cancelled, the calls in it are cancelled with it.
        """
        taken = await decoded(message.strip(b"\n"), self._limits)
        line = None if taken is None else await self.answer(taken)
        return None if line is None else line.rstrip(b"\n")

    async def answer(self, message: Message) -> bytes | None:
        """Answer one decoded message with a line; `None` if there is none to give."""
        channel = ResponseOnly()
        opened, reply = self._inbound.take(message, channel)
        async with trio.open_nursery() as nursery:
            for request in opened:
                nursery.start_soon(self._runner.run, request)
        reply = reply or channel.take()
        return None if reply is None else reply_line(id_of_message(message), reply)


@public
async def handle_message(
    registry: Registry, message: bytes, *, limits: Limits | None = None
) -> bytes | None:
    """Answer one JSON-RPC message, for hosts that carry messages themselves.

    Each message stands for itself: what a legacy `initialize` agreed on is not remembered, and the
    registry's lifespan is opened for the message, unless it is open (see `Registry.running`). For
    a whole conversation, use `ControlRouter` or `connect(registry)`.

    Args:
        registry: What to serve. It is never closed.
        message: The message.
        limits: The bounds to keep.

    Returns:
        The answer; `None` for a notification.

    Raises:
        TypeError: There is no registry to serve.

    If cancelled, the call is cancelled. No task survives it in any case.

    Example:
        >>> async def ping(registry: Registry) -> bytes | None:
        ...     return await handle_message(registry, b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    """
    check_trio("handle_message")
    check_registry(registry)
    async with catalogue_of(registry).opened(limits) as opened:
        embedded = Embedded(registry, limits, opened)
        embedded.session.connection_id = None  # who sends the next message is not known
        return await embedded.handle(message)
