"""Connecting: `async with connect(target) as client`, and nothing else begins or ends it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio
from attrs import frozen

from trio_mcp.client.client import Client
from trio_mcp.client.handlers import Handlers
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.client.negotiation import ClientIdentity, Era, era_of
from trio_mcp.client.notifications import LogCallback, Notifications, RawLines
from trio_mcp.client.session import ClientSession
from trio_mcp.client.transport import (
    ClientTransport,
    InboundHandler,
    StreamTransport,
)
from trio_mcp.errors import (
    CallTimeout,
    ClientError,
    OutputClosed,
    ProtocolError,
    ServerExited,
    WriteFailed,
)
from trio_mcp.peer.connection import Connection
from trio_mcp.peer.lines import LineTransport, StreamLines
from trio_mcp.public import public
from trio_mcp.registry import Registry
from trio_mcp.transports.background import background_task
from trio_mcp.transports.memory import serve_in_memory
from trio_mcp.transports.process import ProcessOptions, StdioTransport, open_process
from trio_mcp.version import __version__
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.limits import SERVER_BOUNDS, Limits
from trio_mcp.wire.payloads import Implementation, LoggingLevel

if TYPE_CHECKING:
    from trio_mcp.client.http.endpoint import Endpoint

Target = Sequence[str | Path] | str | Registry | trio.abc.Stream

Ending = Callable[[], ClientError]
"""Makes the error that tells how a connection ended."""

_CLIENT: Final = Implementation("trio-mcp", __version__)
_EXIT_TIMEOUT: Final = 0.5
"""Seconds in which a process that closed its pipes may still exit, to tell the two apart."""


@public
@asynccontextmanager
async def connect(
    target: Target,
    *,
    era: Era | None = None,
    revision: str | None = None,
    handlers: Handlers | None = None,
    client_info: Implementation = _CLIENT,
    process_options: ProcessOptions | None = None,
    http: HttpOptions | None = None,
    connect_timeout: float = 30.0,
    tool_timeout: float = 5.0,
    request_timeout: float = 30.0,
    limits: Limits | None = None,
    on_line: Callable[[bytes], None] | None = None,
    on_log: LogCallback | None = None,
    log_level: LoggingLevel | None = None,
) -> AsyncIterator[Client]:
    """Connect to a server for as long as the block lasts.

    Args:
        target: A command to run, as a list (the server is its process); the URL of a server, with
            `http://` or `https://`; a `Registry` in this process; or a Trio stream to a server
            that runs already.
        era: Speak a `modern` or a `legacy` revision, instead of finding out what the server does.
        revision: Speak this revision and no other, such as `2024-11-05`.
        handlers: Answers to what the server asks.
        client_info: Who to say that we are.
        process_options: How a command is run and ended.
        http: How a URL is reached: headers, proxy, TLS, bounds.
        connect_timeout: Seconds for start, handshake and the list of tools.
        tool_timeout: Seconds that a tool call waits, unless the tool or the call says otherwise.
        request_timeout: Seconds that other requests wait.
        limits: The bounds of the connection, and the time that a handler has for a server's
            question (`question_timeout`); meanwhile the time of the request that it belongs to
            stands still. What bounds a server is for a registry in this process only.
        on_line: Called with each raw line from the server, from the first one on.
        on_log: Called with each log message that the server sends.
        log_level: The least severe level of log messages to ask for; without it, a modern server
            sends none, and a legacy one what it likes.

    Yields:
        The client: handshake done, tools known.

    Raises:
        CannotStart: The command does not exist, or cannot be executed.
        CannotReach: Nobody answers at the URL.
        HttpError: The server refuses (`Unauthorized`, `RateLimited` and so on).
        ServerExited: It exited before the handshake was done.
        OutputClosed: It closed its output before the handshake was done.
        CallTimeout: It did not do its part in time.
        ProtocolError: It does not speak MCP, or no revision that this client is to speak.
        TypeError: The target is none of those.
        ValueError: The URL is none, there is no such revision, `limits` sets a bound that is the
            server's own, or HTTP+SSE needs more connections than `HttpOptions.max_connections`.
        RuntimeError: For a URL, the package `httpx2` is needed (`trio-mcp[http]`).

    Cancelled at any point, it leaves nothing behind: the process and its children are ended
    within the time that `ProcessOptions` allows.

    Over HTTP there is no connection that could end before the block does: each request reaches
    the server or fails on its own, with `CannotReach` or `ConnectionLost`. Only what cannot do
    anything twice is sent once more, on its own, when a connection broke: `server/discover`,
    lists, `resources/read`, `prompts/get`, `completion/complete`, and calls of tools whose
    annotations have `readOnlyHint` or `idempotentHint`. A legacy session that the server has
    ended is begun anew, with its log level and subscriptions. A server that knows no transport but
    HTTP+SSE, which revision 2024-11-05 had, is the exception: its connection is a stream of events,
    and ends with that (`ConnectionLost`).

    Example:
        >>> async def total() -> float:
        ...     async with connect(["python", "calculator.py"]) as client:
        ...         return await client.call_tool("add", {"a": 1, "b": 2}, returns=float)
    """
    handlers = handlers or Handlers()
    era, required_revision = era_of(revision, era)
    identity = ClientIdentity(
        info=client_info, capabilities=handlers.capabilities, required_revision=required_revision
    )

    limits = limits or Limits()
    if not isinstance(target, Registry):
        _refuse_server_bounds(limits)
    inbound = InboundHandler(
        handlers,
        limits.question_timeout,
        Notifications(on_log),
        RawLines(on_line, limits.max_message_bytes),
    )

    handshake = _Handshake(
        identity=identity,
        inbound=inbound,
        era=era,
        connect_timeout=connect_timeout,
        tool_timeout=tool_timeout,
        request_timeout=request_timeout,
        limits=limits,
        log_level=log_level,
    )
    if isinstance(target, Registry):
        way = _in_process(target, handshake)
    elif isinstance(target, str) and target.lower().startswith(("http://", "https://")):
        way = _over_http(target, http or HttpOptions(), handshake)
    else:
        way = _over_stream(target, process_options, handshake)
    async with way as client:
        yield client


def _refuse_server_bounds(limits: Limits) -> None:
    """Let nobody believe in bounds that a server elsewhere has never heard of."""
    usual = Limits()
    for name in SERVER_BOUNDS:
        if getattr(limits, name) != getattr(usual, name):
            instead = "; see connect(tool_timeout=...)" if name == "tool_timeout" else ""
            raise ValueError(f"Limits.{name} is for who serves, not for connect(){instead}")


@frozen(kw_only=True)
class _Handshake:
    """What is needed to meet a server, whichever way leads there."""

    identity: ClientIdentity
    inbound: InboundHandler
    era: Era | None
    connect_timeout: float
    tool_timeout: float
    request_timeout: float
    limits: Limits
    log_level: LoggingLevel | None

    def session(self, transport: ClientTransport) -> ClientSession:
        """Make the session over a transport."""
        return ClientSession(
            transport,
            self.identity,
            self.inbound,
            request_timeout=self.request_timeout,
            limits=self.limits,
        )

    async def run(
        self, session: ClientSession, era: Era | None = None, deadline: float = inf
    ) -> Client:
        """Shake hands, and learn what has to be known, within the time that there is."""
        client = Client(session, tool_timeout=self.tool_timeout)
        with trio.move_on_at(min(deadline, trio.current_time() + self.connect_timeout)):
            await session.negotiate(era or self.era)
            await self._load_tools(client)
            session.states.connected()
            if self.log_level is not None and "logging" in client.capabilities:
                await client.set_log_level(self.log_level)
            return client
        raise CallTimeout(_what_took_so_long(session), self.connect_timeout, session.stderr())

    async def _load_tools(self, client: Client) -> None:
        if "tools" in client.capabilities:
            try:
                await client.refresh_tools()
            except McpError as error:
                raise ProtocolError(f"the server does not list its tools: {error}") from None


@asynccontextmanager
async def _in_process(registry: Registry, handshake: _Handshake) -> AsyncIterator[Client]:
    async with serve_in_memory(registry, handshake.limits) as lines:
        connection = _connection(lines, handshake.inbound, handshake.limits)
        session = handshake.session(StreamTransport(connection))

        async def ending() -> Ending:
            return partial(OutputClosed, "")

        async with _running(connection, session, ending):
            yield await handshake.run(session, handshake.era or "modern")


@asynccontextmanager
async def _over_http(
    url: str, options: HttpOptions, handshake: _Handshake
) -> AsyncIterator[Client]:
    """Speak Streamable HTTP, or HTTP+SSE with a server that refuses that."""
    from trio_mcp.client.http.endpoint import Endpoint
    from trio_mcp.client.http.transport import open_http

    async with Endpoint(url, options).opened() as endpoint:
        deadline = trio.current_time() + handshake.connect_timeout
        async with open_http(endpoint, options, handshake.inbound, handshake.limits) as transport:
            session = handshake.session(transport)
            try:
                client = await handshake.run(session)
            except ClientError as error:
                if not transport.may_be_http_sse:
                    raise
                refused = error
            else:
                yield client
                return
            finally:
                session.close(None)
        async with _over_sse(endpoint, options, handshake, refused, deadline) as client:
            yield client


@asynccontextmanager
async def _over_sse(
    endpoint: Endpoint,
    options: HttpOptions,
    handshake: _Handshake,
    refused: ClientError,
    deadline: float,
) -> AsyncIterator[Client]:
    from trio_mcp.client.http.sse_stream import fail_unsent, open_sse

    most = handshake.limits.max_message_bytes
    async with open_sse(endpoint, options, most, refused, deadline) as events:
        lines = StreamLines(events, most)
        connection = _connection(lines, handshake.inbound, handshake.limits)
        events.on_refused = partial(fail_unsent, connection.requests)
        session = handshake.session(StreamTransport(connection))

        async def ending() -> Ending:
            return events.failure

        async with _running(connection, session, ending):
            yield await handshake.run(session, "legacy", deadline)


@asynccontextmanager
async def _over_stream(
    target: Target, options: ProcessOptions | None, handshake: _Handshake
) -> AsyncIterator[Client]:
    async with _open(target, options) as stream:
        send_nowait = getattr(stream, "send_nowait", None)
        lines = StreamLines(stream, handshake.limits.max_message_bytes, send_nowait)
        connection = _connection(lines, handshake.inbound, handshake.limits)
        session = handshake.session(StreamTransport(connection))
        if isinstance(stream, StdioTransport):
            session.stderr = lambda: stream.stderr_tail
        async with _running(connection, session, partial(_how_it_ended, stream, connection)):
            yield await handshake.run(session)


def _connection(lines: LineTransport, inbound: InboundHandler, limits: Limits) -> Connection:
    """Make the connection to a server, and let the inbound handler know of it."""
    connection = Connection(
        lines,
        inbound,
        limits,
        other_side="Server",
        on_line=inbound.on_line,
    )
    inbound.answered = connection.requests.respond
    inbound.paused = connection.requests.paused
    return connection


@asynccontextmanager
async def _open(target: Target, options: ProcessOptions | None) -> AsyncIterator[trio.abc.Stream]:
    """Start a command, or take a stream as it is; end or close it with the block."""
    if isinstance(target, trio.abc.Stream):
        async with target:
            yield target
        return
    if isinstance(target, str | bytes) or not isinstance(target, Sequence):
        raise TypeError(
            "connect needs a command as a list, a URL that begins with http:// or https://, "
            f"a Registry or a stream, not {type(target).__name__}"
        )
    async with open_process(target, options) as transport:
        yield transport


@asynccontextmanager
async def _running(
    connection: Connection, session: ClientSession, ending: Callable[[], Awaitable[Ending]]
) -> AsyncIterator[None]:
    """Run the connection beside the block, and end it with the block.

    Args:
        connection: The connection.
        session: What ends with it.
        ending: Finds out how it ended then.
    """

    async def run() -> None:
        await connection.run()
        session.close(await ending())

    async with background_task(run):
        try:
            yield
        finally:
            session.close(None)


def _what_took_so_long(session: ClientSession) -> str:
    if not session.lines.noise:
        return "connecting"
    noise = f"{session.lines.noise[0]!r:.80}"
    return f"connecting (the server wrote lines that are no messages, such as {noise})"


async def _how_it_ended(stream: trio.abc.Stream, connection: Connection) -> Ending:
    """Find out how a connection ended that nobody here ended."""
    stderr = ""
    if isinstance(stream, StdioTransport):
        with trio.move_on_after(_EXIT_TIMEOUT):
            await stream.exited.wait()
        stderr = stream.stderr_tail
        if stream.returncode is not None:
            return partial(ServerExited, stream.returncode, stderr)
    return partial(WriteFailed if connection.ended_by == "output closed" else OutputClosed, stderr)
