"""What `trio-mcp inspect --web` serves: the explorer's page, and a relay to the one server.

The relay passes raw messages on unread: what the page shows is what was sent. It talks to processes
on a person's machine, so it must serve that person only. (An inspector without authentication let
any web page start commands: CVE-2025-49596.) Hence:

- Every request except that for the page needs a token. It is new each time, and stands only in the
  address that the person gets. The page itself says nothing about the server.
- `Host` and `Origin` must be those of the relay, port included, so no other page can reach it.
- The command line names the command. Requests can only open more connections to that server.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import trio
from attrs import define

from trio_mcp.background import background_nursery
from trio_mcp.cli.failures import OK, Failure, explain, new_part
from trio_mcp.cli.login.browser import open_page
from trio_mcp.cli.options import ConnectionOptions
from trio_mcp.cli.screen import Screen
from trio_mcp.cli.target import Target
from trio_mcp.errors import ClientError, ConnectionLost, HttpError, ResponseTooLarge
from trio_mcp.peer.lines import IO_ERRORS, lines_of
from trio_mcp.peer.time_limits import TimeLimit
from trio_mcp.transports.http.explorer import ExplorerPage
from trio_mcp.transports.http.guard import Guard
from trio_mcp.transports.http.policy import HttpPolicy
from trio_mcp.transports.http.request import EVENTS, JSON, Disconnected, HttpRequest, Refusal
from trio_mcp.transports.http.server import open_tcp, serve_asgi
from trio_mcp.transports.http.server.asgi import Receive, Scope, Send, bound_address
from trio_mcp.transports.http.sharing.interface import Sharing
from trio_mcp.transports.process import open_process
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.sse import encode_event

if TYPE_CHECKING:  # a command needs no HTTP client
    from trio_mcp.client.http.endpoint import Endpoint
    from trio_mcp.client.http.options import HttpOptions

_HOST: Final = "127.0.0.1"
_CONNECTION: Final = "relay-connection"
_PASSED_ON: Final = (b"content-type", b"accept", b"last-event-id")
"""Headers that the server gets, besides those of the protocol."""
_RETURNED: Final = ("mcp-session-id", "mcp-protocol-version", "retry-after")
_MAX_CONNECTIONS: Final = 16
"""Connections at a time: each may be a process."""
_TICK: Final = 0.5
"""Seconds between looks at stderr."""
_QUIET: Final = 30
"""Ticks after which a silent stream sends a comment, to stay open."""


class Upstream(Protocol):
    """One connection to the server."""

    @property
    def stderr_tail(self) -> str:
        """The end of what the server wrote to stderr."""

    async def send_message(self, message: bytes) -> None:
        """Send a message; raise `ClientError` if the connection has ended."""

    async def receive_message(self) -> bytes:
        """Wait for a message; raise `ResponseTooLarge` for one that is too long and skipped."""


Connect = Callable[[], AbstractAsyncContextManager[Upstream]]


@define(eq=False, repr=False, slots=False)
class Relay:
    """An ASGI app: the page, and a relay to the server: to an endpoint, or by a connection each.

    What `about` says of the server, the page learns once it has the token.
    """

    _port: int
    _about: Mapping[str, Json]
    _connect: Connect
    _limits: Limits
    _endpoint: Endpoint | None = None

    def __attrs_post_init__(self) -> None:
        token = secrets.token_urlsafe(32)
        self._authority = f"{_HOST}:{self._port}"
        self.url = f"http://{self._authority}/#token={token}"
        """The page's address, with the token in the part that no browser sends."""
        ways: dict[str, Json] = {"relay": "relay", "endpoint": self._endpoint and "mcp"}
        self._page = ExplorerPage.load(ways)
        self._guard = Guard(HttpPolicy(allowed_hosts=[_HOST], tokens={token: "page"}), "/mcp")
        self._upstreams: dict[str, Upstream] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._guard.running(frozenset(), Sharing(), verify=None):
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        http = HttpRequest(scope, receive, send, self)
        with suppress(Disconnected):
            try:
                await self._route(http)
            except Refusal as refused:
                if not http.started:
                    await http.respond(refused.status, refused.body, headers=refused.headers)

    async def _route(self, http: HttpRequest) -> None:
        self._check_same(http)
        what = (http.method, http.path)
        if what == ("GET", "/"):
            await self._page.serve(http)
            return
        await self._guard.check(http)
        if http.path == "/mcp" and self._endpoint is not None:
            await self._forward(http, self._endpoint)
        elif what == ("GET", "/about"):
            await http.respond_json(dict(self._about))
        elif what == ("GET", "/relay"):
            await self._open(http)
        elif what == ("POST", "/relay"):
            await self._send(http)
        else:
            raise Refusal(404, "There is nothing here.")

    def _check_same(self, http: HttpRequest) -> None:
        if http.header(b"host") != self._authority:
            raise Refusal(403, "The inspector is not reached by that Host name.")
        if http.header(b"origin") not in (None, f"http://{self._authority}"):
            raise Refusal(403, "Pages of that Origin may not use the inspector.")

    # -- messages, to a process or a server of HTTP+SSE ---------------------------------------

    async def _open(self, http: HttpRequest) -> None:
        """Connect for as long as the response lasts; it streams the server's messages."""
        if len(self._upstreams) >= _MAX_CONNECTIONS:
            raise Refusal(503, f"There are {_MAX_CONNECTIONS} connections already; close a page.")
        try:
            async with self._connect() as upstream:
                name = secrets.token_urlsafe(16)
                self._upstreams[name] = upstream
                stderr = _Stderr(http, upstream)
                try:
                    await http.start_stream()
                    await http.send_raw(encode_event(name.encode(), event="open"))
                    async with background_nursery(stderr.watch):
                        await _pass_all(http, upstream)
                except ClientError:
                    await stderr.tell()
                    raise
                finally:
                    del self._upstreams[name]
        except ClientError as error:
            why = explain(error)
            if not http.started:
                raise Refusal(502, why) from None
            await http.send_raw(encode_event(why.encode(), event="end"))
            await http.end_stream()

    async def _send(self, http: HttpRequest) -> None:
        upstream = self._upstreams.get(http.header(_CONNECTION.encode()) or "")
        if upstream is None:
            raise Refusal(404, "That connection has ended; connect again.")
        body = await http.body(self._limits.max_message_bytes)
        try:
            await upstream.send_message(body)
        except ValueError as error:
            raise Refusal(400, str(error)) from None
        except ClientError as error:
            raise Refusal(502, explain(error)) from None
        await http.respond(202)

    # -- requests, to a server of Streamable HTTP ---------------------------------------------

    async def _forward(self, http: HttpRequest, endpoint: Endpoint) -> None:
        """Repeat a request to the server, and its response to the page."""
        if http.method not in ("POST", "GET", "DELETE"):
            raise Refusal(405, "The MCP endpoint is for POST, GET and DELETE.")
        limit = self._limits.max_message_bytes
        body = await http.body(limit) if http.method == "POST" else None
        headers = {
            name.decode("latin-1"): value
            for name, value in http.headers.items()
            if name in _PASSED_ON or name.startswith(b"mcp-")
        }
        try:
            async with endpoint.exchange(http.method, headers, body) as reply:
                returned = [
                    (name.encode(), value.encode("latin-1"))
                    for name in _RETURNED
                    if (value := reply.header(name)) is not None
                ]
                kind = reply.media_type.encode("latin-1")
                if not (reply.is_success and kind == EVENTS):
                    whole = await reply.read_all(limit)
                    await http.respond(reply.status, whole, kind or JSON, returned)
                    return
                await http.start_stream(returned)
                while piece := await reply.read_some():
                    await http.send_raw(piece)
                await http.end_stream()
        except ClientError as error:
            raise Refusal(502, explain(error)) from None


