"""The ways to a server: in this process, over a stream, over HTTP; each ends with its block."""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any, Final

import trio

from trio_mcp.background import background_nursery, run_all
from trio_mcp.client.client import Client
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.client.session import ClientSession, ConnectOptions
from trio_mcp.client.state import Connected
from trio_mcp.client.transport import ClientTransport, StreamTransport
from trio_mcp.errors import (
    AlreadyConnected,
    CallTimeout,
    ClientError,
    OutputClosed,
    ProtocolError,
    WriteFailed,
)
from trio_mcp.extras import check_extra
from trio_mcp.peer.connection import Connection
from trio_mcp.peer.lines import StreamLines
from trio_mcp.peer.time_limits import TimeLimit
from trio_mcp.registry import Registry
from trio_mcp.telemetry import PIPE, is_configured
from trio_mcp.transports.memory import serve_in_memory
from trio_mcp.transports.memory_connection import MemoryConnection
from trio_mcp.transports.networks import network_of
from trio_mcp.transports.process import ProcessOptions, StdioTransport, ending_of, open_process
from trio_mcp.transports.stream import claimed
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.revisions import NEWEST, Era

if TYPE_CHECKING:
    from trio_mcp.client.http.endpoint import Endpoint

Target = Sequence[str | Path] | str | Registry | trio.abc.Stream

SERVER_URL: Final = "MCP_SERVER_URL"
"""The variable of the environment that has the target where none is named."""

Ending = Callable[[], ClientError]
"""Makes the error that tells how a connection ended."""


def open_target(
    target: Target | None,
    options: ConnectOptions,
    process: ProcessOptions | None,
    http: HttpOptions | None,
) -> AbstractAsyncContextManager[Client]:
    """Make the connection to a target; `None` is what `MCP_SERVER_URL` has.

    Returns:
        What connects when it is entered, and disconnects when it is left.

    Raises:
        TypeError: The target is none.
        ValueError: The URL, or what the environment has, is none.
        ModuleNotFoundError: It is a URL, and no HTTP client is installed.
    """
    if target is None:
        target = _target_in_environment()
    check_target("connect", target)
    if isinstance(target, Registry):
        return _in_process(target, options)
    if isinstance(target, trio.abc.Stream):
        return _over_stream(_claimed(target), options)
    if isinstance(target, str) and _is_url(target):
        return _over_http(target, http or HttpOptions(), options)
    return _over_stream(open_process(target, process), options)


def check_target(name: str, target: object) -> None:
    """Check that a value can be the target of a connection.

    Raises:
        TypeError: It may not.
        ValueError: It is a URL without a host, or with a port that cannot be.
        ModuleNotFoundError: It is a URL, and no HTTP client is installed.
    """
    if isinstance(target, str) and _is_url(target):
        check_extra("httpx2", f"{name}: a URL", "http")
        from trio_mcp.client.http.endpoint import parse_url

        try:
            parse_url(target)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    elif isinstance(target, Registry | trio.abc.Stream):
        return
    elif isinstance(target, str | bytes) or not isinstance(target, Sequence):
        # A text is not shown: it may be a URL with a password, to which something else is wrong.
        given = type(target).__name__ if isinstance(target, str | bytes) else f"{target!r:.100}"
        raise TypeError(
            f"{name} needs a command as a list, a URL that begins with http:// or https://, "
            f"a Registry or a stream, not {given}"
        )


def _target_in_environment() -> str | list[str]:
    text = os.environ.get(SERVER_URL)
    if not text:
        raise TypeError(
            "connect needs a target: a command as a list, a URL, a Registry or a stream; or else "
            f"a URL or a command in the environment variable {SERVER_URL}"
        )
    return text if _is_url(text) else command_in_environment(text)


