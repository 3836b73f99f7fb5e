"""A registry as an ASGI app: the MCP endpoint (Streamable HTTP), and a few pages beside it.

A modern request stands for itself: it is checked against its headers and answered by the response
to its POST. A legacy client has a session, which `initialize` begins. Both go through the same
dispatcher as on any other transport.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from trio_mcp.peer.channel import ResponseOnly
from trio_mcp.peer.inbound import Inbound, Slots
from trio_mcp.peer.runner import Runner
from trio_mcp.public import public
from trio_mcp.registry import Registry
from trio_mcp.registry.registry import check_registry
from trio_mcp.server import tracing
from trio_mcp.server.caller import UNKNOWN_CALLER, Caller, is_modern
from trio_mcp.server.dispatcher import Dispatcher
from trio_mcp.server.methods import initialize
from trio_mcp.server.request import RequestContext
from trio_mcp.server.scopes import needed_scopes, view_of
from trio_mcp.server.server import Server
from trio_mcp.server.session import Session
from trio_mcp.store.errors import StoreError
from trio_mcp.transports.http.answering import (
    QueuedChannel,
    ResponseChannel,
    finish,
    outgoing,
    run_call,
    status_of,
    while_connected,
)
from trio_mcp.transports.http.cors import answer_preflight, is_preflight
from trio_mcp.transports.http.documents import PublicDocument
from trio_mcp.transports.http.guard import Guard
from trio_mcp.transports.http.header_check import VERSION, HeaderCheck
from trio_mcp.transports.http.legacy_sse import SseEndpoint
from trio_mcp.transports.http.metrics import CONTENT_TYPE, Metrics, text_of
from trio_mcp.transports.http.policy import HttpPolicy
from trio_mcp.transports.http.posted import accepts, bad_message, check_json, read_message
from trio_mcp.transports.http.request import (
    EVENTS,
    JSON,
    Disconnected,
    Header,
    HttpRequest,
    Refusal,
)
from trio_mcp.transports.http.server.asgi import Receive, Scope, Send
from trio_mcp.transports.http.session import HttpSession, SessionStream
from trio_mcp.transports.http.sessions import SESSION, Sessions
from trio_mcp.transports.serving import OnStuck, Serving, serving, wait_for_stuck
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import (
    UNKNOWN_ID,
    Batch,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    decode,
    is_id,
)
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.methods import Method, modern_only
from trio_mcp.wire.revisions import BY_NAME, LEGACY, MODERN

if TYPE_CHECKING:  # few servers have one
    from trio_mcp.store.protocol import Store, StoreLike
    from trio_mcp.transports.http.card import ServerCard
    from trio_mcp.transports.http.explorer import ExplorerPage
    from trio_mcp.transports.http.sharing.instance import Instance
    from trio_mcp.transports.http.sharing.stream import ElsewhereStream
    from trio_mcp.transports.http.workers.worker import Worker

logger = logging.getLogger("trio_mcp.http")

_ASSUMED: Final = "2025-03-26"
"""What a legacy client without a version header speaks."""
_ALLOW: Final = [(b"allow", b"GET, POST, DELETE")]
_NOT_LET_IN: Final = (401, 403, 429)
_REFUSED: Final = {429: "too many requests", 503: "no capacity"}
"""The outcome, in the metrics, of requests that are refused before anybody knows what they ask."""
_PAGES: Final = ("/health", "/tools", "/metrics")
EXPLORER_PATH: Final = "/explorer"
_NOT_TRIO: Final = (
    "this app runs on Trio, and this ASGI server on asyncio; for such servers, "
    "from trio_mcp.aio import http_app"
)
_GET_ONLY: Final = [(b"allow", b"GET, HEAD")]

_Sender = tuple[str, bytes]
"""As far as it can be known who sends a request that stands for itself: owner and program."""

Page = Callable[[HttpRequest], Awaitable[None]]


class HttpApp:
    """A registry as an ASGI 3 app. Made by `http_app`."""

    def __init__(
        self,
        registry: Registry,
        path: str,
        policy: HttpPolicy,
        limits: Limits,
        sse_path: str | None = None,
        card: ServerCard | None = None,
        explorer: ExplorerPage | None = None,
        store: StoreLike | None = None,
    ) -> None:
        self.registry: Final = registry
        self._store = store
        self._path = path
        self._sse_path = sse_path
        self._policy = policy
        self._limits = limits
        self._guard = Guard(policy, path)
        self._header_check = HeaderCheck(registry)
        self._slots = Slots(policy.max_concurrent)
        self._runner = Runner(limits.cancel_patience)
        self._alone: dict[Inbound, _Sender] = {}  # of requests that stand for themselves
        self._server: Server | None = None
        self._sessions: Sessions | None = None
        self._sse: SseEndpoint | None = None
        self._since = time.monotonic()
        self._stopping = False
        self.metrics: Final = _metrics()
        """What `/metrics` shows; `None` where `prometheus_client` is not installed."""
        self.workers: Worker | None = None
        """This process and the others, where several serve at one port."""
        self._pages: dict[str, Page] = {
            "/health": self._health,
            "/tools": self._tools,
            "/metrics": self._show_metrics,
        }
        self.has_explorer: Final = explorer is not None
        if explorer is not None:
            self._pages[EXPLORER_PATH] = partial(self._explore, explorer)
        self._public = _public_documents(registry, policy, path, card)
        self._known = {path, sse_path, *self._pages, *self._public}

    # -- life -----------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Open the registry's lifespan, and keep sessions, for the length of the block.

        Raises:
            RuntimeError: The app is running already.
            Exception: Whatever the registry's lifespan raises.
        """
        async with self.serving():
            yield

    @asynccontextmanager
    async def serving(self, on_stuck: OnStuck = wait_for_stuck) -> AsyncIterator[Serving]:
        """The same as `running`, with a nursery for whatever brings requests.

        Args:
            on_stuck: What to do about calls that ignore their cancellation.
        """
        if self._server is not None:
            raise RuntimeError("this app is running already")
        # The store is opened first, so that it is there as long as anything that runs here.
        async with (
            self._opened_store() as store,
            serving(self.registry, self._limits, on_stuck) as here,
        ):
            metrics, policy = self.metrics, self._policy
            watch = () if metrics is None else (metrics.observe_call, metrics.refused)
            server = self._server = Server(self.registry, self._limits, here.opened, *watch)
            instance = None if store is None else await self._share(store, here, server)
            sessions = Sessions(server, self._policy, self._slots, self._runner, instance)
            self._sessions = sessions
            if self._sse_path is not None:
                self._sse = SseEndpoint(
                    self._sse_path,
                    server,
                    sessions,
                    self._slots,
                    self._policy,
                    self._require,
                    instance,
                )
            if self.metrics is not None:
                self.metrics.watch_sessions(sessions.__len__)
            if (self.registry.scopes or self.registry.has_scopes) and not policy.asks_for_tokens:
                logger.warning("%s needs scopes, but nobody needs a token", self.registry.name)
            self._since, self._stopping = time.monotonic(), False
            here.nursery.start_soon(self._runner.watch)
            await here.nursery.start(sessions.run)
            try:
                async with self._guard.running(self.registry.scopes, store, self.registry.name):
                    yield here
            finally:
                self.stop()
                here.leave(self._runner.labels)
                self._server = self._sessions = self._sse = None

    @asynccontextmanager
    async def _opened_store(self) -> AsyncIterator[Store | None]:
        if self._store is None:
            yield None
            return
        from trio_mcp.store.opening import opened

        async with opened(self._store) as store:
            yield store

    async def _share(self, store: Store, here: Serving, server: Server) -> Instance:
        """Join the other instances that have the same store."""
        from trio_mcp.transports.http.sharing.changes import SharedChanges
        from trio_mcp.transports.http.sharing.instance import Instance
        from trio_mcp.transports.http.sharing.used import UsedStates

        server.use_state = UsedStates(store, self.registry.sealer.ttl)
        instance = Instance(store, self._policy.session_idle)
        changes = SharedChanges(instance, self.registry.changes, self.registry.name)
        await here.nursery.start(instance.run)
        await here.nursery.start(changes.run)
        return instance

    def stop(self) -> None:
        """End what would go on for ever: subscriptions, and the streams of sessions."""
        self._stopping = True
        for inbound in list(self._alone):
            inbound.end_long_lived()
        if self._sessions is not None:
            self._sessions.stop()
        if self._sse is not None:
            self._sse.stop()

    def cancel_calls(self) -> None:
        """Cancel the calls that still run, and have them answered."""
        for inbound in list(self._alone):
            inbound.cancel_all()
        if self._sessions is not None:
            self._sessions.cancel_calls()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif not trio.lowlevel.in_trio_run():
            raise RuntimeError(_NOT_TRIO)
        elif scope["type"] == "http":
            await self._serve(HttpRequest(scope, receive, send))
        else:
            raise ValueError(f"an HTTP app cannot serve a scope of type {scope['type']!r}")

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        if not trio.lowlevel.in_trio_run():
            await send({"type": "lifespan.startup.failed", "message": _NOT_TRIO})
            return
        phase = "startup"
        try:
            async with self.running():
                phase = "shutdown"
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as error:
            logger.exception("The app cannot run")
            await send({"type": f"lifespan.{phase}.failed", "message": type(error).__name__})
        else:
            await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, http: HttpRequest) -> None:
        started = trio.current_time()
        with suppress(Disconnected):
            try:
                if tracing.is_traced():
                    await self._route_traced(http)
                else:
                    await self._route(http)
            except Refusal as refused:
                if refused.status in _NOT_LET_IN:
                    logger.info("A request is not let in: %s", refused.message)
                if self.metrics is not None and refused.status in _REFUSED:
                    self.metrics.refused("", None, _REFUSED[refused.status])
                if not http.started:
                    await http.respond(refused.status, refused.body, headers=refused.headers)
        if logger.isEnabledFor(logging.INFO):
            duration = trio.current_time() - started
            logger.info(
                "%s %s: %d in %.1f ms",
                http.method,
                http.path if http.path in self._known else "(other)",
                http.status,
                duration * 1000,
                extra={"status": http.status, "duration": duration},
            )

    async def _route_traced(self, http: HttpRequest) -> None:
        attributes = {"http.request.method": http.method, "url.path": http.path}
        carrier = tracing.carrier_of(http.headers)
        with tracing.span(f"{http.method} {http.path}", carrier, attributes) as current:
            try:
                await self._route(http)
            finally:
                current.set_attribute("http.response.status_code", http.status)

    async def _route(self, http: HttpRequest) -> None:
        if self._server is None or self._sessions is None:
            raise Refusal(500, "The app is not running: its server must support ASGI lifespans.")
        path = http.path
        if path in self._public:  # for all: it is how one finds the server, and gets in
            await self._public[path].serve(http)
            return
        if is_preflight(http):
            self._guard.check_origin(http)
            await answer_preflight(http)
            return
        sse = self._sse if path == self._sse_path else None
        if sse is None and path != self._path:
            await self._serve_page(http)
            return
        await self._guard.check(http)
        if http.method != "POST":  # which may need more, so that is seen when it has been read
            self._guard.require(http)
        try:
            if sse is not None:
                await sse.serve(http)
                return
            method = _METHODS.get(http.method)
            if method is None:
                raise Refusal(405, "The MCP endpoint is for POST, GET and DELETE.", _ALLOW)
            await method(self, http, self._server, self._sessions)
        except StoreError as error:
            logger.warning("%s", error)
            why = "The store of sessions cannot be reached; try again."
            raise Refusal(503, why, [(b"retry-after", b"1")]) from None

    async def _serve_page(self, http: HttpRequest) -> None:
        page = self._pages.get(http.path)
        if page is None:
            raise Refusal(404, f"There is nothing here; the MCP endpoint is {self._path}.")
        if http.method not in ("GET", "HEAD"):
            raise Refusal(405, "This page is for GET.", _GET_ONLY)
        await page(http)

    # -- pages ----------------------------------------------------------------------------

    async def _health(self, http: HttpRequest) -> None:
        workers = {} if self.workers is None else {"workers_live": self.workers.live}
        await http.respond_json(
            {
                "status": "stopping" if self._stopping else "healthy",
                "uptime_seconds": round(time.monotonic() - self._since, 3),
                "tools_registered": len(self.registry.tools),
                **workers,
                **self.registry.health(),
            }
        )

    async def _tools(self, http: HttpRequest) -> None:
        await self._guard.check(http)
        self._guard.require(http)
        view = view_of(self._context(http, "tools/list"))
        tools = [
            to_wire(each.description)
            for each in self.registry.tools.values()
            if view is None or view.shows(each)
        ]
        await http.respond_json({"tools": tools})

    async def _explore(self, page: ExplorerPage, http: HttpRequest) -> None:
        self._guard.check_origin(http)  # a browser that opens a page has no token yet
        page.check_visitor(http, self._policy)
        await page.serve(http)

    async def _show_metrics(self, http: HttpRequest) -> None:
        await self._guard.check(http)
        self._guard.require(http)
        if self.metrics is None:
            raise Refusal(404, "Metrics need a package: pip install 'trio-mcp[metrics]'.")
        if self.workers is None:
            text = self.metrics.text()
        else:
            text = text_of(await self.workers.total())
        await http.respond(200, text, CONTENT_TYPE)

    # -- POST -----------------------------------------------------------------------------

    async def _post(self, http: HttpRequest, server: Server, sessions: Sessions) -> None:
        check_json(http)
        if not (accepts(http, JSON) and accepts(http, EVENTS)):
            raise Refusal(406, "The client must accept application/json and text/event-stream.")
        message, _ = await read_message(http, self._limits)
        self._require(http, message)
        methods = self.registry.methods
        # A server that stops would end it at once. But a session goes on at those who share it.
        if _begins_something(message, methods) and not (self._store and _begins_session(message)):
            self._refuse_if_stopping()
        if isinstance(message, Request) and _speaks_modern(http, message, methods):
            await self._answer_modern(http, message, server)
        elif http.headers.get(VERSION, b"").decode("latin-1") in MODERN:
            await self._take_modern(http, message, server)
        else:
            _check_version(http)
            if self._policy.stateless or _stands_alone(http, message):
                await self._answer_alone(http, message, server)
            else:
                await self._answer_in_session(http, message, server, sessions)

    def _require(self, http: HttpRequest, message: Message) -> None:
        """Let a message pass whose token allows all that is in it.

        Raises:
            Refusal: It does not (403).
        """
        if http.authorization is not None:
            method = message.method if isinstance(message, Request) else ""
            context = self._context(http, method)
            self._guard.require(http, needed_scopes(message, context))

    def _context(self, http: HttpRequest, method: str) -> RequestContext:
        """What is known of a request before its message is looked at."""
        assert self._server is not None
        session = Session("http", principal=http.principal, authorization=http.authorization)
        authorization = http.authorization
        return RequestContext(self._server, "", method, {}, UNKNOWN_CALLER, session, authorization)

    async def _answer_modern(self, http: HttpRequest, request: Request, server: Server) -> None:
        meta = request.params.get("_meta")
        if is_modern(meta):
            try:
                self._header_check.check(http, request)
            except McpError as error:
                raise bad_message(request.id, error) from None
        else:
            request.params["_meta"] = _claim_modern(meta)
        session = Session("http", principal=http.principal, authorization=http.authorization)
        await self._answer(http, request, server, session, modern=True)

    async def _take_modern(self, http: HttpRequest, message: Message, server: Server) -> None:
        """A notification is taken note of; there is nothing else without an answer."""
        if isinstance(message, Notification):
            session = Session("http", principal=http.principal, authorization=http.authorization)
            await self._take_notification(http, message, Dispatcher(server, session))
            return
        what = "Invalid request: a modern client sends one request or notification at a time"
        raise bad_message(UNKNOWN_ID, McpError(INVALID_REQUEST, what))

    async def _answer_alone(self, http: HttpRequest, message: Message, server: Server) -> None:
        """Legacy without sessions: the version header is all that is known of the client."""
        version = http.header(VERSION) or _ASSUMED
        caller = Caller(LEGACY[version], {})
        session = Session(
            "http", caller=caller, principal=http.principal, authorization=http.authorization
        )
        if isinstance(message, Request):
            await self._answer(http, message, server, session, modern=False)
        elif isinstance(message, Batch):
            inbound = self._inbound_for(http, server, session)
            try:
                await self._answer_batch(http, message, inbound, session)
            finally:
                del self._alone[inbound]
        else:
            await self._take_notification(http, message, Dispatcher(server, session))

    async def _take_notification(
        self, http: HttpRequest, message: Message, dispatcher: Dispatcher
    ) -> None:
        """Take note of a notification; only a cancellation is about requests that are open.

        Ids are the clients' own, so two may use the same. The sender may cancel what came with the
        same token, or without tokens from the same address; if that is not one request, none.
        """
        if isinstance(message, Notification) and message.method != "notifications/cancelled":
            dispatcher.notified(message)
        elif isinstance(message, Notification):
            id, sender = message.params.get("requestId"), _sender_of(http)
            meant = [
                inbound
                for inbound, its_sender in self._alone.items()
                if its_sender == sender and is_id(id) and id in inbound
            ]
            if len(meant) == 1:
                meant[0].note(message)
        await http.respond(202)

    def _inbound_for(self, http: HttpRequest, server: Server, session: Session) -> Inbound:
        """The requests of one POST that stands for itself, until it is taken out of `_alone`."""
        inbound = Inbound(Dispatcher(server, session), self._slots)
        self._alone[inbound] = _sender_of(http)
        return inbound

    async def _answer(
        self,
        http: HttpRequest,
        message: Request,
        server: Server,
        session: Session,
        *,
        modern: bool,
    ) -> None:
        inbound = self._inbound_for(http, server, session)
        try:
            channel = ResponseChannel(http, self._policy.keep_alive)
            request = inbound.admit(message, channel)
            if isinstance(request, bytes):
                status = status_of(request, message.id) if modern else 200
                await finish(http, outgoing(http, request), status)
                return
            if request.may_notify:
                channel = request.channel = QueuedChannel(
                    http, self._policy.keep_alive, self._limits.max_outgoing_bytes
                )
            await run_call(http, request, self._runner)
        finally:
            del self._alone[inbound]
        line = channel.line
        if not channel.ended:
            status = 200 if line is None or not modern else status_of(line, message.id)
            answer = outgoing(http, line)
            # Nobody else holds it now: a slow client gives memory back with each piece it takes.
            line = channel.line = request.response = None
            await finish(http, answer, status)

    async def _answer_in_session(
        self, http: HttpRequest, message: Message, server: Server, sessions: Sessions
    ) -> None:
        if isinstance(message, Request) and message.method == "initialize":
            await self._begin_session(http, message, server, sessions)
            return
        session = await sessions.find(http)
        if isinstance(message, Request):
            await self._answer_on_stream(http, message, session)
        elif isinstance(message, Batch):
            for each in message.messages:
                await session.forward(each)
            await self._answer_batch(
                http, message, session.inbound, session.session, session.headers
            )
        else:
            assert not isinstance(message, Malformed)  # `read_message` has refused it
            await session.take(message)
            await http.respond(202)

    async def _begin_session(
        self, http: HttpRequest, request: Request, server: Server, sessions: Sessions
    ) -> None:
        # Another session may have to make room, so it is tried first whether it comes to one.
        try:
            initialize(
                RequestContext(
                    server, request.id, request.method, request.params, UNKNOWN_CALLER, Session()
                )
            )
        except McpError as error:
            raise bad_message(request.id, error) from None
        session = await sessions.new(http)
        try:
            answer = await while_connected(http, partial(self._shake_hands, request, session))
            if answer is None:
                raise Disconnected
            shaken = decode(answer[:-1])
            if isinstance(shaken, Response) and shaken.error is not None:
                raise Refusal(400, "The handshake is refused.", body=answer[:-1])
            await session.share()
        except BaseException:
            sessions.end(session)
            raise
        await http.respond(200, answer[:-1], headers=session.headers)

    async def _shake_hands(self, request: Request, session: HttpSession) -> bytes | None:
        channel = ResponseOnly()
        answer = session.inbound.admit(request, channel)
        if isinstance(answer, bytes):
            return answer
        await self._runner.run(answer)  # it goes through middleware
        return channel.line

    async def _answer_on_stream(
        self, http: HttpRequest, request: Request, session: HttpSession
    ) -> None:
        async def answer() -> None:
            begun = await session.begin(request, http.authorization)
            if isinstance(begun, bytes):
                await http.respond(200, begun[:-1], headers=session.headers)
            else:
                await begun.answer(http, self._policy)

        await while_connected(http, answer)

    async def _answer_batch(
        self,
        http: HttpRequest,
        batch: Batch,
        inbound: Inbound,
        session: Session,
        headers: Iterable[Header] = (),
    ) -> None:
        """Answer a batch with an array (2025-03-26, "Batching")."""

        async def answer() -> None:
            channel = ResponseOnly()
            session.authorization = http.authorization  # each request keeps the one it came with
            # No checkpoint before the tasks run: whatever is opened here is closed by them.
            opened, line = inbound.take(batch, channel)
            async with trio.open_nursery() as nursery:
                for request in opened:
                    nursery.start_soon(self._runner.run, request)
            line = line or channel.line
            if line is None:
                await http.respond(202, headers=headers)
            else:  # no array answers a batch that was refused as a whole
                status = 200 if line.startswith(b"[") else 400
                await http.respond(status, line[:-1], headers=headers)

        await while_connected(http, answer)

    # -- GET and DELETE -------------------------------------------------------------------

    async def _get(self, http: HttpRequest, server: Server, sessions: Sessions) -> None:
        """Open the stream of a session, or one that was interrupted (legacy)."""
        if self._policy.stateless or http.headers.get(VERSION, b"").decode("latin-1") in MODERN:
            raise Refusal(405, "There is no stream to GET; see subscriptions/listen.", _ALLOW)
        if not accepts(http, EVENTS):
            raise Refusal(406, "The client must accept text/event-stream.")
        if http.header(SESSION) is None and http.header(VERSION) is None:
            raise Refusal(405, "The MCP endpoint is for POST; a GET needs a session.", _ALLOW)
        _check_version(http)
        self._refuse_if_stopping()
        session = await sessions.find(http)
        event_id = http.header(b"last-event-id")
        stream: SessionStream | ElsewhereStream = session.standalone
        after = session.standalone.sent
        if event_id is not None:
            stream, after = session.resumed(event_id)
        await while_connected(http, partial(stream.follow, http, self._policy, after))

    async def _delete(self, http: HttpRequest, server: Server, sessions: Sessions) -> None:
        """End a session (legacy)."""
        if self._policy.stateless or http.headers.get(VERSION, b"").decode("latin-1") in MODERN:
            raise Refusal(405, "There are no sessions to end.", _ALLOW)
        session = await sessions.find(http)
        await sessions.delete(session)
        await http.respond(200)

    def _refuse_if_stopping(self) -> None:
        if self._stopping:
            raise Refusal(503, "The server is stopping.", [(b"retry-after", b"10")])


