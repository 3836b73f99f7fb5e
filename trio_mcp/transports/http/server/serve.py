"""Serving an ASGI app: accepting connections within bounds, and stopping in good order."""

import errno
import os
from collections.abc import Collection
from contextlib import closing
from math import inf
from typing import Final

import trio

from trio_mcp.loggers import logger_of
from trio_mcp.transports.http.server.asgi import Address, AsgiApp, bound_address
from trio_mcp.transports.http.server.connection import Connection
from trio_mcp.transports.http.server.limits import HttpLimits
from trio_mcp.transports.http.server.listeners import Backlog, Listeners
from trio_mcp.transports.http.server.service import HttpCounters, Service

logger = logger_of("trio_mcp.http")

_SHORTAGES: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS))
_SHORTAGE_PAUSE: Final = 0.1
_QUIET: Final = 10.0
"""Seconds in which a shortage is logged once."""


class HttpServer:
    """A running server, seen from outside. `nursery.start(serve_asgi, ...)` returns one.

    Example:
        >>> async def main(nursery, app):
        ...     server = await nursery.start(serve_asgi, app, await open_tcp("127.0.0.1", 0))
        ...     print(server.addresses)
        ...     server.stop()
    """

    def __init__(self, addresses: tuple[Address, ...], counters: HttpCounters) -> None:
        self.addresses: Final = addresses
        """Where it listens: `(host, port)`, or the path of a Unix socket."""
        self.counters: Final = counters
        self._stop = trio.Event()

    def stop(self) -> None:
        """Shut the server down gracefully, and return at once; further calls change nothing.

        It accepts no more connections, and closes those that are idle after
        `HttpLimits.idle_grace` seconds. Running requests have `shutdown_grace` seconds before
        they are cancelled. Then `serve_asgi` returns.
        """
        self._stop.set()

    async def wait_until_stopping(self) -> None:
        await self._stop.wait()


async def serve_asgi(
    app: AsgiApp,
    listeners: Listeners,
    *,
    limits: HttpLimits | None = None,
    max_body_bytes: int = 10 * 1024 * 1024,
    shutdown_grace: float = 5.0,
    root_path: str = "",
    always_served: Collection[str] = (),
    task_status: trio.TaskStatus[HttpServer] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an ASGI 3 app over HTTP/1.1, until it is stopped or cancelled.

    The app gets `http` scopes only: its lifespan is the caller's. It runs in the task of the
    connection, one request after the other; what it does after its response is complete holds up
    the client's next request. Context variables that it sets stay set for later requests on the
    same connection.

    A client that disconnects, or has sent its last byte, cancels its request, without the app
    having to watch out for it; the extension `trio_mcp.cancels` in the scope says so. An app that
    waits in `receive` at that moment gets `http.disconnect` instead, and is cancelled only
    after `HttpLimits.disconnect_grace`.

    An exception of the app is logged (`trio_mcp.http`) and answered with status 500, or if the
    response has begun, by closing the connection in its middle.

    Args:
        app: The app.
        listeners: Where to accept connections, from `open_tcp` or `open_unix` for instance.
            They are closed on return.
        limits: The bounds of connections.
        max_body_bytes: The longest body of a request, in bytes.
        shutdown_grace: Seconds that running requests have to finish once the server was asked to
            stop.
        root_path: The path that the app is mounted at, for its scopes.
        always_served: Paths that are served even to clients for whom there is no room.
        task_status: Tells that connections are being accepted, and gives an `HttpServer`.

    Raises:
        OSError: A listener failed.

    Cancelled, it closes everything at once.
    """
    service = Service(app, limits or HttpLimits(), max_body_bytes, root_path, always_served)
    server = HttpServer(addresses_of(listeners), service.counters)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.watch.run)
            async with trio.open_nursery() as doors:
                for listener in listeners:
                    doors.start_soon(_accept, listener, service, nursery)
                task_status.started(server)
                await server.wait_until_stopping()
                doors.cancel_scope.cancel()
            await close_all(listeners)
            await _drain(service, shutdown_grace)
            nursery.cancel_scope.cancel()
    finally:
        await close_all(listeners)


async def _accept(
    listener: trio.abc.Listener[trio.abc.Stream], service: Service, nursery: trio.Nursery
) -> None:
    quiet_until = -inf
    with closing(Backlog(listener)) as backlog:
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                if error.errno not in _SHORTAGES:
                    raise
                if trio.current_time() >= quiet_until:
                    logger.error("Cannot accept a connection: %s.", os.strerror(error.errno))
                    quiet_until = trio.current_time() + _QUIET
                service.relieve()
                with trio.move_on_after(_SHORTAGE_PAUSE):
                    await service.wait_until_left()
                continue
            for accepted in (stream, *backlog.take()):
                nursery.start_soon(Connection(service, accepted).run)


async def _drain(service: Service, grace: float) -> None:
    """Let running requests finish, within the grace.

    Connections that are idle are kept for a moment. A proxy may be sending a request on one right
    now; its answer will say that there can be no further one.
    """
    service.stopping = True
    started = trio.current_time()
    with trio.move_on_at(started + min(service.limits.idle_grace, grace)):
        await service.wait_until_fewer(1)
    for connection in service.connections:
        if connection.idle:
            connection.end()
    with trio.move_on_at(started + grace):
        await service.wait_until_fewer(1)


def addresses_of(listeners: Listeners) -> tuple[Address, ...]:
    found = (bound_address(listener) for listener in listeners)
    return tuple(address for address in found if address is not None)


async def close_all(listeners: Listeners) -> None:
    """Close them all, even when cancelled."""
    async with trio.open_nursery() as nursery:
        for listener in listeners:
            nursery.start_soon(listener.aclose)
