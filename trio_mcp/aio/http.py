"""A registry as an ASGI app for servers that run on asyncio, such as uvicorn.

The app itself runs in the Trio run beside the event loop, a task for each request. A request that
is there as a whole, and is answered by one body, crosses over once and comes back once. What comes
in parts, or is a stream, crosses with each part and waits there, so that a slow client slows down
the one who sends.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from functools import partial
from typing import Any, Final

import trio

from trio_mcp.aio.held import Held
from trio_mcp.aio.inloop import call_asyncio
from trio_mcp.aio.wrappers import same_arguments
from trio_mcp.transports.http.app import HttpApp as TrioHttpApp
from trio_mcp.transports.http.app import http_app as trio_http_app
from trio_mcp.transports.http.server.asgi import Message, Receive, Scope, Send
from trio_mcp.transports.http.server.peers import CANCELS
from trio_mcp.wire.limits import Limits

logger = logging.getLogger("trio_mcp.http")

_QUICK: Final = 0.05
"""Seconds after which a request is watched for a client that leaves. Most are over by then."""

Running = Held[None, None]


class HttpApp:
    """A registry as an ASGI 3 app for asyncio. Made by `trio_mcp.aio.http_app`."""

    def __init__(self, app: TrioHttpApp, limits: Limits) -> None:
        self._app = app
        self._grace = limits.shutdown_grace
        self._held: Running | None = None
        self._opening: asyncio.Future[None] | None = None
        self._handlers: dict[int, tuple[Any, Any]] = {}

    # -- life -----------------------------------------------------------------------------

    def running(self) -> AbstractAsyncContextManager[None]:
        """Open the registry's lifespan, and keep sessions, for the length of the block.

        It is not needed: without it the app opens by itself when a server starts it or, where it
        is mounted without a lifespan, with the first request, and closes with the event loop.

        Raises:
            RuntimeError: The app is running already.
            Exception: Whatever the registry's lifespan raises.
        """
        return _Running(self)

    async def open(self) -> Running:
        """Begin to run, and see to it that it stops in time when the process is asked to end."""
        held: Running = Held(self._app.running, lambda nothing: nothing)
        await held.open()
        self._held = held
        self._chain_signals()
        return held

    async def close(self, held: Running) -> None:
        """End it: subscriptions and streams at once, calls after their time."""
        if self._held is held:
            self._held = self._opening = None
            self._leave_signals()
        await held.aclose()

    async def _running_here(self) -> Running:
        """Return what is running in this loop, and open it if nothing is."""
        held = self._held
        if held is not None and held.is_here:
            return held
        if self._opening is None or self._opening.get_loop() is not asyncio.get_running_loop():
            self._opening = asyncio.ensure_future(self._open_late())
        await asyncio.shield(self._opening)  # which whoever comes first may not take back
        assert self._held is not None
        return self._held

    async def _open_late(self) -> None:
        try:
            await self.open()
        except BaseException:
            self._opening = None  # the next request tries again
            raise

    # -- the end of the process -----------------------------------------------------------

    def _chain_signals(self) -> None:
        """Hear of a signal before the server does, which would wait for endless streams."""
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

        SIGINT and SIGTERM do this where the server handles them. May be called from any thread.
        """
        held = self._held
        if held is not None:
            held.run.post(partial(held.start_soon, self._stop))

    async def _stop(self) -> None:
        self._app.stop()
        await trio.sleep(self._grace)
        self._app.cancel_calls()

    # -- requests -------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if trio.lowlevel.in_trio_run():
            await self._app(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            held = await self._running_here()
            await _Exchange(self._app, held, scope, receive, send).serve()
        else:
            raise ValueError(f"an HTTP app cannot serve a scope of type {scope['type']!r}")

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        phase = "startup"
        try:
            held = await self.open()
            phase = "shutdown"
            await send({"type": "lifespan.startup.complete"})
            try:
                await receive()
            finally:
                await self.close(held)
        except Exception as error:
            logger.exception("The app cannot run")
            await send({"type": f"lifespan.{phase}.failed", "message": type(error).__name__})
        else:
            await send({"type": "lifespan.shutdown.complete"})


class _Running(AbstractAsyncContextManager[None]):
    """The block of `HttpApp.running`."""

    def __init__(self, app: HttpApp) -> None:
        self._app = app
        self._held: Running

    async def __aenter__(self) -> None:
        self._held = await self._app.open()

    async def __aexit__(self, *error: object) -> None:
        await self._app.close(self._held)


class _Exchange:
    """A request and its response, between the server's task and a task of the Trio run."""

    def __init__(
        self, app: TrioHttpApp, held: Running, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._app = app
        self._held = held
        self._run = held.run
        extensions = {**(scope.get("extensions") or {}), CANCELS: {}}
        self._scope: Scope = {**scope, "extensions": extensions}
        self._receive = receive
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._answered: asyncio.Future[None] = self._loop.create_future()
        self._first: list[Message] = []
        self._is_read = False
        """Whether the body is read to its end; what comes then is the end of the connection."""
        self._kept: list[Message] = []
        """What is to be sent, and can wait for the next message."""
        self._is_complete = False
        self._failure: Exception | None = None
        self._cancelling = trio.CancelScope()
        self._watcher: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle

    # -- asyncio's side -------------------------------------------------------------------

    async def serve(self) -> None:
        """Have the request answered. If the client leaves, or this is cancelled, so is it."""
        self._first.append(await self._next())
        self._timer = self._loop.call_later(_QUICK, self._watch)
        self._run.post(partial(copy_context().run, self._start))
        try:
            await self._answered
        except asyncio.CancelledError:
            self._run.post(self._cancelling.cancel)
            raise
        finally:
            self._timer.cancel()
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

    def _watch(self) -> None:
        if self._is_read:
            self._watcher = self._loop.create_task(self._cancel_at_disconnect())
        else:
            self._timer = self._loop.call_later(_QUICK, self._watch)

    async def _cancel_at_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._run.post(self._cancelling.cancel)

    async def _send_all(self, messages: list[Message]) -> None:
        for each in messages:
            await self._send(each)

    def _end(self) -> None:
        if not self._answered.done():
            self._answered.set_result(None)

    # -- Trio's side ----------------------------------------------------------------------

    def _start(self) -> None:
        if not self._held.start_soon(self._work):
            self._failure = RuntimeError("the app is not running any more")
            self._run.tell(self._end)

    async def _work(self) -> None:
        try:
            with self._cancelling:
                await self._app(self._scope, self._receive_here, self._send_here)
        except Exception as error:
            self._failure = error
        finally:
            if not self._is_complete:
                self._run.tell(self._end)

    async def _receive_here(self) -> Message:
        if self._first:
            return self._first.pop()
        return await call_asyncio(self._run, self._next)

    async def _send_here(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._kept.append(message)
        elif not message.get("more_body"):
            # It ends with this, even if the call that it answers does not.
            self._kept.append(message)
            self._is_complete = True
            self._run.tell(self._end)
        else:
            kept, self._kept = [*self._kept, message], []
            await call_asyncio(self._run, self._send_all, kept)


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
    a server that waits for its connections would wait for them for ever.

    Example:
        >>> app = http_app(Registry("empty"))  # uvicorn module:app
    """
    return HttpApp(trio_http_app(*args, **options), options.get("limits") or Limits())
