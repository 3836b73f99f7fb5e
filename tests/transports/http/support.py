"""The HTTP app without sockets: an ASGI server in memory, and clients of both eras.

The server keeps to ASGI and sees to it that the app does. How it tells of a client that has left is
a choice, since real servers differ (`MANNERS`). Every JSON-RPC message that the app sends is judged
by the official schema of the revision.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define

from tests.support import official
from tests.support.client import CAPABILITIES, CLIENT_INFO, LEGACY, MODERN, modern_meta
from tests.support.processes import TIME_LIMIT
from tests.support.tools import echo, registry_of
from trio_mcp import (
    Context,
    HttpPolicy,
    Limits,
    Registry,
    ServerCard,
    SessionOptions,
    http_app,
)
from trio_mcp.store.protocol import StoreLike
from trio_mcp.transports.http.server.asgi import CANCELS as EXTENSION
from trio_mcp.transports.http.server.asgi import CONNECTION

CANCELS, IGNORES, RAISES = "cancels", "ignores", "raises"
MANNERS = [CANCELS, IGNORES, RAISES]
"""What a server does about a client that has left: it cancels the app (as the embedded one does);
or it tells who listens, and what is sent is ignored (Hypercorn), or raises `OSError` (ASGI 2.4)."""

each_manner = pytest.mark.parametrize("manner", MANNERS)
each_http_revision = pytest.mark.parametrize("revision", [*LEGACY[1:], *MODERN])
each_session_revision = pytest.mark.parametrize("revision", LEGACY[1:])
"""2024-11-05 came before Streamable HTTP."""

ACCEPT = "application/json, text/event-stream"
NEWEST_LEGACY = LEGACY[-1]
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

Headers = Mapping[str, str | bytes | None]


# -- the server -----------------------------------------------------------------------------------


@define
class Event:
    """One event of a stream, or a comment."""

    data: str | None = None
    id: str | None = None
    retry: int | None = None
    comment: str | None = None
    kind: str | None = None

    @property
    def message(self) -> Any:
        """The JSON-RPC message in it; `None` if it has none."""
        return json.loads(self.data) if self.data and self.kind in (None, "message") else None


def event_of(block: str) -> Event:
    """Read one event, as the HTML standard has it."""
    event = Event()
    for line in block.split("\n"):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "":
            event.comment = value
        elif name == "data":
            event.data = value if event.data is None else f"{event.data}\n{value}"
        elif name == "id":
            event.id = value
        elif name == "retry":
            event.retry = int(value)
        elif name == "event":
            event.kind = value
        else:
            raise AssertionError(f"an unexpected field: {line!r}")
    return event


class Response:
    """A response as it comes, and what its client can do meanwhile."""

    def __init__(self, host: Host, method: str, judge: Callable[[Any], None]) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.events: list[Event] = []
        """All events that were read, primes and comments among them."""
        self.ended = trio.Event()
        """The app has returned."""
        self.scope = trio.CancelScope()
        self._host = host
        self._method = method
        self._judge = judge
        self._changed = trio.lowlevel.ParkingLot()
        self._upload: deque[bytes] = deque()
        self._upload_open = False
        self._left = False
        self._stalled = False
        self._sending = False
        self._complete = False
        self._blocks: deque[str] = deque()
        self._partial = ""

    # What the client does.

    def disconnect(self) -> None:
        """Leave."""
        self._left = True
        self._changed.unpark_all()
        if self._host.manner == CANCELS:
            self.scope.cancel()

    def stall(self) -> None:
        """Read no more, so that whoever sends has to wait."""
        self._stalled = True

    def resume(self) -> None:
        """Read again."""
        self._stalled = False
        self._changed.unpark_all()

    def upload(self, chunk: bytes, *, more: bool = False) -> None:
        """Send a piece of the body."""
        self._upload.append(chunk)
        self._upload_open = more
        self._changed.unpark_all()

    async def started(self) -> int:
        """Wait for the head of the response; return the status."""
        while not self.status:
            assert not self.ended.is_set(), "there was no response"
            await self._changed.park()
        return self.status

    async def complete(self) -> Response:
        """Wait until the response is complete, whether or not the app has returned."""
        while not self._complete:
            await self._changed.park()
        return self

    async def end(self) -> Response:
        """Wait until the app has returned."""
        await self.ended.wait()
        return self

    @property
    def is_stream(self) -> bool:
        """Whether it is a stream of events."""
        return self.headers.get("content-type") == "text/event-stream"

    async def event(self) -> Event | None:
        """Wait for the next event or comment; `None` at the end of the stream."""
        while not self._blocks:
            if self.ended.is_set():
                assert self._partial == "" or self._left, "the stream ends within an event"
                return None
            await self._changed.park()
        event = event_of(self._blocks.popleft())
        self.events.append(event)
        if event.message is not None:
            self._judge(event.message)
        return event

    async def message(self) -> Any:
        """Wait for the next message of the stream; `None` at its end."""
        while (event := await self.event()) is not None:
            if event.message is not None:
                return event.message
        return None

    async def messages(self) -> list[Any]:
        """Wait for the end, and return all messages that were not read yet."""
        await self.started()
        if self.is_stream:
            found = []
            while (message := await self.message()) is not None:
                found.append(message)
            return found
        await self.end()
        if self._method == "HEAD" or not self.body:
            return []
        assert self.headers["content-type"] == "application/json"
        value = json.loads(self.body)
        self._judge(value)
        return [value]

    async def answer(self) -> Any:
        """Wait for the end, and return the last message."""
        return (await self.messages())[-1]

    def json(self) -> Any:
        """The body as JSON, not judged."""
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The JSON-RPC error in the body."""
        error: dict[str, Any] = self.json()["error"]
        return error

    # The server's side.

    async def run(self, scope: dict[str, Any]) -> None:
        """Run the app for this request."""
        try:
            with self.scope:
                await self._host.app(scope, self._receive, self._send)
        except Exception as error:
            if not (self._left and isinstance(error, OSError)):  # which a server expects
                self._host.failed(error)
                self.status = self.status or 500
        else:
            if not self._left:
                assert self._complete, "the app returned before its response was complete"
        finally:
            self.ended.set()
            self._changed.unpark_all()

    async def _receive(self) -> dict[str, Any]:
        while not self._upload:
            if self._left or self._complete:
                await trio.lowlevel.checkpoint()
                return {"type": "http.disconnect"}
            await self._changed.park()
        chunk = self._upload.popleft()
        more = bool(self._upload) or self._upload_open
        return {"type": "http.request", "body": chunk, "more_body": more}

    async def _send(self, message: dict[str, Any]) -> None:
        assert not self._sending, "two tasks send at the same time"
        self._sending = True
        try:
            await self._take(message)
        finally:
            self._sending = False

    async def _take(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "http.response.body":
            while self._stalled and not self._left:
                await self._changed.park()
        await trio.lowlevel.checkpoint()
        if self._left:
            if self._host.manner == RAISES:
                raise OSError("the client has left")
            return
        if kind == "http.response.start":
            self._start(message["status"], message["headers"])
        else:
            assert kind == "http.response.body"
            self._piece(message.get("body", b""), message.get("more_body", False))
        self._changed.unpark_all()

    def _start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        assert self.status == 0, "the response was started already"
        assert 200 <= status <= 599
        for name, value in headers:
            assert name == name.lower()
            assert name.replace(b"-", b"").isalnum()
            assert value.decode("ascii").isprintable(), f"{value!r} cannot be a header"
            assert name.decode() not in self.headers, f"{name!r} is there twice"
            self.headers[name.decode()] = value.decode()
        self.status = status

    def _piece(self, data: bytes, more: bool) -> None:
        assert self.status, "the response was not started"
        assert not self._complete, "the response is complete"
        self.body += data
        self._complete = not more
        if not more and "content-length" in self.headers:
            assert int(self.headers["content-length"]) == len(self.body)
        if self.is_stream:
            *blocks, self._partial = (self._partial + data.decode()).split("\n\n")
            self._blocks += blocks


class Host:
    """Serves one app to any number of clients, each request in a task of its own."""

    def __init__(self, app: Any, nursery: trio.Nursery, manner: str) -> None:
        self.app = app
        self.manner = manner
        self.failures: list[Exception] | None = None
        """What the app raised, for tests that expect it; a failure of the test otherwise."""
        self.requests = 0
        """So many it was sent."""
        self._nursery = nursery
        self.kept: dict[Any, Any] = {}  # by the app, as if all came over one connection

    def failed(self, error: Exception) -> None:
        """Take note of an exception of the app."""
        if self.failures is None:
            raise AssertionError("the app raised an exception") from error
        self.failures.append(error)

    def send(
        self,
        method: str,
        path: str = "/mcp",
        headers: Headers | None = None,
        body: bytes | None = b"",
        *,
        client: tuple[str, int] | None = ("127.0.0.1", 50000),
        judge: Callable[[Any], None] = lambda _: None,
        root_path: str = "",
    ) -> Response:
        """Begin a request, and return its response, which will come.

        A header with the value `None` is left out; without a body, `upload` sends it. The path
        may have a query.
        """
        self.requests += 1
        path, _, query = path.partition("?")
        given: Headers = {"host": "localhost:8000", **(headers or {})}
        fields = [
            (name.lower().encode(), value.encode() if isinstance(value, str) else value)
            for name, value in given.items()
            if value is not None
        ]
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": root_path,
            "headers": fields,
            "client": client,
            "server": ("127.0.0.1", 8000),
        }
        if self.manner == CANCELS:
            scope["extensions"] = {EXTENSION: {}, CONNECTION: self.kept}
        response = Response(self, method, judge)
        if body is not None:
            response.upload(body)
        self._nursery.start_soon(response.run, scope)
        return response

    async def ask(self, method: str, path: str = "/mcp", **options: Any) -> Response:
        """Send a request, and wait for the whole response."""
        return await self.send(method, path, **options).end()


