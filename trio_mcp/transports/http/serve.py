"""Serving a registry over HTTP with the embedded server."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final

import trio
from attrs import frozen

from trio_mcp.auth.urls import is_loopback
from trio_mcp.background import background_nursery
from trio_mcp.checks import option
from trio_mcp.loggers import logger_of
from trio_mcp.public import public
from trio_mcp.registry import Registry
from trio_mcp.registry.entrances import check_trio
from trio_mcp.registry.registry import check_registry
from trio_mcp.server.importing import check_import
from trio_mcp.server.lifecycle import Lifecycle, ServerHandle, ServerState, stopping_at_signals
from trio_mcp.system.notify import notify
from trio_mcp.transports.http.app import EXPLORER_PATH, HttpApp, http_app
from trio_mcp.transports.http.health import PATHS as HEALTH_PATHS
from trio_mcp.transports.http.metrics import log_totals
from trio_mcp.transports.http.policy import HttpPolicy, policy_with
from trio_mcp.transports.http.server import (
    HttpCounters,
    HttpLimits,
    HttpServer,
    Listeners,
    addresses_of,
    close_all,
    open_tcp,
    open_unix,
    secured,
    serve_asgi,
)
from trio_mcp.transports.http.session_options import SessionOptions
from trio_mcp.transports.serving import (
    Serving,
    flush_logs,
    flush_process,
    leave_process,
    wait_for_stuck,
)
from trio_mcp.transports.stdio.messages import said_without_waiting
from trio_mcp.wire.limits import Limits

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from trio_mcp.auth.server.resource import ResourceServer
    from trio_mcp.store.protocol import StoreLike
    from trio_mcp.transports.http.card import ServerCard
    from trio_mcp.transports.http.server.asgi import AsgiApp
    from trio_mcp.transports.http.workers.worker import Worker

logger = logger_of("trio_mcp.http")

_EXPOSED: Final = (
    "The server listens on %s, beyond this machine, and asks for no token: "
    "anyone who reaches it may use it. Set HttpPolicy(auth=...), or a proxy before it."
)
_MORE_TIME: Final = 5.0
"""Seconds that a worker has to end beyond all that it is bounded by itself, until it is killed."""


@public
class HttpHandle(Lifecycle):
    """A handle of a running HTTP server. `nursery.start(serve_http, ...)` returns one."""

    def __init__(self, path: str, secure: bool) -> None:
        super().__init__()
        self._path = path
        self._secure = secure
        self.server: HttpServer | None = None
        """The server below: its addresses, and what it has done so far."""

    @property
    def port(self) -> int:
        """The port that it listens on.

        Raises:
            RuntimeError: It listens on a Unix socket.
        """
        return self._tcp_address()[1]

    @property
    def url(self) -> str:
        """The URL of the MCP endpoint.

        Raises:
            RuntimeError: It listens on a Unix socket.
        """
        return self._url(*self._tcp_address(), self._path)

    def _url(self, host: str, port: int, path: str) -> str:
        host = f"[{host}]" if ":" in host else host
        return f"{'https' if self._secure else 'http'}://{host}:{port}{path}"

    def addresses(self, path: str | None = None) -> list[str]:
        """Where it can be reached, as text: URLs, or the paths of Unix sockets.

        Args:
            path: The path there; that of the endpoint if left out.
        """
        path = path or self._path
        return [
            f"the Unix socket {address}, path {path}"
            if isinstance(address, str)
            else self._url(*address, path)
            for address in (self.server.addresses if self.server is not None else ())
        ]

    def _tcp_address(self) -> tuple[str, int]:
        for address in self.server.addresses if self.server is not None else ():
            if isinstance(address, tuple):
                return address
        raise RuntimeError("the server does not listen on a port")


@public
async def serve_http(
    registry: Registry,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    path: str = "/mcp",
    sse_path: str | None = None,
    unix_socket: str | os.PathLike[str] | None = None,
    unix_socket_mode: int = 0o600,
    listeners: Sequence[trio.abc.Listener[trio.abc.Stream]] | None = None,
    ssl_context: ssl.SSLContext | None = None,
    policy: HttpPolicy | None = None,
    auth: ResourceServer | None = None,
    sessions: SessionOptions | None = None,
    limits: Limits | None = None,
    http_limits: HttpLimits | None = None,
    card: ServerCard | None = None,
    explorer: bool = False,
    store: StoreLike | None = None,
    prometheus: CollectorRegistry | None = None,
    fallback: AsgiApp | None = None,
    workers: int | None = None,
    own_process: bool = False,
    task_status: trio.TaskStatus[ServerHandle] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve a registry over HTTP/1.1 until stopped or cancelled.

    Args:
        registry: What to serve.
        host: The address to listen on; only this machine by default.
        port: The port; 0 for any that is free.
        path: The path of the MCP endpoint. There are also `/health`, `/health/live`,
            `/health/ready`, `/tools` and `/metrics`.
        sse_path: The path for clients that only know HTTP+SSE, the transport of revision
            2024-11-05, such as `/sse`. Without it, they are not served.
        unix_socket: Listen on this Unix socket instead.
        unix_socket_mode: Its permissions: who may write to it may connect.
        listeners: Accept connections from these instead, such as sockets that a supervisor has
            opened. They are closed on return.
        ssl_context: Speak TLS, with this context.
        policy: Who may use the server.
        auth: Lets in whom an authorization server has given a token, as for `http_app`.
        sessions: The sessions of legacy clients, as for `http_app`.
        limits: The bounds of messages and calls, as on any transport.
        http_limits: The bounds that only HTTP connections have.
        card: What strangers may know of the server, as for `http_app`.
        explorer: Whether people can try the server out on a page at `/explorer`, as for `http_app`.
        store: What several instances share, as for `http_app`: a URL, or a store that is open.
        prometheus: A registry of prometheus_client whose metrics are shown as well, as for
            `http_app`. Those of workers are added up.
        fallback: An ASGI app, on Trio, that answers at all other paths, as for `http_app`.
        workers: Serve in that many processes, which run this program again and are looked after
            by this one. They share the port and, where `store` is left out, a private store. They
            need `own_process=True`. Bounds are each worker's own, but for the rates of `policy`.
        own_process: The process is the server's own, as with `serve`: SIGINT and SIGTERM stop it,
            from before it reports that it listens; and a tool or a lifespan that ignores its
            cancellation does not keep the process, which exits with status 70. Otherwise signals
            are left to the application; see `stop_at_signals`.
        task_status: Reports that it listens, with an `HttpHandle`.

    Raises:
        OSError: It cannot listen there.
        ValueError: A path does not begin with a slash, or both `listeners` and `unix_socket`
            are given; or the explorer would be for other machines, without a token; or there
            cannot be workers.
        SystemExit: Workers ended at once, again and again; with the exit status of the last one.
        Exception: Whatever the registry's lifespan raises.

    When stopped, it accepts no more connections, and closes idle ones after
    `HttpLimits.idle_grace` seconds. Running requests have `Limits.shutdown_grace` seconds to
    finish; then they are cancelled and answered. Then the lifespan is closed, and the log has the
    last counts of the metrics. Last, the log is flushed; with `own_process`, so is what
    OpenTelemetry has not exported, within `Limits.flush_timeout`. If cancelled, it ends at once.

    Example:
        >>> async def main(registry: Registry) -> None:
        ...     async with trio.open_nursery() as nursery:
        ...         handle = await nursery.start(serve_http, registry, "127.0.0.1", 0)
        ...         print(handle.url)
        ...         handle.stop()
    """
    check_trio("serve_http")
    check_registry(registry)
    check_import()
    policy, limits = policy_with(auth, policy), option("limits", limits, Limits)
    if listeners is not None and unix_socket is not None:
        raise ValueError("listeners and unix_socket exclude each other; start one server for each")
    worker = None
    if workers is not None:
        from trio_mcp.transports.http.workers.worker import check_workers, join

        check_workers(workers, own_process, listeners)
        worker = await join()
    if worker is not None:
        store = worker.store if store is None else store
        listeners = worker.listeners
    if explorer and listeners is None and unix_socket is None:
        from trio_mcp.transports.http.explorer import check_protected

        check_protected(policy, host)
    app = http_app(
        registry,
        path=path,
        sse_path=sse_path,
        policy=policy,
        sessions=sessions,
        limits=limits,
        card=card,
        explorer=explorer,
        store=store,
        prometheus=prometheus,
        fallback=fallback,
    )
    handle = HttpHandle(path, ssl_context is not None)
    service = _Service(app, handle, limits, http_limits or HttpLimits(), task_status)
    if listeners is None and unix_socket is not None:
        listeners = await open_unix(unix_socket, mode=unix_socket_mode)
    elif listeners is None:
        if not is_loopback(host) and not policy.asks_for_tokens:
            logger.warning(_EXPOSED, host)
        listeners = await open_tcp(host, port)
    async with said_without_waiting() if own_process else nullcontext():
        try:
            if workers is not None and worker is None:
                await service.supervise(workers, listeners, private_store=store is None)
            else:
                await service.run(secured(listeners, ssl_context), worker, own_process)
        finally:
            try:
                await close_all(listeners)
            finally:
                handle.reach(ServerState.STOPPED)
                flush_process(limits.flush_timeout) if own_process else flush_logs()


