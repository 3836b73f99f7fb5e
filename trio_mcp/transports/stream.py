"""Serving a registry on one byte stream: lifespan, connection, and the handle to both.

A stream is used by one connection at a time, or both would read parts of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import Any, Final

import trio

from trio_mcp.peer.connection import Connection
from trio_mcp.peer.lines import SendNowait, StreamLines
from trio_mcp.public import public
from trio_mcp.registry import Registry
from trio_mcp.registry.entrances import check_trio
from trio_mcp.registry.registry import catalogue_of, check_registry
from trio_mcp.server.dispatcher import Dispatcher
from trio_mcp.server.lifecycle import Lifecycle, ServerHandle, ServerState
from trio_mcp.server.server import Server
from trio_mcp.server.session import Session
from trio_mcp.server.subscriptions import send_changes
from trio_mcp.system.descriptors import has_hung_up, is_read_no_more
from trio_mcp.transports.networks import innermost, network_of
from trio_mcp.transports.serving import OnStuck, tasks_around, wait_for_stuck
from trio_mcp.wire.limits import Limits


@public
async def serve_stream(
    registry: Registry,
    stream: trio.abc.Stream,
    *,
    limits: Limits | None = None,
    task_status: trio.TaskStatus[ServerHandle] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve a registry to the client at the other end of a stream until it disconnects.

    Any Trio stream will do: a TCP or TLS connection, a Unix socket, an in-memory pipe.

    Args:
        registry: What to serve.
        stream: The connection. It is closed on return.
        limits: The bounds of messages and calls.
        task_status: Reports that it reads requests, with a `ServerHandle`.

    Raises:
        trio.BusyResourceError: Another connection, which is not disturbed, uses the stream.
        Exception: Whatever the registry's lifespan raises.

    If cancelled, it cancels its calls, takes at most `Limits.flush_timeout` seconds to write what
    has been answered, and closes the lifespan.

    Example:
        >>> async def serve_tcp(registry: Registry) -> None:
        ...     async def client(stream: trio.abc.Stream) -> None:
        ...         await serve_stream(registry, stream)
        ...     await trio.serve_tcp(client, 8000)
    """
    check_trio("serve_stream")
    check_registry(registry)
    lifecycle = Lifecycle()
    with claimed(stream):
        try:
            await serve_connection(registry, stream, limits or Limits(), lifecycle, task_status)
        finally:
            # If it is cancelled, a checkpoint would raise that in place of what was raised before.
            is_cancelled = trio.current_effective_deadline() == -inf
            with trio.CancelScope(shield=is_cancelled) as closing:
                if is_cancelled:
                    closing.cancel()
                await stream.aclose()


async def serve_connection(
    registry: Registry,
    stream: trio.abc.Stream,
    limits: Limits,
    lifecycle: Lifecycle,
    task_status: trio.TaskStatus[ServerHandle] = trio.TASK_STATUS_IGNORED,
    *,
    send_nowait: SendNowait | None = None,
    on_stuck: OnStuck = wait_for_stuck,
) -> None:
    """Serve one connection from the opening of the lifespan to its end, moving `lifecycle` on."""
    session = Session(network=network_of(stream))
    server = Server(registry, limits)
    try:
        async with tasks_around(registry, limits, on_stuck) as here:
            connection = Connection(
                StreamLines(stream, limits.max_message_bytes, send_nowait),
                Dispatcher(server, session),
                limits,
                on_drain=lambda: lifecycle.reach(ServerState.DRAINING),
                on_stuck=here.leave,
                has_hung_up=_asking(innermost(stream), has_hung_up),
                is_read_no_more=_asking(innermost(stream, "send_stream"), is_read_no_more),
                is_held=True,
                send_nowait=send_nowait,
            )
            session.stop = connection.stop
            lifecycle.stopped_by(connection.stop)
            # It is read while the lifespan opens, so that its end is noticed.
            here.start(partial(run_connection, connection, registry, session))
            with lifecycle.scope:
                async with here.lifespan() as opened:
                    server.open(opened)
                    connection.begin()
                    lifecycle.reach(ServerState.RUNNING)
                    task_status.started(lifecycle)
                    await here.wait()
            if not here.is_open:
                await here.wait()  # what was read is answered all the same
    finally:
        lifecycle.reach(ServerState.STOPPED)


def _asking(inner: Any, question: Callable[[int], bool]) -> Callable[[], bool] | None:
    """Return what asks the system about an end of a stream; `None` where it cannot know."""
    return (lambda: question(inner.fileno())) if hasattr(inner, "fileno") else None


async def run_connection(connection: Connection, registry: Registry, session: Session) -> None:
    session.connection_id = connection.id
    listening = catalogue_of(registry).changes.listen(owner=session.owner)
    with session.measured(), listening as session.listener:
        send = connection.send_notification
        try:
            await connection.run(partial(send_changes, session.listener, send))
        finally:
            session.stop = None  # the connection knows the session, and would not be freed at once


_CLAIMED: Final = trio.lowlevel.RunVar[set[int]]("claimed streams")
_PARTS: Final = ("transport_stream", "send_stream", "receive_stream", "socket")
"""What Trio's own streams are put together of: the same pipe can be in several of them."""


@contextmanager
def claimed(stream: trio.abc.Stream) -> Iterator[None]:
    """Have a stream for oneself for the length of the block.

    Raises:
        trio.BusyResourceError: Another connection has it, or a part of it.
    """
    held = _CLAIMED.get(set())
    _CLAIMED.set(held)
    parts = _parts(stream)  # kept until the end: their ids may not become another object's
    ids = set(map(id, parts))
    if held & ids:
        raise trio.BusyResourceError("this stream is in use by another connection")
    held |= ids
    try:
        yield
    finally:
        held -= ids


def _parts(stream: object) -> list[object]:
    inner = [getattr(stream, name, None) for name in _PARTS]
    return [stream, *(part for found in inner if found is not None for part in _parts(found))]
