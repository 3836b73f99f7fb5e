"""Connecting: `async with connect(target) as client`, and nothing else begins or ends it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import evolve

from trio_mcp.client.cache import ConnectionCache, ResponseCache
from trio_mcp.client.client import Client
from trio_mcp.client.handlers import Handlers, checked_handlers
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.client.negotiation import ClientIdentity, era_of
from trio_mcp.client.notifications import LogCallback, Notifications, RawLines
from trio_mcp.client.opening import Target, open_target
from trio_mcp.client.session import ConnectOptions
from trio_mcp.client.state import ClientState, Connecting, Disconnected, StateLog
from trio_mcp.client.tools import ToolNames, ToolTable
from trio_mcp.client.transport import InboundHandler
from trio_mcp.errors import AlreadyConnected, ClientError
from trio_mcp.public import public
from trio_mcp.registry import Registry
from trio_mcp.registry.describing import advising
from trio_mcp.registry.entrances import check_trio
from trio_mcp.transports.process import ProcessOptions
from trio_mcp.version import __version__
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.limits import SERVER_BOUNDS, Limits
from trio_mcp.wire.payloads import Implementation, LoggingLevel
from trio_mcp.wire.revisions import Era

if TYPE_CHECKING:  # few clients have extensions
    from trio_mcp.client.extension import ClientExtension
    from trio_mcp.registry.middleware import Middleware

_SHUTDOWN_TIMEOUT: Final = 1.0
_REFUSALS: Final = (ClientError, McpError)
_CLIENT: Final = Implementation("trio-mcp", __version__)


def not_entered(connection: object, name: str) -> AttributeError:
    """Make the error for what a connection does not have, though the client of its block may."""
    text = f"{type(connection).__name__!r} object has no attribute {name!r}"
    if hasattr(Client, name):
        text += "; the client has it: async with connect(…) as client"
    return AttributeError(text, name=name, obj=connection)


@public
class ClientConnection(AbstractAsyncContextManager[Client, None]):
    """A connection that lasts as long as its block. Made by `connect`.

    Call `states` and `messages` before you enter the block to see all of them.

    Example:
        >>> async def watch(connection: ClientConnection) -> None:
        ...     states = connection.states()
        ...     async with trio.open_nursery() as nursery, connection as client:
        ...         nursery.start_soon(print_all, states)
    """

    def __init__(
        self, way: AbstractAsyncContextManager[Client], states: StateLog, lines: RawLines
    ) -> None:
        self._way = way
        self._states = states
        self._lines = lines

    if not TYPE_CHECKING:  # where any name would do then

        def __getattr__(self, name: str) -> Any:
            raise not_entered(self, name)

    def states(self) -> AsyncIterator[ClientState]:
        """Iterate over the states of the connection, from now on.

        If you start before the block, these are `Connecting`, `Connected` if it gets that far, and
        `Disconnected`, which is received exactly once and ends the iteration.
        """
        return self._states.listen()

    def messages(self) -> AsyncIterator[bytes]:
        """Iterate over the raw messages of the server, from now on.

        A slow listener misses the oldest ones: a thousand are kept, and together they are no
        longer than one message may be.
        """
        return self._lines.listen()

    async def __aenter__(self) -> Client:
        """Connect, and return the client: handshake done, tools known."""
        check_trio("connect")
        if self._states.current is not None:
            raise AlreadyConnected("this connection was entered before; call connect() again")
        self._states.move(Connecting())
        try:
            return await self._way.__aenter__()
        except BaseException as error:
            self._end(error if isinstance(error, Exception) else None)
            raise

    async def __aexit__(self, *raised: Any) -> None:
        """Disconnect."""
        try:
            await self._way.__aexit__(*raised)
        finally:
            self._end(None)

    def _end(self, error: Exception | None) -> None:
        self._states.move(Disconnected(error))
        self._lines.end()


@public
@advising("connect option")
def connect(
    target: Target | None = None,
    *,
    era: Era | None = None,
    revision: str | None = None,
    handlers: Handlers | None = None,
    client_info: Implementation = _CLIENT,
    process_options: ProcessOptions | None = None,
    http: HttpOptions | None = None,
    connect_timeout: float = 30.0,
    tool_timeout: float | None = 5.0,
    tool_names: ToolNames | None = None,
    list_tools: bool = True,
    request_timeout: float = 30.0,
    max_timeout: float = 120.0,
    limits: Limits | None = None,
    on_log: LogCallback | None = None,
    log_level: LoggingLevel | None = None,
    send_shutdown: bool = False,
    cache: ResponseCache | None = None,
    extensions: Sequence[ClientExtension] = (),
    middleware: Sequence[Middleware] = (),
) -> ClientConnection:
    """Connect to a server for as long as the block lasts.

    Args:
        target: A command to run, as a list; the URL of a server, with `http://` or `https://`; a
            `Registry` in this process; or a Trio stream to a server that is already running. If
            you give none, the URL or the command in the environment variable `MCP_SERVER_URL`.
        era: Speak a `modern` or a `legacy` revision, instead of detecting what the server speaks.
        revision: Speak this revision and no other, such as `2024-11-05`.
        handlers: Answers to what the server asks.
        client_info: How the client introduces itself.
        process_options: How a command is run and ended.
        http: How a URL is reached: headers, proxy, TLS, bounds.
        connect_timeout: Seconds for start, handshake and the list of tools. Neither this nor any
            other time-out counts the time that a person takes to log in (`OAuth.timeout`).
        tool_timeout: Seconds that a tool call waits, unless the tool or the call says otherwise.
            Progress begins them again, and while the server waits for an answer to a question they
            stand still. `None` leaves it to the server.
        tool_names: Local names of tools, each with the server's name for it
            (`RemoteTool.mcp_name`): `{"sum": "add"}` for `call_tool("sum", …)`. Or a function that
            makes the local name of each from the server's.
        list_tools: Whether to ask the server for its tools. If not, `Client.tools` is empty until
            you call `Client.refresh_tools`, and only the server checks calls.
        request_timeout: Seconds that other requests wait.
        max_timeout: Seconds that calls and other requests wait at most where something prolongs
            those times: a longer limit that the server publishes for its tool (`_meta`,
            `trio-mcp/timeout`), or progress, which restarts them, and which calls, reading and
            prompts therefore always ask for. 0 has nothing prolong them, and nothing prolongs the
            `timeout` of a call.
        limits: The bounds of the connection, and the time that your handlers have for a question
            of the server (`question_timeout`); the clock of the request that it belongs to stops
            meanwhile. The bounds of a server are only for a registry in this process.
        on_log: Called with each log message that the server sends.
        log_level: The least severe level of log messages to ask for. Without it, a modern server
            sends none, and a legacy one what it likes.
        send_shutdown: Whether to send the request `shutdown` before the connection is closed,
            unless the block is cancelled. The server has a second to answer. This is not part of
            MCP, but some servers expect it.
        cache: Keeps lists and resources for as long as the server says; by default, one of the
            connection's own.
        extensions: Extensions of the protocol that the client has.
        middleware: Async functions that run around every request, those of the handshake included,
            the first one outermost: each gets an `McpRequest` and `call_next`, and returns the
            members of a result. What a server asks meanwhile is answered inside of `call_next`.

    Returns:
        A context manager that yields the `Client`, once the handshake is done and the tools are
        known.

    Raises:
        AlreadyConnected: Another connection, which is not disturbed, uses the stream; or you
            entered the returned context manager for a second time.
        CannotStart: The command does not exist, or cannot be executed.
        CannotReach: There is no server at the URL.
        HttpError: The server refuses (`Unauthorized`, `RateLimited` and so on).
        ServerExited: It exited before the handshake was done.
        OutputClosed: It closed its output before the handshake was done.
        CallTimeout: It did not answer in time.
        ProtocolError: It does not speak MCP, or none of the revisions that you allow.
        TypeError: The target is none of those, or there is none.
        ValueError: The URL is invalid, there is no such revision, a tool has two of the
            `tool_names`, extensions clash, `limits` sets a bound that only a server has, or
            HTTP+SSE needs more connections than `HttpOptions.max_connections`.
        RuntimeError: For a URL, the package `httpx2` is needed (`trio-mcp[http]`).

    If cancelled at any point, it leaves nothing behind: the process and its children end within
    the time that `ProcessOptions` allows.

    Over HTTP there is no connection that could end before the block does: each request reaches
    the server or fails on its own, with `CannotReach` or `ConnectionLost`. If a connection breaks,
    only requests that can do no harm twice are repeated, once: the handshake, lists,
    `resources/read`, `prompts/get`, `completion/complete`, and calls of tools whose annotations
    have `readOnlyHint` or `idempotentHint`. If the server has ended a legacy session, the client
    begins a new one, with its log level and subscriptions. A server that only knows HTTP+SSE, the
    transport of revision 2024-11-05, is the exception: its connection is a stream of events, and
    ends with it (`ConnectionLost`).

    Example:
        >>> async def total() -> float:
        ...     async with connect(["python", "calculator.py"]) as client:
        ...         return await client.call_tool("add", {"a": 1, "b": 2}, returns=float)
    """
    handlers = checked_handlers(handlers)
    era, required_revision = era_of(revision, era)
    identity = ClientIdentity(
        info=client_info, capabilities=handlers.capabilities, required_revision=required_revision
    )
    added: Any = None
    of_extensions: Any = {}
    if extensions:
        from trio_mcp.client.extension import ClientExtensions

        added = ClientExtensions(extensions)
        identity = evolve(identity, extensions=added.by_era, one_sided=added.one_sided)
        of_extensions = {"methods": added.methods, "agree": added.agree}
    if middleware:
        from trio_mcp.registry.middleware import middleware_of, opened_around

        middleware = middleware_of(middleware)
    limits = limits or Limits()
    check_limits("connect", target, limits)
    seconds = inf if tool_timeout is None else tool_timeout
    states = StateLog()
    lines = RawLines(limits.max_message_bytes)
    notifications = Notifications(
        on_log, ConnectionCache(cache or ResponseCache()), handlers.elicitation_complete
    )
    options = ConnectOptions(
        identity=identity,
        states=states,
        inbound=InboundHandler(handlers, limits.question_timeout, notifications, lines),
        era=era,
        connect_timeout=connect_timeout,
        tools=ToolTable(seconds, max_timeout, tool_names or {}),
        list_tools=list_tools,
        request_timeout=request_timeout,
        max_timeout=max_timeout,
        limits=limits,
        log_level=log_level,
        middleware=middleware,
        **of_extensions,
    )
    way = open_target(target, options, process_options, http)
    if added is not None:
        way = added.running(way)
    if middleware:
        way = opened_around(middleware, way)
    return ClientConnection(_shut_down_after(way) if send_shutdown else way, states, lines)


@asynccontextmanager
async def _shut_down_after(way: AbstractAsyncContextManager[Client]) -> AsyncIterator[Client]:
    """Ask the server to end before the connection is closed."""
    async with way as client:
        try:
            yield client
        finally:
            # Not shielded: where the block is cancelled, so is what would carry the request.
            with trio.move_on_after(_SHUTDOWN_TIMEOUT), suppress(*_REFUSALS):
                await client.request("shutdown")


def check_limits(
    what: str, target: object, limits: Limits, tool_timeout: str = "tool_timeout"
) -> None:
    """Refuse limits that a server elsewhere would not know of.

    Raises:
        ValueError: They set a bound that only a server has.
    """
    if isinstance(target, Registry):
        return
    usual = Limits()
    for name in SERVER_BOUNDS:
        if getattr(limits, name) != getattr(usual, name):
            instead = f"; see {what}({tool_timeout}=...)" if name == "tool_timeout" else ""
            raise ValueError(f"Limits.{name} is for who serves, not for {what}(){instead}")
