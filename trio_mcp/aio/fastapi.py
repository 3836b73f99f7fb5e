"""Tools of an application on asyncio: what its OpenAPI document describes, called in this process.

A call is a request that never meets a network: it goes to the app as ASGI, in the event loop beside
Trio, through all of its middleware.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, Protocol

import httpx2
from attrs import define, field

from trio_mcp.aio.crossing import asgi_scope, current_crossing
from trio_mcp.aio.handlers import crossing_for
from trio_mcp.aio.inloop import call_asyncio
from trio_mcp.aio.registry import Registry
from trio_mcp.compose.openapi.build import openapi
from trio_mcp.compose.openapi.service import make_client
from trio_mcp.loggers import logger_of
from trio_mcp.wire.errors import SchemaError

if TYPE_CHECKING:
    from trio_mcp.compose.openapi.operations import Operation, Rule
    from trio_mcp.compose.openapi.pages import Pages
    from trio_mcp.compose.openapi.security import Authenticate, Credential
    from trio_mcp.transports.http.server.asgi import Message, Receive, Scope, Send

logger = logger_of("trio_mcp.aio")

_PATIENCE: Final = 3.0
"""Seconds that what goes on after a response has to end, when the registry is closed."""
_PORTS: Final = {"http": 80, "https": 443}


class DescribedApp(Protocol):
    """An ASGI app with an OpenAPI document, such as a `FastAPI`."""

    def openapi(self) -> dict[str, Any]:
        """Return the document."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""


def from_fastapi(
    app: DescribedApp,
    *,
    name: str | None = None,
    base_url: str = "http://localhost",
    lifespan: bool = False,
    auth: Mapping[str, Credential] | httpx2.Auth | None = None,
    authenticate: Authenticate | None = None,
    only: Rule | None = None,
    leave_out: Rule | None = None,
    rename: Mapping[str, str] | Callable[[Operation], str | None] | None = None,
    resources: Rule | None = None,
    output_schemas: bool = False,
    max_description: int = 400,
    pages: int | Pages = 1,
    timeout: float = 30.0,
    max_response_bytes: int = 1024 * 1024,
) -> Registry:
    """Make a registry of a FastAPI application: each of its endpoints is a tool.

    Call it after all routes are added. A tool calls its endpoint in this process, in the event loop
    in which the registry is served: in the same as the app, if the app mounts it. The request goes
    through the app's middleware, dependencies and validation like any other. It is a new one:
    nothing that the caller of the tool sent is in it but the arguments, unless `authenticate` adds
    it. Context variables reach the endpoint. So do the address of the caller, and the state of the
    app's lifespan, where an ASGI server has brought the call.

    A tool has the name of its endpoint's function, unless the endpoint has an `operation_id` or
    another function has the same name.

    Background tasks go on after the tool has returned. A call that is cancelled cancels the
    endpoint.

    Args:
        app: The application, or any ASGI app with a method `openapi`.
        name: The registry's name, instead of the title.
        base_url: Where the app believes it is called: the host that its `TrustedHostMiddleware`
            knows, `https://` if it redirects what is not.
        lifespan: Whether to run the app's lifespan while the registry is open: where nothing else
            serves the app, as on stdin and stdout.
        auth: Credentials by the name of a security scheme of the app, as for
            `trio_mcp.compose.openapi.openapi`.
        authenticate: An async function that takes the `Context` of a call, and returns what to show
            for its caller: a bearer token, an `httpx2.Auth`, or `None`. It runs under Trio, or with
            `on_asyncio` in the event loop.
        only: The operations to offer: an `operationId`, a path (`/pets/*`), a method and a path
            (`GET /pets`), `tag:NAME`, `deprecated`; a list of these; or a function of each.
        leave_out: Of these, the ones that are not offered.
        rename: Names for tools, by `operationId` or `METHOD path`; or a function that returns one.
        resources: The GET operations that are resources and not tools.
        output_schemas: Whether tools say what they return; then an answer that does not fit is an
            error.
        max_description: Characters of the longest description, of tools and arguments.
        pages: How many pages of a list to put together, or how to find the next one.
        timeout: Seconds until the answer must be there.
        max_response_bytes: The largest answer; a longer one is not read to its end.

    Returns:
        The registry. More can be registered in it, and it can be mounted in another.

    Raises:
        TypeError: The app has no `openapi`.
        SchemaError: Its document cannot be used, or has no operation that is wanted.
        ValueError: An option is wrong, such as a rule that means no operation.

    Example:
        >>> app = FastAPI()
        >>> @app.get("/notes/{title}")
        ... async def note(title: str) -> str:
        ...     return "..."
        >>> app.mount("/", http_app(from_fastapi(app)))
    """
    called = _App(app, max_response_bytes)
    endpoints = openapi(
        _document(app),
        name=name,
        base_url=base_url,
        client=lambda: make_client({}, AppTransport(called)),
        auth=auth,
        authenticate=authenticate,
        only=only,
        leave_out=leave_out,
        rename=rename,
        resources=resources,
        output_schemas=output_schemas,
        max_description=max_description,
        pages=pages,
        timeout=timeout,
        max_response_bytes=max_response_bytes,
    )
    info = endpoints.info
    registry = Registry(
        info.name,
        info.version,
        title=info.title,
        description=info.description,
        lifespan=called.running if lifespan else None,
    )
    registry.mount(endpoints)
    return registry