async def _pass_all(http: HttpRequest, upstream: Upstream) -> None:
    """Pass on the server's messages until the connection ends (`ClientError`)."""
    while True:
        try:
            message = await upstream.receive_message()
            # To JSON both are white space; in an event, each CR would become a line of its own.
            await http.send_event(message.replace(b"\r", b" "))
        except ResponseTooLarge as error:
            await http.send_raw(encode_event(f"{error}\n".encode(), event="stderr"))


class _Stderr:
    """Sends the server's stderr to the page."""

    def __init__(self, http: HttpRequest, upstream: Upstream) -> None:
        self._http = http
        self._upstream = upstream
        self._told = ""

    async def tell(self) -> bool:
        """Send what is new; return whether anything was."""
        tail = self._upstream.stderr_tail
        if tail == self._told:
            return False
        new, self._told = new_part(tail, self._told), tail
        await self._http.send_raw(encode_event(new.encode(), event="stderr"))
        return True

    async def watch(self) -> None:
        quiet = 0
        while True:
            quiet = 0 if await self.tell() else quiet + 1
            if quiet % _QUIET == _QUIET - 1:
                await self._http.send_comment()
            await trio.sleep(_TICK)


class _SseUpstream:
    """A server of HTTP+SSE, the transport of revision 2024-11-05."""

    stderr_tail = ""

    def __init__(self, stream: trio.abc.Stream, limits: Limits) -> None:
        self._stream = stream
        self._lines = lines_of(stream, limits.max_message_bytes)
        self._turn = trio.Lock()

    async def send_message(self, message: bytes) -> None:
        async with self._turn:
            with _lost():
                await self._stream.send_all(message + b"\n")

    async def receive_message(self) -> bytes:
        with _lost():
            async for line in self._lines:
                return line
            raise trio.BrokenResourceError