@asynccontextmanager
async def hosting(
    registry: Registry,
    policy: HttpPolicy | None = None,
    limits: Limits | None = None,
    *,
    sessions: SessionOptions | None = None,
    manner: str = CANCELS,
    path: str = "/mcp",
    sse_path: str | None = None,
    card: ServerCard | None = None,
    explorer: bool = False,
    store: StoreLike | None = None,
    prometheus: Any = None,
) -> AsyncIterator[Host]:
    """Serve a registry in memory. In the end nothing may be left that runs."""
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
    )
    mocked = isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
    failure: BaseException | None = None
    with trio.fail_after(1e6 if mocked else TIME_LIMIT):
        async with app.running(), trio.open_nursery() as nursery:
            try:
                yield Host(app, nursery, manner)
            except BaseException as error:  # raised again below, outside of any exception group
                failure = error
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


# -- clients --------------------------------------------------------------------------------------


class HttpClient:
    """What clients of both eras have in common."""

    def __init__(self, host: Host, revision: str, headers: Headers | None = None) -> None:
        self.host = host
        self.revision = revision
        self.headers: dict[str, str | bytes | None] = dict(headers or {})
        """Sent with every request."""
        self.capabilities: dict[str, Any] = {}
        self.address: tuple[str, int] | None = ("127.0.0.1", 50000)
        self.judging = True
        self.added: tuple[str, ...] = ()
        """The notifications and result types that extensions add."""
        self._ids = itertools.count(1)
        self.methods: dict[Any, str] = {}
        """By the ids of the requests."""

    def judge(self, message: Any) -> None:
        """Fail unless a message is one of the revision's."""
        if self.judging:
            for each in message if isinstance(message, list) else [message]:
                method = self.methods.get(each.get("id")) if "method" not in each else None
                official.judge(each, self.revision, method, self.added)

    def headers_for(self, message: Any) -> dict[str, str | bytes | None]:
        """The headers that belong to a message."""
        return {"content-type": "application/json", "accept": ACCEPT, **self.headers}

    def send(self, message: Any, headers: Headers | None = None) -> Response:
        """Begin to POST a message (a JSON value, or bytes as they are)."""
        for each in message if isinstance(message, list) else [message]:
            if isinstance(each, dict) and isinstance(each.get("id"), str | int):
                self.methods[each["id"]] = each.get("method", "")
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.post_bytes(body, {**self.headers_for(message), **(headers or {})})

    def post_bytes(self, body: bytes | None, headers: Headers) -> Response:
        """Begin to POST a body with exactly these headers."""
        return self.host.send(
            "POST", headers=headers, body=body, client=self.address, judge=self.judge
        )

    async def post(self, message: Any, headers: Headers | None = None) -> Response:
        """POST a message, and wait for the whole response."""
        return await self.send(message, headers).end()

    def request_of(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Make a request with a fresh id."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": next(self._ids), "method": method}
        return {**message, "params": params} if params else message

    def begin(self, method: str, params: dict[str, Any] | None = None, **headers: Any) -> Response:
        """Begin a request."""
        return self.send(self.request_of(method, params), headers)

    def begin_call(
        self, name: str, meta: dict[str, Any] | None = None, **arguments: Any
    ) -> Response:
        """Begin to call a tool."""
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if meta is not None:
            params["_meta"] = meta
        return self.begin("tools/call", params)

    async def request(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Send a request, which must succeed on the level of HTTP, and return its answer."""
        response = self.begin(method, params)
        assert await response.started() == 200, response.body
        return await response.answer()

    async def call(self, name: str, meta: dict[str, Any] | None = None, **arguments: Any) -> Any:
        """Call a tool and return the answer."""
        response = self.begin_call(name, meta, **arguments)
        assert await response.started() == 200, response.body
        return await response.answer()


class ModernClient(HttpClient):
    """A client of the modern revision: nothing but requests."""

    def __init__(
        self,
        host: Host,
        headers: Headers | None = None,
        *,
        capabilities: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(host, MODERN[0], headers)
        self.capabilities = capabilities or {}

    def headers_for(self, message: Any) -> dict[str, str | bytes | None]:
        """Mirror the message."""
        mirrored: dict[str, str | bytes | None] = {"mcp-protocol-version": self.revision}
        if isinstance(message, dict):
            method, params = message.get("method"), message.get("params") or {}
            if isinstance(method, str):
                mirrored["mcp-method"] = method
                name = params.get(_NAMED.get(method, ""))
                if isinstance(name, str):
                    mirrored["mcp-name"] = name
        return {**super().headers_for(message), **mirrored, **self.headers}

    def request_of(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Make a request that says who asks."""
        params = dict(params or {})
        meta = modern_meta(**{CAPABILITIES: self.capabilities})
        params["_meta"] = {**meta, **params.get("_meta", {})}
        return super().request_of(method, params)


class LegacyClient(HttpClient):
    """A client with a session."""

    def __init__(
        self,
        host: Host,
        revision: str = NEWEST_LEGACY,
        headers: Headers | None = None,
        *,
        capabilities: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(host, revision, headers)
        self.capabilities = capabilities or {}
        self.session: str | None = None

    def headers_for(self, message: Any) -> dict[str, str | bytes | None]:
        """Add session and version."""
        return {**super().headers_for(message), **self.session_headers(), **self.headers}

    def session_headers(self) -> dict[str, str]:
        """The headers that belong to every request after the first."""
        if self.session is None:
            return {}
        return {"mcp-session-id": self.session, "mcp-protocol-version": self.revision}

    def initialize_request(self) -> dict[str, Any]:
        """The first request."""
        params = {
            "protocolVersion": self.revision,
            "capabilities": self.capabilities,
            "clientInfo": CLIENT_INFO,
        }
        return self.request_of("initialize", params)

    async def initialize(self) -> Any:
        """Shake hands, and return the answer."""
        response = await self.post(self.initialize_request())
        assert response.status == 200, response.body
        answer = await response.answer()
        assert answer["result"]["protocolVersion"] == self.revision
        self.session = response.headers.get("mcp-session-id")
        assert await self.notify("notifications/initialized") == 202
        return answer

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a notification; return the status."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        response = await self.post({**message, "params": params} if params else message)
        assert response.body == b"" or response.status >= 400
        return response.status

    async def reply(self, question: Any, result: Any) -> int:
        """Answer a question of the server's; return the status."""
        message = {"jsonrpc": "2.0", "id": question["id"], "result": result}
        response = await self.post(message)
        assert response.body == b"" or response.status >= 400
        return response.status

    def get(self, after: str | None = None, **headers: Any) -> Response:
        """Open the session's stream, or one that was interrupted after that event."""
        own: dict[str, Any] = {"accept": "text/event-stream", **self.session_headers()}
        if after is not None:
            own["last-event-id"] = after
        return self.host.send(
            "GET",
            headers={**own, **self.headers, **headers},
            client=self.address,
            judge=self.judge,
        )

    async def delete(self) -> int:
        """End the session; return the status."""
        headers = {**self.session_headers(), **self.headers}
        return (await self.host.ask("DELETE", headers=headers, client=self.address)).status


@asynccontextmanager
async def modern(
    registry: Registry,
    policy: HttpPolicy | None = None,
    limits: Limits | None = None,
    *,
    manner: str = CANCELS,
    capabilities: dict[str, Any] | None = None,
) -> AsyncIterator[ModernClient]:
    """Serve a registry to a modern client."""
    async with hosting(registry, policy, limits, manner=manner) as host:
        yield ModernClient(host, capabilities=capabilities)


@asynccontextmanager
async def legacy(
    registry: Registry,
    policy: HttpPolicy | None = None,
    limits: Limits | None = None,
    *,
    sessions: SessionOptions | None = None,
    revision: str = NEWEST_LEGACY,
    manner: str = CANCELS,
    capabilities: dict[str, Any] | None = None,
) -> AsyncIterator[LegacyClient]:
    """Serve a registry to a legacy client that has shaken hands."""
    async with hosting(registry, policy, limits, sessions=sessions, manner=manner) as host:
        client = LegacyClient(host, revision, capabilities=capabilities)
        await client.initialize()
        yield client


async def client_of(host: Host, revision: str, **options: Any) -> ModernClient | LegacyClient:
    """A client of any revision, ready to ask."""
    if revision in MODERN:
        return ModernClient(host, **options)
    client = LegacyClient(host, revision, **options)
    await client.initialize()
    return client


# -- tools ----------------------------------------------------------------------------------------


class Worker:
    """A tool that works until it may go on, and notes what becomes of it."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.cancelled = 0
        self.finished = 0
        self.go_on = trio.Event()
        self._changed = trio.lowlevel.ParkingLot()

    async def until(self, running: int) -> None:
        """Wait until so many calls work."""
        while self.running != running:
            await self._changed.park()

    async def work(self, context: Context, words: str = "done", say: int = 0) -> str:
        """Report progress so often, and work."""
        try:
            for number in range(say):
                await context.progress(number + 1)
            return await self.work_quietly(words)
        except trio.Cancelled:
            self.cancelled += 1
            raise

    async def work_quietly(self, words: str = "done") -> str:
        """Work without a word."""
        self.running += 1
        self.most = max(self.most, self.running)
        self._changed.unpark_all()
        try:
            await self.go_on.wait()
        finally:
            self.running -= 1
            self._changed.unpark_all()
        self.finished += 1
        return words

    @property
    def registry(self) -> Registry:
        """A registry with the two tools, and one that echoes."""
        return registry_of(self.work, self.work_quietly, echo)


def progress_meta(token: str | int = "p") -> dict[str, Any]:
    """The `_meta` of a request that wants to hear of progress."""
    return {"progressToken": token}


async def sessions_of(host: Host, headers: dict[str, str] | None = None) -> int:
    """How many sessions there are."""
    metrics = (await host.ask("GET", "/metrics", headers=headers)).body.decode()
    [line] = [each for each in metrics.splitlines() if each.startswith("mcp_sessions ")]
    return int(float(line.split()[1]))
