"""A registry in the same process: over a connection in memory, or message by message.

A host that carries messages by itself needs no connection: an `Embedded` server takes a message
and returns its answer. The call runs in the task that waits for it, so there is nothing that could
outlive it.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from attrs import evolve

from trio_mcp.background import background_nursery
from trio_mcp.peer.channel import ResponseOnly
from trio_mcp.peer.inbound import Inbound, Slots
from trio_mcp.peer.lines import decoded
from trio_mcp.peer.runner import Runner
from trio_mcp.public import public
from trio_mcp.registry import Registry
from trio_mcp.registry.entrances import check_trio
from trio_mcp.registry.lifespan import Opened
from trio_mcp.registry.registry import catalogue_of, check_registry
from trio_mcp.server.dispatcher import Dispatcher
from trio_mcp.server.server import Server
from trio_mcp.server.session import Session
from trio_mcp.transports.memory_connection import MemoryConnection, MemoryLines, memory_lines_pair
from trio_mcp.transports.stream import run_connection
from trio_mcp.wire.answers import id_of_message, reply_line
from trio_mcp.wire.jsonrpc import Message
from trio_mcp.wire.limits import Limits


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