@contextmanager
def _lost() -> Iterator[None]:
    try:
        yield
    except IO_ERRORS:
        raise ConnectionLost("the server has ended the stream of events") from None


@asynccontextmanager
async def open_sse_upstream(
    endpoint: Endpoint, options: HttpOptions, limits: Limits
) -> AsyncIterator[Upstream]:
    """Connect to a server of HTTP+SSE for the length of the block."""
    from trio_mcp.client.http.sse_stream import open_sse

    refused = HttpError(404, f"{endpoint.where} speaks neither Streamable HTTP nor HTTP+SSE")
    limit = TimeLimit.after(options.connect_timeout)
    async with open_sse(endpoint, options, limits.max_message_bytes, refused, limit) as stream:
        yield _SseUpstream(stream, limits)


_MESSAGE_BYTES: Final = 64 * 1024 * 1024
"""A person may want to see more than a program should accept."""


async def serve_page(
    target: Target, options: ConnectionOptions, screen: Screen, port: int, *, opens: bool
) -> int:
    try:
        listeners = await open_tcp("127.0.0.1", port)
    except OSError as error:
        raise Failure(f"cannot listen on port {port}: {error.strerror or error}") from None
    (address,) = {bound_address(listener) for listener in listeners}
    assert isinstance(address, tuple)
    async with _relay(target, options, screen, address[1]) as relay:
        screen.note(f"Open this page to try out {target.text}:")
        screen.text(relay.url)
        screen.out.file.flush()
        screen.note("Anyone with this address can use the server. Ctrl-C ends it.")
        if opens:
            await open_page(relay.url)
        async with relay.running():
            await serve_asgi(relay, listeners, max_body_bytes=_MESSAGE_BYTES, shutdown_grace=0)
    return OK


@asynccontextmanager
async def _relay(
    target: Target, options: ConnectionOptions, screen: Screen, port: int
) -> AsyncIterator[Relay]:
    limits = Limits(max_message_bytes=_MESSAGE_BYTES)
    http = options.http_options(target, screen)
    if target.url is None:
        command = target.process or []
        connect = partial(open_process, command, options.process_options(), limits=limits)
        about: dict[str, Json] = {"target": target.text, "command": shlex.join(command)}
        yield Relay(port, about, connect, limits)
        return
    from trio_mcp.client.http.endpoint import Endpoint

    async with Endpoint(target.url, http).opened() as endpoint:
        connect_sse = partial(open_sse_upstream, endpoint, http, limits)
        about = {"target": endpoint.place, "url": endpoint.place}
        yield Relay(port, about, connect_sse, limits, endpoint)