_METHODS: Final[dict[str, Callable[[HttpApp, HttpRequest, Server, Sessions], Awaitable[None]]]] = {
    "POST": HttpApp._post,
    "GET": HttpApp._get,
    "DELETE": HttpApp._delete,
}


def _begins_something(message: Message, methods: Mapping[str, Method]) -> bool:
    known = methods.get(message.method) if isinstance(message, Request) else None
    return known is not None and known.lasting


def _sender_of(http: HttpRequest) -> _Sender:
    return http.owner, http.headers.get(b"user-agent", b"")


def _stands_alone(http: HttpRequest, message: Message) -> bool:
    """Whether a legacy message belongs to no session and begins none: a plain POST, as by curl."""
    if http.header(SESSION) is not None or isinstance(message, Response):
        return False
    return not _begins_session(message)


def _begins_session(message: Message) -> bool:
    return isinstance(message, Request) and message.method == "initialize"


def _speaks_modern(http: HttpRequest, request: Request, methods: Mapping[str, Method]) -> bool:
    """Whether a request means to be a modern one."""
    if is_modern(request.params.get("_meta")) or modern_only(request.method, methods):
        return True
    return http.headers.get(VERSION, b"").decode("latin-1") in MODERN


def _claim_modern(meta: Any) -> dict[str, Any]:
    """The `_meta` of a request that is modern by its header or method, but does not say so."""
    from trio_mcp.wire.revisions import META_CLIENT_CAPABILITIES

    # With one of the two required fields there, the dispatcher names the one that is missing.
    return {**(meta if isinstance(meta, dict) else {}), META_CLIENT_CAPABILITIES: {}}


