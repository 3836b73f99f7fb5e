"""The client's side of a connection: its tools, and calls to them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar, overload

import trio
from attrs import define, field

from trio_mcp.client.era import Agreement, Era, Introduction, meet
from trio_mcp.client.errors import (
    CallTimeout,
    ClientError,
    InvalidArguments,
    NotConnected,
    ProtocolError,
    ToolDisabled,
    UnknownTool,
)
from trio_mcp.client.handlers import Handlers
from trio_mcp.client.links import Link, Params
from trio_mcp.client.result import CallResult, call_result
from trio_mcp.client.state import ClientState, StateLog
from trio_mcp.peer.asking import ConnectionEnded, DeadlinePassed
from trio_mcp.schema import SchemaError, Validate, compile_validator
from trio_mcp.transports.observe import Broadcast
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.jsonrpc import Json, Notification
from trio_mcp.wire.payloads import Implementation

logger = logging.getLogger("trio_mcp.client")

T = TypeVar("T")
Progress = Callable[[float, float | None, str | None], None]
"""Called with the progress so far, the total if it is known, and a message if there is one."""

_MOST_PAGES: Final = 1000
_MOST_ROUNDS: Final = 10
_MOST_NOISE: Final = 100
_MOST_NOISE_BYTES: Final = 1024


@define
class RemoteTool:
    """A tool of the server."""

    name: str
    description: str | None
    input_schema: dict[str, Json]
    timeout: float = 5.0
    """Seconds that `Client.call_tool` waits for it. May be changed."""
    enabled: bool = True
    """Whether `Client.call_tool` may call it. May be changed."""
    details: dict[str, Json] = field(factory=dict, repr=False)
    """The tool just as the server describes it."""
    _validate: Validate | None = field(default=None, init=False, repr=False, eq=False)

    def problem_with(self, arguments: dict[str, Json]) -> str | None:
        """Say what is wrong with arguments, by the tool's schema; `None` if nothing is."""
        if self._validate is None:
            try:
                self._validate = compile_validator(self.input_schema)
            except SchemaError as error:  # the server knows its own schema better than we do
                logger.warning("Tool %s: arguments are not checked here: %s", self.name, error)
                self._validate = _accept
        return self._validate(arguments)


def _accept(_: Json) -> None:
    return None


def _block_was_left() -> ClientError:
    return NotConnected("the block of connect() was left, and the connection ended with it")