def command_in_environment(text: str) -> list[str]:
    """Return the words of a command in `MCP_SERVER_URL`, or raise `ValueError`."""
    with suppress(ValueError):  # a quotation mark that is alone
        words = shlex.split(text)
        if len(words) > 1 or (words and which(words[0]) is not None):
            return words
    # What it has may hold a secret, and is not shown.
    raise ValueError(
        f"the variable {SERVER_URL} has neither a URL, which begins with http:// or https://, nor "
        "a command, with its arguments as in a shell"
    )


def _is_url(text: str) -> bool:
    return text.lower().startswith(("http://", "https://"))


def _session(
    transport: ClientTransport, options: ConnectOptions, network: Mapping[str, Any]
) -> ClientSession:
    """Make a session: one whose requests are measured, if the application wants that."""
    if not is_configured():
        return ClientSession(transport, options)
    from trio_mcp.client.traced import TracedSession

    return TracedSession(transport, options, network)


async def _introduced(
    session: ClientSession, era: Era | None = None, limit: TimeLimit | None = None
) -> Client:
    """Negotiate, list the tools, and return the client, within the limit."""
    options = session.options
    client = Client(session)
    with (limit or TimeLimit.after(options.connect_timeout)).scope() as scope:
        listed = await _negotiated(session, client, era or options.era)
        options.agree(client, session)
        if "tools" not in client.capabilities:
            options.tools.update({})
        elif options.list_tools:
            await _load_tools(client, listed)
        # In the `_meta` of modern requests it does no harm, even if the server does not log.
        logs = client.era == "modern" or "logging" in client.capabilities
        if options.log_level is not None and logs:
            await client.set_log_level(options.log_level)
        options.states.move(Connected())
    if scope.cancelled_caught:
        what, setting = _what_took_so_long(session), "connect(connect_timeout=...)"
        raise CallTimeout(what, options.connect_timeout, session.stderr(), setting)
    return client


async def _negotiated(session: ClientSession, client: Client, era: Era | None) -> bool:
    """Negotiate, and ask a modern server for its tools meanwhile; returns if they are known."""
    if session.options.era != "modern" or not session.options.list_tools:
        await session.negotiate(era)
        return False
    is_listed = False

    async def list_tools() -> None:
        nonlocal is_listed
        for _ in range(2):  # so that `server/discover` is on its way before
            await trio.lowlevel.checkpoint()
        with suppress(McpError, ClientError):  # what is wrong, `server/discover` shows, or asking
            await client.refresh_tools(fresh=False)
            is_listed = True

    session.assume(NEWEST)
    await run_all([partial(session.negotiate, era), list_tools])
    return is_listed and session.negotiated.revision is NEWEST


async def _load_tools(client: Client, listed: bool) -> None:
    if listed:
        return
    try:
        await client.refresh_tools(fresh=False)
    except McpError as error:
        why = f"the server does not list its tools (list_tools=False does without): {error}"
        raise ProtocolError(why) from None


@asynccontextmanager
async def _in_process(registry: Registry, options: ConnectOptions) -> AsyncIterator[Client]:
    async with serve_in_memory(registry, options.limits) as lines:
        heard = options.inbound.lines.are_heard
        connection = _connection(partial(MemoryConnection, lines, shows_lines=heard), options)

        async def ending() -> Ending:
            return OutputClosed

        era = options.era or "modern"
        async with _connected(connection, options, ending, network={}, era=era) as client:
            yield client


@asynccontextmanager
async def _over_http(url: str, http: HttpOptions, options: ConnectOptions) -> AsyncIterator[Client]:
    """Speak Streamable HTTP, or HTTP+SSE with a server that refuses that."""
    from trio_mcp.client.http.endpoint import Endpoint
    from trio_mcp.client.http.transport import open_http

    async with Endpoint(url, http).opened() as endpoint:
        limit = TimeLimit.after(options.connect_timeout)
        way = open_http(endpoint, http, options.inbound, options.limits, options.methods)
        async with way as transport:
            session = _session(transport, options, endpoint.network)
            try:
                client = await _introduced(session, limit=limit)
            except ClientError as error:
                if not transport.may_be_http_sse:
                    raise
                refused = error
            else:
                yield client
                return
            finally:
                session.close(None)
        async with _over_sse(endpoint, http, options, refused, limit) as client:
            yield client