def _check_version(http: HttpRequest) -> None:
    version = http.header(VERSION)
    if version is not None and version not in LEGACY:
        what = ", ".join(BY_NAME)
        raise Refusal(400, f"MCP-Protocol-Version is not one that is served here: {what}.")


def _metrics() -> Metrics | None:
    try:
        return Metrics()
    except ImportError:
        return None


def _public_documents(
    registry: Registry, policy: HttpPolicy, path: str, card: ServerCard | None
) -> dict[str, PublicDocument]:
    """What everybody may read, by its path."""
    documents: dict[str, PublicDocument] = {}
    if policy.auth is not None:
        from trio_mcp.auth.server.metadata import metadata_of, metadata_paths

        name = registry.info.title or registry.name
        about = metadata_of(policy.auth, name, policy.auth.scopes | registry.scopes)
        documents.update(dict.fromkeys(metadata_paths(policy.auth, path), PublicDocument(about)))
    if card is not None:
        from trio_mcp.transports.http.card import card_documents

        documents.update(card_documents(card, registry, path))
    return documents


@public
def http_app(
    registry: Registry,
    *,
    path: str = "/mcp",
    sse_path: str | None = None,
    policy: HttpPolicy | None = None,
    limits: Limits | None = None,
    card: ServerCard | None = None,
    explorer: bool = False,
    store: StoreLike | None = None,
) -> HttpApp:
    """Make an ASGI app of a registry, for any ASGI server that runs on Trio.

    If the server does not support ASGI lifespans, or another app mounts this one, use it inside
    `async with app.running()`.

    Args:
        registry: What to serve.
        path: The path of the MCP endpoint.
        sse_path: The path for clients that only know HTTP+SSE, the transport of revision
            2024-11-05, such as `/sse`. Without it, they are not served.
        policy: Who may use it; by default only clients on this machine. Set `allowed_hosts` if
            it is reached by another name.
        limits: The bounds of requests.
        card: What strangers may know of the server; it is then at `<path>/server-card`, and a
            catalog that names it at `/.well-known/ai-catalog.json`.
        explorer: Whether people can try the server out on a page at `/explorer`. Without tokens,
            only from this machine.
        store: What several instances of this app share (see `open_store`), so that any of them
            serves any request of a session. Without it, sessions live in this process.

    Raises:
        ValueError: A path does not begin with a slash, or is already in use; or the explorer would
            be for other machines, without a token.

    Example:
        >>> app = http_app(Registry("empty"), policy=HttpPolicy(allowed_hosts=["mcp.example.com"]))
    """
    check_registry(registry)
    if not path.startswith("/") or path in _PAGES:
        raise ValueError(f"{path!r} cannot be the path of the MCP endpoint; take one like '/mcp'")
    if sse_path is not None and (not sse_path.startswith("/") or sse_path in (path, *_PAGES)):
        raise ValueError(f"{sse_path!r} cannot be the path for HTTP+SSE; take one like '/sse'")
    policy, page = policy or HttpPolicy(), None
    if explorer:
        from trio_mcp.transports.http.explorer import ExplorerPage, check_protected

        if EXPLORER_PATH in (path, sse_path):
            raise ValueError(f"{EXPLORER_PATH} is the explorer's path; take another one")
        check_protected(policy)
        page = ExplorerPage.load({"endpoint": path.lstrip("/")})
    return HttpApp(registry, path, policy, limits or Limits(), sse_path, card, page, store)