class Client:
    """A connection to a server. Made by `connect`, and of use only within its block."""

    def __init__(
        self,
        link: Link,
        introduction: Introduction,
        handlers: Handlers,
        *,
        tool_timeout: float,
        request_timeout: float,
    ) -> None:
        self._link = link
        self._introduction = introduction
        self._handlers = handlers
        self._tool_timeout = tool_timeout
        self._request_timeout = request_timeout
        self._agreement: Agreement | None = None
        self._meta: dict[str, Json] | None = None
        self._tools: dict[str, RemoteTool] = {}
        self._progress: dict[Json, Progress] = {}
        self._next_token = 0
        self._states = StateLog()
        self._messages: Broadcast[bytes] = Broadcast()
        self._over = trio.Event()  # the connection has ended, and it is known how
        self._failure: Callable[[], ClientError] = _block_was_left
        self.stderr: Callable[[], str] = str
        """Gives the end of what the server wrote to stderr, as far as that is known."""
        self.noise: Final[list[bytes]] = []
        """Lines that the server wrote although they are no messages: the first hundred, and of
        each the first KiB."""

    # -- who is there ---------------------------------------------------------------------

    @property
    def tools(self) -> Mapping[str, RemoteTool]:
        """The server's tools by name, in its order."""
        return MappingProxyType(self._tools)

    @property
    def era(self) -> Era:
        """Whether the server is spoken to in a modern or a legacy revision."""
        return self._agreed.era

    @property
    def revision(self) -> str:
        """The protocol revision that is spoken."""
        return self._agreed.revision.name

    @property
    def server_info(self) -> Implementation | None:
        """Who the server says it is."""
        return self._agreed.server_info

    @property
    def capabilities(self) -> Mapping[str, Json]:
        """What the server offers, as it declared it."""
        return MappingProxyType(self._agreed.capabilities)

    @property
    def instructions(self) -> str | None:
        """How the server is meant to be used."""
        return self._agreed.instructions

    @property
    def state(self) -> ClientState:
        """The state of the connection: `Connecting`, `Connected` or `Disconnected`."""
        return self._states.current

    def states(self) -> AsyncIterator[ClientState]:
        """Iterate over the states, from the present one to `Disconnected`, which comes once."""
        return self._states.listen()

    def messages(self) -> AsyncIterator[bytes]:
        """Iterate over the raw lines that come from a server on a stream, from now on.

        A listener that is slow misses the oldest lines.
        """
        return self._messages.listen()

    @property
    def _agreed(self) -> Agreement:
        if self._agreement is None:
            raise NotConnected("the client is not connected yet")
        return self._agreement

    # -- requests -------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: Params | None = None,
        *,
        timeout: float | None = None,
        on_progress: Progress | None = None,
    ) -> dict[str, Json]:
        """Send any request and return its result, answering what the server asks meanwhile.

        Args:
            method: The method.
            params: Its parameters; `_meta` is completed as the revision wants it.
            timeout: Seconds to wait, in place of the connection's default.
            on_progress: Told of the request's progress.

        Raises:
            McpError: The server answered with an error.
            CallTimeout: It did not answer in time. It has been told to stop.
            ProtocolError: Its answer is not MCP.
            NotConnected: The connection ended (a subclass tells how).
            Exception: Whatever a handler raises that a modern server's question went to.

        Cancelled, the server is told to stop, and a late answer is ignored.
        """
        seconds = self._request_timeout if timeout is None else timeout
        params = params or {}
        deadline = trio.current_time() + seconds
        try:
            for _ in range(_MOST_ROUNDS):
                result = await self._ask(method, params, on_progress, deadline)
                kind = result.get("resultType", "complete")
                if kind == "complete":
                    return result
                if kind != "input_required":
                    raise ProtocolError(f"{method}: the server answered with a {kind!r} result")
                with trio.CancelScope(deadline=deadline) as scope:
                    params = {**params, **await self._fulfil(result)}
                if scope.cancelled_caught:
                    raise DeadlinePassed
        except DeadlinePassed:
            what = f"tool {params.get('name')!r}" if method == "tools/call" else method
            raise CallTimeout(what, seconds, self.stderr()) from None
        raise ProtocolError(f"{method}: the server asked for input {_MOST_ROUNDS} times in a row")

    async def _ask(
        self, method: str, params: Params, on_progress: Progress | None, deadline: float
    ) -> dict[str, Json]:
        if self._over.is_set():
            raise self._failure()
        meta = self._meta
        if on_progress is not None or "_meta" in params:
            meta = {**(meta or {}), **params.get("_meta", {})}
        token = None
        if on_progress is not None and meta is not None:
            token = meta["progressToken"] = self._next_token
            self._next_token += 1
            self._progress[token] = on_progress
        if meta is not None:
            params = {**params, "_meta": meta}
        try:
            result = await self._link.request(method, params, deadline)
        except ConnectionEnded:
            await self._over.wait()
            raise self._failure() from None
        finally:
            if token is not None:
                del self._progress[token]
        if not isinstance(result, dict):
            raise ProtocolError(f"{method}: the server's result is no object")
        return result

    async def _fulfil(self, result: dict[str, Json]) -> Params:
        """Answer the questions in an `input_required` result, side by side."""
        asked = result.get("inputRequests") or {}
        if not isinstance(asked, dict):
            raise ProtocolError("inputRequests must be an object")
        answers: dict[str, Json] = {}
        failures: list[Exception] = []

        async def answer(key: str, question: Json) -> None:
            try:
                answers[key] = await self._answer(question)
            except Exception as error:  # raised below, outside of any exception group
                failures.append(error)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for key, question in asked.items():
                nursery.start_soon(answer, key, question)
        if failures:
            raise failures[0]
        extra: Params = {"inputResponses": answers} if asked else {}
        if "requestState" in result:
            extra["requestState"] = result["requestState"]
        return extra

    async def _answer(self, question: Json) -> dict[str, Json]:
        match question:
            case {"method": str(method)}:
                return await self._handlers.answer(method, question.get("params") or {})
        raise ProtocolError("a question in inputRequests has no method")

    # -- tools ----------------------------------------------------------------------------

    async def refresh_tools(self) -> None:
        """Ask for the tools again. Those that stay keep their `timeout` and `enabled`.

        Raises:
            ClientError: As for `request`.
        """
        found: dict[str, RemoteTool] = {}
        for wire in await self._list("tools/list", "tools"):
            match wire:
                case {"name": str(name), "inputSchema": dict(schema)}:
                    known = self._tools.get(name)
                    found[name] = RemoteTool(
                        name,
                        wire.get("description"),
                        schema,
                        timeout=known.timeout if known else self._tool_timeout,
                        enabled=known.enabled if known else True,
                        details=wire,
                    )
                case _:
                    raise ProtocolError("tools/list: a tool has no name or no inputSchema")
        self._tools = found

    async def _list(self, method: str, key: str) -> list[Json]:
        """Follow a paginated list to its end."""
        items: list[Json] = []
        cursor = None
        for _ in range(_MOST_PAGES):
            page = await self.request(method, {} if cursor is None else {"cursor": cursor})
            found = page.get(key)
            if not isinstance(found, list):
                raise ProtocolError(f"{method}: the result has no {key}")
            items += found
            following = page.get("nextCursor")
            if following is None:
                return items
            if following == cursor:
                break
            cursor = following
        raise ProtocolError(f"{method}: the list has no end")

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        timeout: float | None = None,
        on_progress: Progress | None = None,
    ) -> CallResult: ...

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        returns: type[T],
        timeout: float | None = None,
        on_progress: Progress | None = None,
    ) -> T: ...

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        returns: Any = None,
        timeout: float | None = None,
        on_progress: Progress | None = None,
    ) -> Any:
        """Call a tool and wait for its result.

        Args:
            name: The tool's name.
            arguments: Its arguments, as JSON; checked against the tool's schema before they are
                sent.
            returns: A type to convert the result into.
            timeout: Seconds to wait, in place of `RemoteTool.timeout`.
            on_progress: Told of the call's progress.

        Returns:
            A `CallResult`; with `returns`, a value of that type.

        Raises:
            UnknownTool: The server has no such tool.
            ToolDisabled: The tool is disabled on this side.
            InvalidArguments: The arguments do not fit the tool's schema.
            CallTimeout: The server did not answer in time. It has been told to stop.
            McpError: The server answered with an error.
            ToolFailed: With `returns` only: the tool failed.
            ProtocolError: The result is not MCP, or does not fit `returns`.
            NotConnected: The connection ended (a subclass tells how).

        Cancelled, the server is told to stop, and a late answer is ignored.

        Example:
            >>> async def total(client: Client) -> float:
            ...     return await client.call_tool("add", {"a": 1, "b": 2}, returns=float)
        """
        tool = self._tools.get(name)
        if tool is None:
            raise UnknownTool(f"the server has no tool {name!r}; it has: {', '.join(self._tools)}")
        if not tool.enabled:
            raise ToolDisabled(f"tool {name!r} is disabled")
        given = dict(arguments or {})
        problem = tool.problem_with(given)
        if problem is not None:
            raise InvalidArguments(f"tool {name!r}: {problem}")
        started = trio.current_time()
        wire = await self.request(
            "tools/call",
            {"name": name, "arguments": given},
            timeout=tool.timeout if timeout is None else timeout,
            on_progress=on_progress,
        )
        try:
            result = call_result(wire, trio.current_time() - started)
        except ValueError as error:
            raise ProtocolError(f"the result of tool {name!r} is not MCP: {error}") from None
        return result if returns is None else result.value(returns)

    async def ping(self, *, timeout: float | None = None) -> None:
        """Ask a legacy server whether it is there; a modern one is asked to introduce itself.

        Raises:
            ClientError: As for `request`.
        """
        method = "ping" if self.era == "legacy" else "server/discover"
        await self.request(method, timeout=timeout)

    # -- what connect does ----------------------------------------------------------------

    async def introduce(self, era: Era | None) -> None:
        """Shake hands and learn the tools. Called by `connect`."""
        try:
            self._agreement = await meet(self._link, self._introduction, era)
            if self._agreement.revision.modern:
                self._meta = self._introduction.meta(self._agreement.revision)
            if "tools" in self._agreement.capabilities:
                await self.refresh_tools()
        except ConnectionEnded:
            await self._over.wait()
            raise self._failure() from None
        except McpError as error:
            raise ProtocolError(f"the server does not list its tools: {error}") from None
        self._states.connected()

    def disconnected(self, failure: Callable[[], ClientError] | None) -> None:
        """The connection ended, by itself (then `failure` tells how) or by leaving the block."""
        if self._over.is_set():
            return
        if failure is not None:
            self._failure = failure
        self._states.disconnected(None if failure is None else failure())
        self._messages.end()
        self._over.set()

    def on_notification(self, notification: Notification) -> None:
        """Take note of what the server tells."""
        params = notification.params
        if notification.method == "notifications/progress":
            token = params.get("progressToken")
            callback = self._progress.get(token) if isinstance(token, str | int) else None
            progress = params.get("progress")
            if callback is not None and isinstance(progress, int | float):
                try:
                    callback(progress, params.get("total"), params.get("message"))
                except Exception:  # its mistake must not end the connection
                    logger.exception("The progress callback failed")

    def on_noise(self, line: bytes) -> None:
        """Report a line that is no message, and keep its beginning; of a flood, only the first."""
        if len(self.noise) < _MOST_NOISE:
            self.noise.append(line[:_MOST_NOISE_BYTES])
            logger.warning("The server wrote a line that is no message (%d bytes)", len(line))

    def on_line(self, line: bytes) -> None:
        """Show a raw line to those who listen."""
        if self._messages.wanted:
            self._messages.announce(line)