def _document(app: DescribedApp) -> dict[str, Any]:
    """Return the document as it is now: FastAPI keeps the first one, and routes may be added."""
    if isinstance(app, type) or not callable(getattr(app, "openapi", None)):
        raise TypeError(f"from_fastapi is for an app with an OpenAPI document, not {app!r:.100}")
    kept = getattr(app, "openapi_schema", None)
    try:
        document = app.openapi()
    finally:
        if hasattr(app, "openapi_schema"):
            app.openapi_schema = kept
    if not document.get("paths"):
        raise SchemaError(
            "the application has no endpoints yet: call from_fastapi after adding them"
        )
    return _named_by_functions(document)


def _named_by_functions(document: dict[str, Any]) -> dict[str, Any]:
    """Shorten the `operationId`s that FastAPI makes of a function's name, the path and the method.

    Those of functions with the same name stay as they are. A summary that is made of the name, too,
    is left out where there is a description.
    """
    document = deepcopy(document)
    by_name: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if isinstance(operation, dict) and "operationId" in operation:
                added = re.sub(r"\W", "_", f"{path}_{method}")
                name = operation["operationId"].removesuffix(added)
                by_name[name].append(operation)
                if operation.get("description") and operation.get("summary") == _title_of(name):
                    del operation["summary"]
    for name, operations in by_name.items():
        if name and len(operations) == 1:
            operations[0]["operationId"] = name
    return document


def _title_of(name: str) -> str:
    return name.replace("_", " ").title()


@define(eq=False)
class _App:
    """An application, as it is called here."""

    asgi: Any
    most_bytes: int
    state: Mapping[str, Any] = field(factory=dict)
    """What its lifespan yields, where that runs for this registry."""

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request. `SystemExit` would end the loop, and all that it serves."""
        try:
            await self.asgi(scope, receive, send)
        except SystemExit as error:
            raise RuntimeError("it has called sys.exit()") from error

    @asynccontextmanager
    async def running(self, _: object) -> AsyncIterator[None]:
        """Run its lifespan for the block (a lifespan of a registry)."""
        context: AbstractAsyncContextManager[Any] = self.asgi.router.lifespan_context(self.asgi)
        async with context as state:
            self.state = state or {}
            yield


@define(eq=False)
class AppTransport(httpx2.AsyncBaseTransport):
    """Sends the requests of a client on Trio to an app on asyncio, in the loop beside it."""

    _app: _App
    _tasks: set[asyncio.Task[None]] = field(factory=set, init=False)
    """Those of requests, as long as the app is at them."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Call the app. If cancelled, it is cancelled there, and has ended."""
        crossing = crossing_for(f"{request.method} {request.url.path}")
        body, scope = await request.aread(), _scope_of(request, self._app.state)
        exchange = await call_asyncio(crossing, self._call, scope, body, name=scope["path"])
        body = b"".join(exchange.chunks)  # not decoded: the bounds are those of what it becomes
        return httpx2.Response(
            exchange.status, headers=exchange.headers, stream=httpx2.ByteStream(body)
        )

    async def _call(self, scope: Scope, body: bytes) -> _Exchange:
        """Call the app in its loop, and wait for its response. What it does after that goes on."""
        exchange = _Exchange(body, self._app.most_bytes)
        task = asyncio.ensure_future(self._app.serve(scope, exchange.receive, exchange.send))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait([task, exchange.complete], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        if exchange.is_too_long:
            task.cancel()
        if not exchange.complete.done():  # so the task has ended
            exchange.fail()
        return exchange

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and not task.cancelling():
            logger.error("The app raised an error", exc_info=task.exception())

    async def aclose(self) -> None:
        """Wait for what still runs in the app, for a few seconds, and cancel it then."""
        crossing = current_crossing.get()
        if crossing is not None:
            await call_asyncio(crossing, self._finish)

    async def _finish(self) -> None:
        try:
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=_PATIENCE)
        finally:
            for task in self._tasks:
                task.cancel()


def _scope_of(request: httpx2.Request, state: Mapping[str, Any]) -> Scope:
    """Write a request as ASGI has it, with what it has of the one that has led to it."""
    url, outer = request.url, asgi_scope.get() or {}
    path, _, query = url.raw_path.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": url.scheme,
        "path": url.path,
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "server": (url.host, url.port or _PORTS[url.scheme]),
        "client": outer.get("client") or ("127.0.0.1", 0),
        "state": {**outer.get("state", {}), **state},
        "extensions": {},
    }


class _Exchange:
    """A request and its response, in the event loop."""

    def __init__(self, body: bytes, most_bytes: int) -> None:
        self._body: bytes | None = body
        self._most_bytes = most_bytes
        self.chunks: list[bytes] = []
        self._size = 0
        self.complete: asyncio.Future[None] = asyncio.Future()
        self.status = 500
        self.headers: list[tuple[bytes, bytes]] = []

    @property
    def is_too_long(self) -> bool:
        return self._size > self._most_bytes

    async def receive(self) -> Message:
        """Return the body, and then that the client leaves, once it has its response."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await asyncio.wait([self.complete])
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Take a part of the response."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message.get("headers", ()))
        elif message["type"] == "http.response.body" and not self.complete.done():
            chunk = message.get("body", b"")
            self.chunks.append(chunk)
            self._size += len(chunk)
            if self.is_too_long or not message.get("more_body"):
                self.complete.set_result(None)

    def fail(self) -> None:
        """Answer 500, as a server does where an app raises, or does not answer."""
        self.status, self.headers, self.chunks = 500, [], [b"Internal Server Error"]
