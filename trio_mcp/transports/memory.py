"""A registry in the same process: messages in, answers out, and no task in between.

A call runs in the task that waits for it, in a cancel scope with the tool's deadline, so there is
nothing that could outlive it. How many run at a time is bounded for each `Embedded` server.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from typing import Final

import trio

from trio_mcp.peer.exchange import Back, Cause, Exchange
from trio_mcp.public import public
from trio_mcp.registry import Registry
from trio_mcp.server.dispatcher import Dispatcher, Session
from trio_mcp.server.running import CallRunner
from trio_mcp.wire.errors import INTERNAL_ERROR, INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import (
    UNKNOWN_ID,
    Batch,
    Malformed,
    Message,
    Notification,
    Request,
    Single,
    decode,
    error_line,
    join_batch,
)
from trio_mcp.wire.limits import Limits

_DUPLICATE: Final = McpError(INVALID_REQUEST, "Invalid request: this id is already in use")
_STOPPING: Final = McpError(INTERNAL_ERROR, "Server is shutting down")


class Embedded:
    """One client's view of a registry that runs in the same process.

    Args:
        registry: What is served.
        limits: The bounds to keep.
        state: What the registry's lifespan yielded.

    Raises:
        TypeError: There is no registry to serve.
    """

    def __init__(
        self, registry: Registry, limits: Limits | None = None, state: object = None
    ) -> None:
        if not isinstance(registry, Registry):
            raise TypeError(f"a Registry is needed, not {type(registry).__name__}")
        self._limits = limits or Limits()
        self._dispatcher = Dispatcher(registry, self._limits, state)
        self.session: Final = Session(self._dispatcher, "in-process")
        """What is known of the client."""
        self.is_open = False
        """Whether a state was given with `open`."""
        self._open: dict[str | int, Exchange] = {}
        self._runner = CallRunner(self._limits.max_concurrent_calls)
        self._idle = trio.lowlevel.ParkingLot()
        self.closed = False
        """Whether no more requests are taken."""

    def open(self, state: object) -> None:
        """Give handlers what the registry's lifespan yielded."""
        self._dispatcher.state = state
        self.is_open = True

    async def aclose(self) -> None:
        """Take no more requests, cancel those that run in other tasks, and wait for their end.

        Cancelled or not, it waits for at most `Limits.cancel_patience` seconds: a tool that
        ignores its cancellation goes on in the task that called it.
        """
        self.closed = True
        for exchange in self._open.values():
            exchange.cancel(Cause.SHUTDOWN)
        self._runner.look_again()
        with trio.CancelScope(shield=True) as scope:
            scope.deadline = trio.current_time() + self._limits.cancel_patience
            while self._open:
                await self._idle.park()

    async def handle(self, message: bytes) -> bytes | None:
        """Answer one message: a request, a notification, or a batch.

        Args:
            message: A JSON-RPC message, without or with its newline.

        Returns:
            The answer, without a newline; `None` if there is none to give.

        Cancelled, the calls in it are cancelled with it.
        """
        decoded = decode(message.strip(b"\n"), self._limits.max_batch)
        line = None if decoded is None else await self.answer(decoded)
        return None if line is None else line.rstrip(b"\n")

    async def answer(self, message: Message) -> bytes | None:
        """Answer one decoded message with a line; `None` if there is none to give."""
        if isinstance(message, Request):
            return await self.answer_request(message)
        if isinstance(message, Batch):
            return await self._answer_batch(message)
        return self._take_note(message)

    async def _answer_batch(self, batch: Batch) -> bytes | None:
        if len(batch.messages) > self._limits.max_batch:
            why = f"Invalid request: a batch holds at most {self._limits.max_batch} messages"
            return error_line(UNKNOWN_ID, McpError(INVALID_REQUEST, why))
        lines: list[bytes] = []

        async def answer_into(request: Request) -> None:
            line = await self.answer_request(request, in_batch=True)
            if line is not None:
                lines.append(line)

        async with trio.open_nursery() as nursery:
            for each in batch.messages:
                if isinstance(each, Request):
                    nursery.start_soon(answer_into, each)
                elif (line := self._take_note(each)) is not None:
                    lines.append(line)
        return join_batch(lines) if lines else None

    def _take_note(self, message: Single) -> bytes | None:
        if isinstance(message, Malformed):
            return self.session.malformed(message, b"")
        if isinstance(message, Notification):
            if message.method == "notifications/cancelled":
                exchange = self._find(message.params.get("requestId"))
                if exchange is not None:
                    exchange.cancel(Cause.PEER)
                    self._runner.look_again()  # it may wait for a slot
            else:
                self.session.notified(message)
        return None

    def _find(self, id: object) -> Exchange | None:
        return self._open.get(id) if isinstance(id, str | int) else None

    async def answer_request(
        self,
        request: Request,
        *,
        in_batch: bool = False,
        deadline: float = inf,
        back: Back | None = None,
    ) -> bytes | None:
        """Answer one request with a line.

        Args:
            request: The request.
            in_batch: Whether it is part of a batch.
            deadline: When the caller loses interest, by Trio's clock.
            back: What its handler may say and ask meanwhile; `None` for nothing.

        Returns:
            The line; `None` if the request was cancelled, or the deadline has passed.
        """
        if self.closed:
            return error_line(request.id, _STOPPING)
        if request.id in self._open:
            return error_line(request.id, _DUPLICATE)
        call = self.session.begin(request, in_batch)
        if isinstance(call, bytes):
            return call
        exchange = self._open[request.id] = Exchange(request.id, call, None, 0, back=back)
        try:
            return await self._runner.run(exchange, deadline)
        finally:
            del self._open[request.id]
            if self._idle and not self._open:
                self._idle.unpark_all()


@asynccontextmanager
async def embed(registry: Registry, limits: Limits | None = None) -> AsyncIterator[Embedded]:
    """Open a registry's lifespan and yield it as an `Embedded` server."""
    async with registry.state() as state:
        embedded = Embedded(registry, limits, state)
        try:
            yield embedded
        finally:
            await embedded.aclose()


@public
async def handle_message(
    registry: Registry, message: bytes, *, limits: Limits | None = None
) -> bytes | None:
    """Answer one JSON-RPC message, for hosts that carry messages themselves.

    Each message stands for itself: what a legacy `initialize` agreed on is not remembered, and
    the registry's lifespan is opened for the message unless it is open (see `Registry.running`).
    For a whole conversation use `ControlRouter` or `connect(registry)`.

    Args:
        registry: What is served. It is never closed.
        message: The message.
        limits: The bounds to keep.

    Returns:
        The answer; `None` for a notification.

    Raises:
        TypeError: There is no registry to serve.

    Cancelled, the call is cancelled; no task survives it in any case.

    Example:
        >>> async def ping(registry: Registry) -> bytes | None:
        ...     return await handle_message(registry, b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    """
    if not isinstance(registry, Registry):
        raise TypeError(f"a Registry is needed, not {type(registry).__name__}")
    async with embed(registry, limits) as embedded:
        return await embedded.handle(message)
