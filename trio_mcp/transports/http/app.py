"""A registry as an ASGI app: the MCP endpoint, that of HTTP+SSE, and a few pages beside them."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

import trio
from attrs import define, field

from trio_mcp.checks import option
from trio_mcp.loggers import logger_of
from trio_mcp.peer.runner import Runner
from trio_mcp.public import public
from trio_mcp.registry import Registry
from trio_mcp.registry.kinds import LISTED
from trio_mcp.registry.registry import catalogue_of, check_registry
from trio_mcp.server.scopes import view_of
from trio_mcp.server.server import Server
from trio_mcp.store.errors import StoreError
from trio_mcp.telemetry import OTHER, Telemetry, is_configured
from trio_mcp.transports.http.answering import ending_in_order
from trio_mcp.transports.http.bodies import SHARE, Bodies
from trio_mcp.transports.http.cors import answer_preflight, is_preflight
from trio_mcp.transports.http.documents import PublicDocument, check_get
from trio_mcp.transports.http.endpoint import McpEndpoint, context_of
from trio_mcp.transports.http.guard import Guard
from trio_mcp.transports.http.health import PATHS as HEALTH_PATHS
from trio_mcp.transports.http.health import Health
from trio_mcp.transports.http.legacy_sse import SseEndpoint
from trio_mcp.transports.http.metrics import CONTENT_TYPE, Metrics, summable, text_of
from trio_mcp.transports.http.policy import HttpPolicy, policy_with
from trio_mcp.transports.http.request import Disconnected, HttpRequest, Methods, Refusal
from trio_mcp.transports.http.server.asgi import AsgiApp, Receive, Scope, Send
from trio_mcp.transports.http.session_options import SessionOptions
from trio_mcp.transports.http.sessions import Sessions
from trio_mcp.transports.http.shares import Shares
from trio_mcp.transports.http.sharing.interface import Sharing
from trio_mcp.transports.serving import OnStuck, Serving, serving, wait_for_stuck
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.jsonrpc import Request
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.methods import LIST_TOOLS

if TYPE_CHECKING:  # few servers have one
    from prometheus_client import CollectorRegistry

    from trio_mcp.auth.proxy.web import Page as WebPage
    from trio_mcp.auth.server.resource import OpenedAuth, ResourceServer
    from trio_mcp.store.protocol import StoreLike
    from trio_mcp.transports.http.card import ServerCard
    from trio_mcp.transports.http.explorer import ExplorerPage
    from trio_mcp.transports.http.workers.channel import Report
    from trio_mcp.transports.http.workers.worker import Worker

logger = logger_of("trio_mcp.http")

_NOT_LET_IN: Final = (401, 403, 429)
_REFUSED: Final = {429: "too many requests", 503: "no capacity"}
"""The outcome, in the metrics, of requests that are refused before their message is read."""
_METHODS: Final = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"}
_PAGES: Final = (*HEALTH_PATHS, "/tools", "/metrics")
EXPLORER_PATH: Final = "/explorer"
_NOT_TRIO: Final = (
    "this app runs on Trio, and this ASGI server on asyncio; for such servers, "
    "from trio_mcp.aio import http_app"
)
_STATELESS: Final = (
    "%s keeps state for sessions or callers: modern clients over HTTP have no session, and say who "
    "calls with a token only, so their calls will fail; state='handle' works for all"
)

Page = Callable[[HttpRequest], Awaitable[None]]


@define(eq=False, repr=False, slots=False)
class HttpApp:
    """A registry as an ASGI 3 app. Made by `http_app`."""

    registry: Registry
    _path: str
    _policy: HttpPolicy
    _sessions: SessionOptions
    _limits: Limits
    _sse_path: str | None
    _card: ServerCard | None
    explorer: ExplorerPage | None
    _store: StoreLike | None = field(repr=False)
    _prometheus: CollectorRegistry | None = field(default=None, repr=False)
    _fallback: AsgiApp | None = field(default=None, repr=False)
    workers: Worker | None = field(default=None, init=False)
    _server: Server | None = field(default=None, init=False)
    _mcp: McpEndpoint | None = field(default=None, init=False)
    _sse: SseEndpoint | None = field(default=None, init=False)
    _endpoints: dict[str, Methods] = field(factory=dict, init=False)
    _telemetry: Telemetry | None = field(default=None, init=False)
    _name: str = field(factory=partial(secrets.token_hex, 4), init=False)
    _numbers: Iterator[int] = field(factory=partial(count, 1), init=False)
    """Those of requests, which make their ids together with the name."""
    _requests: int = field(default=0, init=False)
    """Those that are being answered."""
    _answered: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _logins: Mapping[str, WebPage] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        """Make what all requests go through, and the pages."""
        self._catalogue = catalogue_of(self.registry)
        self._guard = Guard(self._policy, self._path)
        self._shares = Shares(self._policy)
        self._bodies = Bodies(self._policy.max_received_bytes)
        self.metrics = Metrics(self._prometheus)
        self.metrics.count_waiting = lambda: self._shares.waiting
        self._runner = Runner(self._limits.cancel_timeout)
        self._health = Health(
            self._catalogue,
            self._guard,
            is_stopping=lambda: self._mcp is None or self._mcp.stopping,
            workers=lambda: self.workers,
        )
        self._pages: dict[str, Page] = {
            **self._health.pages,
            "/tools": self._tools,
            "/metrics": self._show_metrics,
        }
        if self.explorer is not None:
            self._pages[EXPLORER_PATH] = partial(self._explore, self.explorer)
        self._public = _public_documents(self.registry, self._policy, self._path, self._card)
        self._known = {self._path, self._sse_path, *self._pages, *self._public}

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
            await self.drain()

    @asynccontextmanager
    async def serving(self, on_stuck: OnStuck = wait_for_stuck) -> AsyncIterator[Serving]:
        """The same as `running`, with a nursery for whatever brings requests."""
        if self._server is not None:
            raise RuntimeError("this app is running already")
        # The store is opened first, so that it is there as long as anything that runs here.
        async with self._opened_sharing() as sharing, AsyncExitStack() as stack:
            if self._prometheus is not None:
                from trio_mcp.transports.http.prometheus import registered

                stack.enter_context(registered(self.metrics, self._prometheus))
            async with sharing.opening():
                # Before tasks go on that were begun by people who have logged in.
                auth = await stack.enter_async_context(self._opened_auth(sharing))
                way = serving(self.registry, self._limits, on_stuck)
                here = await stack.enter_async_context(way)
                if auth is not None:
                    here.opened.provider_tokens.update(auth.provider_tokens)
            metrics, policy = self.metrics, self._policy
            watch = metrics, metrics.refused
            server = self._server = Server(self.registry, self._limits, here.opened, *watch)
            server.states = sharing.states or server.states
            await sharing.start(here.nursery)
            shares, runner = self._shares, self._runner
            sessions = Sessions(server, self._sessions, shares, runner, sharing)
            mcp = McpEndpoint(server, sessions, self._guard, policy, shares, runner, sharing)
            self._mcp, self._endpoints = mcp, {self._path: mcp.methods}
            if (path := self._sse_path) is not None:
                self._sse = SseEndpoint(
                    path, server, sessions, shares, policy, mcp.require, sharing
                )
                self._endpoints[path] = self._sse.methods
            metrics.count_sessions = sessions.__len__
            metrics.counters = here.opened.counters
            if auth is not None:
                metrics.logins = auth.logins
            has_scopes = self._catalogue.scopes or self._catalogue.has_scopes
            if has_scopes and not policy.asks_for_tokens:
                logger.warning("%s needs scopes, but clients need no token", self.registry.name)
            unknown = ["session"] if policy.asks_for_tokens else ["session", "caller"]
            if self._catalogue.keeps_state(*unknown):
                logger.warning(_STATELESS, self.registry.name)
            self._telemetry = Telemetry("server") if is_configured() else None
            self._health.since = time.monotonic()
            self._health.store = None if self._store is None else sharing.store
            here.nursery.start_soon(runner.watch)
            here.nursery.start_soon(mcp.watch)
            await here.nursery.start(sessions.run)
            try:
                verify = None if auth is None else auth.verify
                async with self._guard.running(self._catalogue.scopes, sharing, verify):
                    yield here
            finally:
                self.stop()
                here.leave(runner.labels)
                self._server = self._mcp = self._sse = None
                self._logins = {}

    @asynccontextmanager
    async def _opened_auth(self, sharing: Sharing) -> AsyncIterator[OpenedAuth | None]:
        """Open what protects the server, for the length of the block: its pages, its store."""
        if self._policy.auth is None:
            yield None
            return
        title = self.registry.info.title or self.registry.name
        async with self._policy.auth.opened(sharing.store, title, self._all_scopes) as opened:
            self._logins = opened.pages
            yield opened

    def _all_scopes(self) -> frozenset[str]:
        """Return the scopes that any request, or anything in the registry, needs."""
        found = set(self._catalogue.scopes)
        if self._policy.auth is not None:
            found |= self._policy.auth.scopes
        for kind in LISTED:
            for entry in self._catalogue.table(kind).values():
                found |= entry.scopes
        return frozenset(found)

    @asynccontextmanager
    async def _opened_sharing(self) -> AsyncIterator[Sharing]:
        if self._store is None:
            yield Sharing()
            return
        from trio_mcp.store.metered import metered
        from trio_mcp.store.opening import opened
        from trio_mcp.transports.http.sharing.shared import StoreSharing

        async with opened(self._store) as store:
            measured = metered(store, self.metrics.measure_store)
            yield StoreSharing(measured, self.registry, self._sessions, self._limits)

    def stop(self) -> None:
        """End what would go on forever: subscriptions, and the streams of sessions."""
        if self._mcp is not None:
            self._mcp.stop()
        if self._sse is not None:
            self._sse.stop()

    def cancel_calls(self) -> None:
        """Cancel the calls that still run, and have them answered."""
        if self._mcp is not None:
            self._mcp.cancel_calls()

    async def drain(self) -> None:
        """End what is open in good order, if the server has left that to us."""
        limits = self._limits
        self.stop()
        for seconds in (limits.shutdown_grace, limits.cancel_timeout + limits.flush_timeout):
            with trio.move_on_after(seconds):
                while self._requests:
                    await self._answered.park()
            self.cancel_calls()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await self._lifespan(receive, send)
        elif self._server is None and not trio.lowlevel.in_trio_run():
            raise RuntimeError(_NOT_TRIO)
        elif kind == "http":
            self._requests += 1
            try:
                id = f"{self._name}-{next(self._numbers):x}"
                http, telemetry = HttpRequest(scope, receive, send, self, id), self._telemetry
                await (self._serve(http) if telemetry is None else self._trace(http, telemetry))
            finally:
                self._requests -= 1
                if not self._requests and self._answered:
                    self._answered.unpark_all()
        else:
            raise ValueError(f"an HTTP app cannot serve a scope of type {kind!r}")

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

    async def _trace(self, http: HttpRequest, telemetry: Telemetry) -> None:
        """Serve a request within a span of its own."""
        method = http.method if http.method in _METHODS else OTHER
        name, scheme = method, http.scope.get("scheme", "http")
        attributes = {"http.request.method": method, "url.scheme": scheme}
        if http.path in self._known:
            name, attributes["http.route"] = f"{method} {http.path}", http.path
        with telemetry.span(name, attributes, http.headers) as current:
            try:
                await self._serve(http)
            finally:
                current.set_attribute("http.response.status_code", http.status or 500)

    async def _serve(self, http: HttpRequest) -> None:
        is_told = logger.isEnabledFor(logging.INFO)
        started = self._runner.now() if is_told else 0.0
        try:
            try:
                if http.cancels:
                    await self._route(http)
                else:
                    await ending_in_order(http, partial(self._route, http))
            except Refusal as refused:
                await self._refuse(http, refused)
        except Disconnected:
            pass  # nothing can be sent any more
        path = http.path
        page = path if path in self._known or path in self._logins else "(other)"
        if http.status:
            self.metrics.responded(page, http.status)
        if is_told:
            duration = self._runner.now() - started
            logger.info(
                "%s %s: %d in %.1f ms",
                http.method,
                page,
                http.status,
                duration * 1000,
                extra={
                    "status": http.status,
                    "duration": duration,
                    "http_request_id": http.id,
                    "principal": http.principal,
                    "client_address": http.client_address,
                },
            )

    async def _refuse(self, http: HttpRequest, refused: Refusal) -> None:
        if refused.status in _NOT_LET_IN:
            logger.info("A request is not let in: %s", refused.message)
        if refused.status in _REFUSED:
            self.metrics.refused("", None, _REFUSED[refused.status])
        self.metrics.turned_away(refused.status, refused.reason)
        if not http.started:
            await http.respond(refused.status, refused.body, headers=refused.headers)

    async def _route(self, http: HttpRequest) -> None:
        if self._mcp is None:
            raise Refusal(500, "The app is not running: its server must support ASGI lifespans.")
        methods = self._endpoints.get(http.path)
        if methods is None:
            await self._serve_page(http)
            return
        is_post = http.method == "POST"
        if not is_post and is_preflight(http):
            await self._allow(http)
            return
        if not self._guard.knows(http):
            await self._guard.check(http)
        if not is_post:  # which may need more, so that is seen when it has been read
            self._guard.require(http)
        answer = methods.get(http.method)
        if answer is None:
            allowed = ", ".join(methods)
            raise Refusal(405, f"This path is for {allowed}.", [(b"allow", allowed.encode())])
        owner = http.owner
        self._shares.enter(owner, is_stream=http.method == "GET")
        http.bodies = self._bodies
        try:
            await answer(http)
        except StoreError as error:
            logger.warning("%s", error)
            why = "The store of sessions cannot be reached; try again."
            raise Refusal(503, why, [(b"retry-after", b"1")], reason="store") from None
        finally:
            self._shares.leave(owner)
            if http.long_body is not None:
                http.leave_long_body()

    async def _allow(self, http: HttpRequest) -> None:
        self._guard.check_origin(http)
        await answer_preflight(http)

    async def _serve_page(self, http: HttpRequest) -> None:
        path = http.path
        if path in self._public:  # for all: it is how clients find the server, and log in
            await self._public[path].serve(http)
            return
        login_page = self._logins.get(path)
        if login_page is not None:
            await self._guard.check_visitor(http)
            await _serve_login_page(login_page, http)
            return
        if self._fallback is not None and path not in self._known:
            await self._guard.check_visitor(http)
            await http.hand_to(self._fallback)
            return
        if is_preflight(http):
            await self._allow(http)
            return
        page = self._pages.get(path)
        if page is None:
            mounted = http.scope.get("root_path", "").rstrip("/")
            raise Refusal(404, f"There is nothing here; the MCP endpoint is {mounted}{self._path}.")
        check_get(http)
        await page(http)

    # -- pages ----------------------------------------------------------------------------

    def report(self) -> Report:
        """Return what this process adds to what is said of all workers."""
        metrics = summable(self.metrics.snapshot())
        return {"metrics": metrics, "servers": self._catalogue.servers()}

    async def _tools(self, http: HttpRequest) -> None:
        await self._guard.check(http)
        self._guard.require(http)
        assert self._server is not None
        view = view_of(context_of(http, self._server, Request("", LIST_TOOLS.name, {})))
        tools = [
            to_wire(tool.description)
            for _, tool in self._catalogue.in_order("tools")
            if view is None or view.shows(tool)
        ]
        await http.respond_json({"tools": tools})

    async def _explore(self, page: ExplorerPage, http: HttpRequest) -> None:
        self._guard.check_origin(http)  # a browser that opens a page has no token yet
        await page.serve(http, self._policy)

    async def _show_metrics(self, http: HttpRequest) -> None:
        await self._guard.check_scrape(http)
        self._guard.require(http)
        workers = self.workers
        found = self.metrics.snapshot() if workers is None else (await workers.total())["metrics"]
        await http.respond(200, text_of(found), CONTENT_TYPE)


async def _serve_login_page(page: WebPage, http: HttpRequest) -> None:
    from trio_mcp.auth.proxy.web import MAX_BODY, WebRequest

    request = WebRequest(
        method=http.method,
        query=http.scope.get("query_string", b"").decode("latin-1"),
        body=await http.body(MAX_BODY) if http.method == "POST" else b"",
        headers=http.headers,
        address=http.client_address,
    )
    response = await page(request)
    await http.respond(response.status, response.body, response.content_type, response.headers)


def _public_documents(
    registry: Registry, policy: HttpPolicy, path: str, card: ServerCard | None
) -> dict[str, PublicDocument]:
    documents: dict[str, PublicDocument] = {}
    if policy.auth is not None:
        from trio_mcp.auth.server.metadata import metadata_of, metadata_paths

        name = registry.info.title or registry.name
        about = metadata_of(policy.auth, name, policy.auth.scopes | catalogue_of(registry).scopes)
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
    auth: ResourceServer | None = None,
    sessions: SessionOptions | None = None,
    limits: Limits | None = None,
    card: ServerCard | None = None,
    explorer: bool = False,
    store: StoreLike | None = None,
    prometheus: CollectorRegistry | None = None,
    fallback: AsgiApp | None = None,
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
        auth: Lets in whom an authorization server has given a token, such as `github(...)`: short
            for `policy=HttpPolicy(auth=...)`.
        sessions: The sessions of legacy clients: how many there are, and what is kept of them.
        limits: The bounds of requests.
        card: What strangers may know of the server; it is then at `<path>/server-card`, and a
            catalog that names it at `/.well-known/ai-catalog.json`.
        explorer: Whether people can try the server out on a page at `/explorer`. Without tokens,
            only from this machine.
        store: What several instances of this app share (see `open_store`), so that any of them
            serves any request of a session. Without it, sessions live in this process.
        prometheus: A registry of prometheus_client, such as its `REGISTRY`: it has the metrics of
            this app while it is running, and `/metrics` shows what else it has.
        fallback: An ASGI app that answers at all other paths, such as a Starlette with routes of
            your own. It runs on Trio, gets no lifespan events, and is asked under `allowed_hosts`
            only, within the `rate` of an address; any further check is its own.

    Raises:
        ValueError: A path does not begin with a slash, or is already in use; or the explorer would
            be for other machines, without a token; or the longest message of a client has no room.
        TypeError: The store or the `prometheus` registry is none, or an option is of another type.

    Example:
        >>> app = http_app(Registry("empty"), policy=HttpPolicy(allowed_hosts=["mcp.example.com"]))
    """
    check_registry(registry)
    if not path.startswith("/") or path in _PAGES:
        raise ValueError(f"{path!r} cannot be the path of the MCP endpoint; take one like '/mcp'")
    if sse_path is not None and (not sse_path.startswith("/") or sse_path in (path, *_PAGES)):
        raise ValueError(f"{sse_path!r} cannot be the path for HTTP+SSE; take one like '/sse'")
    if store is not None:
        from trio_mcp.store.opening import check_store

        check_store(store)
    if prometheus is not None and not hasattr(prometheus, "register"):
        what = type(prometheus).__name__
        raise TypeError(f"prometheus must be a CollectorRegistry, such as REGISTRY, not {what}")
    if fallback is not None and not callable(fallback):
        raise TypeError(f"fallback must be an ASGI app, not {type(fallback).__name__}")
    policy, page = policy_with(auth, policy), None
    if policy.auth is not None:
        own = {path, sse_path, *_PAGES, *([EXPLORER_PATH] if explorer else ())}
        for taken in own & policy.auth.page_paths:
            raise ValueError(f"{taken} is a page of the logins as well; take another path")
    sessions = option("sessions", sessions, SessionOptions)
    if explorer:
        from trio_mcp.transports.http.explorer import ExplorerPage, check_protected

        if EXPLORER_PATH in (path, sse_path):
            raise ValueError(f"{EXPLORER_PATH} is the explorer's path; take another one")
        check_protected(policy)
        page = ExplorerPage.load({"endpoint": path.lstrip("/")})
    limits = option("limits", limits, Limits)
    if limits.max_message_bytes > policy.max_received_bytes * SHARE:
        raise ValueError(
            f"a message may have {limits.max_message_bytes} bytes (Limits.max_message_bytes), all "
            f"of a client {SHARE:.0%} of HttpPolicy.max_received_bytes, which is less: raise it"
        )
    return HttpApp(
        registry, path, policy, sessions, limits, sse_path, card, page, store, prometheus, fallback
    )
