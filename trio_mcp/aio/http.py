"""A registry as an ASGI app for servers that run on asyncio, such as uvicorn.

The app itself runs in the Trio run beside the event loop, each request in a task. A request that
is complete, and is answered by one body, crosses once in each direction. Parts of a body, or of a
stream, cross one by one, and each is waited for, so that a slow client slows down the handler.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final

import trio
from attrs import define, field

from trio_mcp.aio.crossing import asgi_scope, current_crossing, resolve
from trio_mcp.aio.inloop import call_asyncio
from trio_mcp.aio.portal import Portal
from trio_mcp.aio.run import TrioRun
from trio_mcp.aio.tasks import WorkTasks
from trio_mcp.aio.wrappers import same_arguments
from trio_mcp.loggers import logger_of
from trio_mcp.transports.http.app import HttpApp as TrioHttpApp
from trio_mcp.transports.http.app import http_app as trio_http_app
from trio_mcp.transports.http.request import JSON, Header, Refusal, stopping
from trio_mcp.transports.http.server.asgi import CANCELS, CONNECTION, Message, Receive, Scope, Send
from trio_mcp.wire.limits import Limits

logger = logger_of("trio_mcp.http")

_QUICK: Final = 0.05
"""Seconds between two looks at the requests that run. Most are over before the first one."""

_CONNECTIONS: Final = 1000
"""Clients whose last head is kept at a time. ASGI has no name for a connection but its address."""

_LAST_WORDS: Final = 1.0
"""Seconds for the end of a response whose request the server cancels."""


class Running(Portal[Any, None]):
    """An app while it is open in an event loop, and what its requests there have in common."""

    def __init__(self, app: TrioHttpApp) -> None:
        super().__init__(partial(app.serving, _let_go), lambda nothing: None)
        self.tasks: Final = WorkTasks(self.start_soon)
        self._requests: set[_Exchange] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._connections: dict[Any, dict[Any, Any]] = {}

    def connection_of(self, client: Any) -> dict[Any, Any]:
        """Return what is kept for the connection from an address, if it was used of late."""
        client = client and tuple(client)  # some servers have a list
        kept = self._connections.pop(client, None)
        if kept is None:
            kept = {}
            if len(self._connections) >= _CONNECTIONS:
                del self._connections[next(iter(self._connections))]  # longest without a request
        self._connections[client] = kept
        return kept

    def begun(self, request: _Exchange) -> None:
        """Have a look at a request now and then, until it has `ended`, with one timer for all."""
        self._requests.add(request)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_QUICK, self._look)

    def ended(self, request: _Exchange) -> None:
        self._requests.discard(request)

    def _look(self) -> None:
        self._timer = None
        for request in self._requests:
            request.look()
        if self._requests:
            self._timer = asyncio.get_running_loop().call_later(_QUICK, self._look)


class HttpApp:
    """A registry as an ASGI 3 app for asyncio. Made by `trio_mcp.aio.http_app`."""

    def __init__(self, app: TrioHttpApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits
        self._portal: Running | None = None
        self._starting: Running | None = None
        self._opening: asyncio.Future[None] | None = None
        self._handlers: dict[int, tuple[Any, Any]] = {}

    # -- life -----------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Open the registry's lifespan, and keep sessions, for the length of the block.

        It is not needed: without it the app opens by itself when a server starts it or, where it
        is mounted without a lifespan, with the first request, and closes with the event loop.

        Raises:
            RuntimeError: The app is running already.
            Exception: Whatever the registry's lifespan raises.
        """
        portal = await self.open()
        try:
            yield
        finally:
            await self.close(portal)

    async def open(self) -> Running:
        """Start to run, and chain the signals that stop it in time."""
        await self._check_free()
        portal = Running(self._app)
        self._starting = portal
        self._chain_signals()
        try:
            await portal.open()
        except BaseException:
            self._leave_signals()
            raise
        finally:
            self._starting = None
        self._portal = portal
        return portal

    async def close(self, portal: Running) -> None:
        """Stop: subscriptions and streams at once, calls after their time."""
        if self._portal is portal:
            self._portal = self._opening = None
            self._leave_signals()
        try:
            await portal.call(partial(self._drain, portal))
        finally:
            await portal.aclose()

    async def _check_free(self) -> None:
        """Wait for the end in a loop that was closed; refuse to run in two loops."""
        portal = self._portal
        if portal is None or portal.is_here:
            return
        if portal.run.is_in_use:
            raise ServedElsewhere
        await asyncio.to_thread(portal.run.join)

    async def _running_here(self) -> Running:
        """Open the portal of this loop, and return it."""
        if self._opening is None or self._opening.get_loop() is not asyncio.get_running_loop():
            self._opening = asyncio.ensure_future(self._open_late())
        await asyncio.shield(self._opening)  # it goes on if the first request is cancelled
        assert self._portal is not None
        return self._portal

    async def _open_late(self) -> None:
        try:
            await self.open()
        except BaseException:
            self._opening = None  # the next request tries again
            raise

    # -- the end of the process -----------------------------------------------------------

    def _chain_signals(self) -> None:
        """Handle a signal before the server does, which would wait for endless streams."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._leave_signals()  # of an event loop before this one
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if callable(before) and before is not signal.default_int_handler:
                mine = partial(self._on_signal, before)
                self._handlers[number] = (mine, before)
                signal.signal(number, mine)

    def _leave_signals(self) -> None:
        for number, (mine, before) in self._handlers.items():
            if signal.getsignal(number) is mine:
                signal.signal(number, before)
        self._handlers.clear()

    def _on_signal(self, before: Callable[..., object], *args: Any) -> None:
        self.stop()
        before(*args)

    def stop(self) -> None:
        """End subscriptions and streams now, and calls after `Limits.shutdown_grace` seconds.

        An app that still starts gives that up. SIGINT and SIGTERM do this where the server handles
        them. May be called from any thread.
        """
        portal = self._starting
        if portal is not None:
            portal.give_up()
        portal = self._portal
        if portal is not None:
            portal.run.post(partial(portal.start_soon, partial(self._drain, portal)))

    async def _drain(self, portal: Running) -> None:
        portal.run.prepare_end()
        await self._app.drain()
        await portal.run.let_go(self._limits.cancel_timeout)

    # -- requests -------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if trio.lowlevel.in_trio_run():
            await self._app(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            portal = self._portal
            try:
                if portal is None or not portal.is_here:
                    portal = await self._running_here()
            except ServedElsewhere as error:
                logger.error("%s", error)
                await _refuse(Refusal(503, "This app is in use elsewhere"), send)
            else:
                await _Exchange(self._app, portal, scope, receive, send).serve()
        else:
            raise ValueError(f"an HTTP app cannot serve a scope of type {scope['type']!r}")

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        phase = "startup"
        try:
            portal = await self.open()
            phase = "shutdown"
            await send({"type": "lifespan.startup.complete"})
            try:
                await receive()
            finally:
                await self.close(portal)
        except Exception as error:
            logger.exception("The app cannot run")
            words = str(error) if isinstance(error, ServedElsewhere) else type(error).__name__
            await send({"type": f"lifespan.{phase}.failed", "message": words})
        else:
            await send({"type": "lifespan.shutdown.complete"})


class ServedElsewhere(RuntimeError):
    """An app is to be served in a second event loop, while one serves it."""

    def __init__(self) -> None:
        super().__init__(
            "this app is served in another event loop; make one for each loop: call http_app again"
        )


def _let_go(labels: list[str]) -> None:
    """Leave handlers in asyncio to themselves that ignore their cancellation, at the end."""
    run = current_crossing.get()
    assert isinstance(run, TrioRun)
    run.nursery.start_soon(run.let_go, 0)


async def _refuse(refusal: Refusal, send: Send) -> None:
    headers = [(b"content-type", JSON), *refusal.headers]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": refusal.body})


@define(eq=False)
class _Exchange:
    """A request and its response, between the server's task and a task of the Trio run.

    To the app on Trio's side it is a `DirectExchange`.
    """

    _app: TrioHttpApp
    _portal: Running
    _scope: Scope
    _receive: Receive
    _send: Send
    _answered: asyncio.Future[None] = field(init=False)
    _first: Message | None = field(default=None, init=False)
    _is_read: bool = field(default=False, init=False)
    """Whether the body is read to its end; the next message is the end of the connection."""
    _kept: list[Message] = field(factory=list, init=False)
    """What is to be sent, and can wait for the next message."""
    _has_begun: bool = field(default=False, init=False)
    _is_stream: bool = field(default=False, init=False)
    _is_complete: bool = field(default=False, init=False)
    _failure: Exception | None = field(default=None, init=False)
    _context: Context = field(factory=copy_context, init=False)
    _cancelling: trio.CancelScope | None = field(default=None, init=False)
    """What it runs in, on Trio's side."""
    _is_cancelled: bool = field(default=False, init=False)
    _was_seen: bool = field(default=False, init=False)
    _watcher: asyncio.Task[None] | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        """Add to the scope that a client that leaves cancels the app, and what is kept for it."""
        extensions = dict(self._scope.get("extensions") or ())
        extensions[CANCELS] = {}
        extensions[CONNECTION] = self._portal.connection_of(self._scope.get("client"))
        self._scope = {**self._scope, "extensions": extensions}
        self._context.run(asgi_scope.set, self._scope)
        self._answered = self._run.future()

    @property
    def _run(self) -> TrioRun:
        return self._portal.run

    # -- asyncio's side -------------------------------------------------------------------

    async def serve(self) -> None:
        """Answer the request. If the client leaves, or this is cancelled, so is the request."""
        self._first = await self._next()
        self._portal.begun(self)
        self._run.post(self._start)
        try:
            await self._answered
        except asyncio.CancelledError:
            self._answered = self._run.future()  # the other one was cancelled with it
            self._run.post(self._cancel)
            await self._cut_short()
            raise
        finally:
            self._portal.ended(self)
            if self._watcher is not None:
                self._watcher.cancel()
        if self._is_complete:
            await self._send_all(self._kept)
        elif self._failure is not None:
            raise self._failure

    async def _next(self) -> Message:
        message = await self._receive()
        self._is_read = not message.get("more_body")
        return message

    def look(self) -> None:
        """Watch for a client that leaves, when the request was looked at before."""
        if self._was_seen and self._is_read and self._watcher is None:
            self._watcher = asyncio.ensure_future(self._cancel_at_disconnect())
        self._was_seen = True

    async def _cancel_at_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._run.post(self._cancel)

    def _end(self) -> None:
        resolve(self._answered)

    async def _send_all(self, messages: list[Message]) -> None:
        for message in messages:
            await self._send(message)

    async def _cut_short(self) -> None:
        """End a response whose request the server cancels, as some do when they stop."""
        with suppress(Exception):  # it may have gone, or want no more of this response
            async with asyncio.timeout(_LAST_WORDS):
                await self._answered
                if not self._has_begun:
                    await _refuse(stopping(), self._send)
                elif self._is_stream and not self._is_complete:
                    await self._send({"type": "http.response.body", "body": b""})

    # -- Trio's side ----------------------------------------------------------------------

    def _start(self) -> None:
        if not self._portal.tasks.start_soon(self._context, self._work):
            self._failure = RuntimeError("the app is not running any more")
            self._run.tell(self._end)

    def _cancel(self) -> None:
        self._is_cancelled = True
        if self._cancelling is not None:
            self._cancelling.cancel()

    async def _work(self, scope: trio.CancelScope) -> None:
        self._cancelling = scope
        if self._is_cancelled:
            scope.cancel()
        try:
            await self._app(self._scope, self.receive, self.send)
        except Exception as error:
            self._failure = error
        finally:
            self._cancelling = None  # which may be for another request next
            if not self._is_complete:
                self._run.tell(self._end)

    async def receive(self) -> Message:
        if (message := self._first) is None:
            return await call_asyncio(self._run, self._next)
        self._first = None
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._kept.append(message)
        elif not message.get("more_body"):
            self._complete(message)
        else:
            kept, self._kept = [*self._kept, message], []
            self._is_stream |= not message.get("body")  # which is how a stream begins
            self._has_begun = True
            await call_asyncio(self._run, self._send_all, kept)

    def take_body(self) -> bytes | None:
        message = self._first
        if message is None or not self._is_read or message["type"] != "http.request":
            return None
        self._first = None
        body: bytes = message.get("body", b"")
        return body

    async def respond(self, status: int, headers: Iterable[Header], body: bytes) -> None:
        head = [*headers, (b"content-length", b"%d" % len(body))]
        self._kept.append({"type": "http.response.start", "status": status, "headers": head})
        self._complete({"type": "http.response.body", "body": body})

    def send_nowait(self, data: bytes) -> bool:
        return False  # it would have to cross

    def _complete(self, message: Message) -> None:
        # It ends with this, even if the call that it answers does not.
        self._kept.append(message)
        self._is_complete = True
        self._run.tell(self._end)


@same_arguments(trio_http_app)
def http_app(*args: Any, **options: Any) -> HttpApp:
    """Make an ASGI app of a registry, for ASGI servers that run on asyncio, and for frameworks.

    Arguments and errors are those of `trio_mcp.http_app`. It runs under uvicorn, Hypercorn and
    others, by itself or mounted in Starlette or FastAPI. Mount it as it is: no lifespan has to be
    passed on. (It also runs on a server that runs on Trio, as the app of `trio_mcp.http_app`.)

    Handlers of a `trio_mcp.aio.Registry`, and those with `on_asyncio`, run in the server's event
    loop, the others under Trio, in a thread beside it.

    A request whose client has left is cancelled. At SIGINT and SIGTERM, if the server handles
    them, subscriptions and streams end at once and calls after `Limits.shutdown_grace` seconds;
    a server that waits for its connections would wait for them forever.

    Example:
        >>> app = http_app(Registry("empty"))  # uvicorn module:app
    """
    return HttpApp(trio_http_app(*args, **options), options.get("limits") or Limits())