@frozen(eq=False)
class _Service:
    """One call of `serve_http`, when its options have been checked."""

    app: HttpApp
    handle: HttpHandle
    limits: Limits
    http_limits: HttpLimits
    task_status: trio.TaskStatus[ServerHandle]

    async def supervise(self, workers: int, listeners: Listeners, private_store: bool) -> None:
        """Have workers serve, and look after them."""
        from trio_mcp.transports.http.workers.supervisor import Supervisor, shared_settings

        # A worker's own ends come in turn, each in its time, and then it has a moment more.
        limits = self.limits
        timeout = limits.shutdown_grace + 2 * limits.cancel_timeout + limits.flush_timeout
        timeout += limits.lifespan_timeout + self.http_limits.idle_grace + limits.cancel_timeout

        def started() -> None:
            self.handle.server = HttpServer(addresses_of(listeners), HttpCounters())
            self.handle.running(supervisor.stop)
            name, where = self.app.registry.name, ", ".join(self.handle.addresses())
            logger.info("Serving %s at %s, with %d workers", name, where, workers)
            self.task_status.started(self.handle)

        with shared_settings(private_store) as settings:
            grace, timeout = limits.shutdown_grace, timeout + _MORE_TIME
            supervisor = Supervisor(workers, listeners, settings, timeout, grace)
            with self.handle.scope:
                await supervisor.run(started)
        supervisor.leave()
        log_totals(self.app.registry.name, supervisor.counted)

    async def run(self, listeners: Listeners, worker: Worker | None, own_process: bool) -> None:
        """Serve in this process: on its own, or as one of several workers."""
        app, handle = self.app, self.handle
        app.workers = worker
        async with nullcontext() if worker is None else worker.serving(handle.stop, app.report):
            with stopping_at_signals(handle) if own_process else nullcontext(), handle.scope:
                on_stuck = leave_process if own_process else wait_for_stuck
                async with app.serving(on_stuck) as here:
                    await self._serve(here, listeners, own_process)
        if worker is None:
            log_totals(app.registry.name, app.metrics.snapshot())

    async def _serve(self, here: Serving, listeners: Listeners, own_process: bool) -> None:
        app, handle, limits = self.app, self.handle, self.limits
        # The server cancels a request together with its connection, so its turn comes after ours.
        its = limits.shutdown_grace + limits.cancel_timeout + limits.flush_timeout
        stopped = trio.Event()

        async def relay() -> None:
            """Stop the app before the server, so that streams and calls end in good order."""
            await stopped.wait()
            if own_process and app.workers is None:  # or else the parent says so
                notify("STOPPING=1")
            handle.reach(ServerState.DRAINING)
            app.stop()
            assert handle.server is not None
            handle.server.stop()
            await trio.sleep(limits.shutdown_grace)
            app.cancel_calls()
            await trio.sleep(its - limits.shutdown_grace + limits.cancel_timeout)
            here.leave()

        class Started(trio.TaskStatus[HttpServer]):
            def started(self, value: HttpServer | None = None) -> None:
                assert value is not None
                listens(value)

        def listens(server: HttpServer) -> None:
            handle.server, app.metrics.server = server, server.counters
            handle.running(stopped.set)
            if app.workers is not None:
                app.workers.listens()
            elif own_process:
                notify("READY=1")
            level = logging.INFO if app.workers is None else logging.DEBUG  # the parent has said it
            name = app.registry.name
            logger.log(level, "Serving %s at %s", name, ", ".join(handle.addresses()))
            if app.explorer is not None:
                pages = handle.addresses(EXPLORER_PATH)
                logger.info("%s can be tried out at %s", name, ", ".join(pages))
            self.task_status.started(handle)

        listen = partial(
            serve_asgi,
            app,
            listeners,
            limits=self.http_limits,
            max_body_bytes=limits.max_message_bytes,
            shutdown_grace=its,
            always_served=(*HEALTH_PATHS, "/metrics"),
            task_status=Started(),
        )
        async with background_nursery(relay):
            here.start(listen)
            await here.wait()