@asynccontextmanager
async def _over_sse(
    endpoint: Endpoint,
    http: HttpOptions,
    options: ConnectOptions,
    refused: ClientError,
    limit: TimeLimit,
) -> AsyncIterator[Client]:
    from trio_mcp.client.http.sse_stream import fail_unsent, open_sse

    max_bytes = options.limits.max_message_bytes
    async with open_sse(endpoint, http, max_bytes, refused, limit) as events:
        lines = StreamLines(events, max_bytes)
        connection = _connection(partial(Connection, lines), options)
        events.on_refused = partial(fail_unsent, connection.requests)
        events.pauses = [limit.paused, connection.requests.paused]

        async def ending() -> Ending:
            return events.failure

        network = endpoint.network
        way = _connected(connection, options, ending, network=network, era="legacy", limit=limit)
        async with way as client:
            yield client


@asynccontextmanager
async def _over_stream(
    opened: AbstractAsyncContextManager[trio.abc.Stream], options: ConnectOptions
) -> AsyncIterator[Client]:
    async with opened as stream:
        send_nowait = getattr(stream, "send_nowait", None)
        lines = StreamLines(stream, options.limits.max_message_bytes, send_nowait)
        make = partial(Connection, lines, send_nowait=send_nowait)
        connection = _connection(make, options)
        ending = partial(_how_it_ended, stream, connection)
        about: Any = {"network": network_of(stream)}
        if isinstance(stream, StdioTransport):
            about = {"network": PIPE, "stderr": lambda: stream.stderr_tail}
        async with _connected(connection, options, ending, **about) as client:
            yield client


@asynccontextmanager
async def _claimed(stream: trio.abc.Stream) -> AsyncIterator[trio.abc.Stream]:
    """Claim a stream for this connection, and close it with the block."""
    with ExitStack() as stack:
        try:
            stack.enter_context(claimed(stream))
        except trio.BusyResourceError as error:
            raise AlreadyConnected(str(error)) from None
        async with stream:
            yield stream


def _connection(make: Callable[..., Connection], options: ConnectOptions) -> Connection:
    """Make the connection to a server, and give its callbacks to the inbound handler."""
    inbound = options.inbound
    connection = make(
        inbound,
        options.limits,
        other_side="Server",
        on_line=inbound.lines.take,
        reads_on=True,
    )
    inbound.answered = connection.requests.respond
    inbound.paused = connection.requests.paused
    return connection


@asynccontextmanager
async def _connected(
    connection: Connection,
    options: ConnectOptions,
    ending: Callable[[], Awaitable[Ending]],
    *,
    network: Mapping[str, Any],
    stderr: Callable[[], str] = str,
    era: Era | None = None,
    limit: TimeLimit | None = None,
) -> AsyncIterator[Client]:
    """Run a connection beside the block, connect the client, and end both with the block."""
    session = _session(StreamTransport(connection), options, network)
    session.stderr = stderr

    async def run() -> None:
        try:
            await connection.run()
            ended = await ending()
        except* trio.BusyResourceError:  # in some task that is not a connection of ours
            ended = partial(AlreadyConnected, "this stream is in use by another task")
        session.close(ended)

    async with background_nursery(run):
        try:
            yield await _introduced(session, era, limit)
        finally:
            session.close(None)


def _what_took_so_long(session: ClientSession) -> str:
    if not session.inbound.lines.stray:
        return "connecting"
    stray = f"{session.inbound.lines.stray[0]!r:.80}"
    return f"connecting (the server wrote lines that are not messages, such as {stray})"


async def _how_it_ended(stream: trio.abc.Stream, connection: Connection) -> Ending:
    """Make what tells how a connection ended by itself."""
    kind = WriteFailed if connection.ended_by == "output closed" else OutputClosed
    return await ending_of(stream, kind) if isinstance(stream, StdioTransport) else kind
