"""Requests to a server, whatever they are about, and what comes back while they are open."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import trio

from trio_mcp.client.changes import Subscriptions
from trio_mcp.client.handlers import Handlers
from trio_mcp.client.negotiation import ClientIdentity, Era, Negotiated, negotiate
from trio_mcp.client.state import ClientState, StateLog
from trio_mcp.client.transport import ClientTransport, Params
from trio_mcp.errors import (
    CallTimeout,
    ClientError,
    NotConnected,
    ProtocolError,
    ResponseTooLarge,
)
from trio_mcp.peer.outbound import ConnectionEnded, DeadlinePassed
from trio_mcp.transports.observe import Broadcast
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.jsonrpc import Id, Json, Notification, encode
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.payloads import LOGGING_LEVELS, Implementation, LoggingLevel
from trio_mcp.wire.revisions import META_LOG_LEVEL

logger = logging.getLogger("trio_mcp.client")

Progress = Callable[[float, float | None, str | None], None]
"""Called with the progress so far, the total if it is known, and a message if there is one."""

Log = Callable[[LoggingLevel, Json, str | None], None]
"""Called with the level, the message, which is any JSON, and the logger if it is named."""

_MOST_PAGES: Final = 1000
_MOST_ROUNDS: Final = 10
_MOST_NOISE: Final = 100
_MOST_NOISE_BYTES: Final = 1024


def _block_was_left() -> ClientError:
    return NotConnected("the block of connect() was left, and the connection ended with it")


class ClientSession:
    """A connection to a server, as far as it does not matter what is asked of it."""

    def __init__(
        self,
        transport: ClientTransport,
        identity: ClientIdentity,
        handlers: Handlers,
        *,
        request_timeout: float,
        limits: Limits,
        on_log: Log | None = None,
    ) -> None:
        self._transport = transport
        self._identity = identity
        self._handlers = handlers
        self._question_timeout = limits.question_timeout
        self._most_bytes = limits.max_message_bytes
        self._on_log = on_log
        self._negotiated: Negotiated | None = None
        self._meta: dict[str, Json] | None = None
        self._progress: dict[Json, Progress] = {}
        self._next_token = 0
        self._states = StateLog()
        self._messages: Broadcast[bytes] = Broadcast(kept_bytes=self._most_bytes)
        self._failure: Callable[[], ClientError] = _block_was_left
        self.request_timeout: Final = request_timeout
        """Seconds that a request waits, unless the call says otherwise."""
        self.subscriptions: Final = Subscriptions()
        """Those that are open; see `Client.subscribe`."""
        self.over: Final = trio.Event()
        """Set when the connection has ended, and it is known how."""
        self.stderr: Callable[[], str] = str
        """Gives the end of what the server wrote to stderr, as far as that is known."""
        self.noise: Final[list[bytes]] = []
        """Lines that the server wrote although they are no messages: the first hundred, and of
        each the first KiB."""

    # -- who is there ---------------------------------------------------------------------

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

        A listener that is slow misses the oldest lines: a thousand are kept, as long together as
        one may be.
        """
        return self._messages.listen()

    @property
    def _agreed(self) -> Negotiated:
        if self._negotiated is None:
            raise NotConnected("the client is not connected yet")
        return self._negotiated

    # -- requests -------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: Params | None = None,
        *,
        timeout: float | None = None,
        on_progress: Progress | None = None,
        id: Id | None = None,
    ) -> dict[str, Json]:
        """Send any request and return its result, answering what the server asks meanwhile.

        Args:
            method: The method.
            params: Its parameters; `_meta` is completed as the revision wants it.
            timeout: Seconds to wait, in place of the connection's default.
            on_progress: Told of the request's progress.
            id: Its id, from `next_id`, if that has to be known beforehand.

        Raises:
            McpError: The server answered with an error.
            CallTimeout: It did not answer in time. It has been told to stop.
            ProtocolError: Its answer is not MCP.
            NotConnected: The connection ended (a subclass tells how).
            Exception: Whatever a handler raises that a modern server's question went to.

        Cancelled, the server is told to stop, and a late answer is ignored.
        """
        seconds = self.request_timeout if timeout is None else timeout
        params = params or {}
        deadline = trio.current_time() + seconds
        try:
            for _ in range(_MOST_ROUNDS):
                result = await self._ask(method, params, on_progress, deadline, id)
                kind = result.get("resultType", "complete")
                if kind == "complete":
                    return result
                if kind != "input_required":
                    raise ProtocolError(f"{method}: the server answered with a {kind!r} result")
                asked = trio.current_time()
                with trio.move_on_after(self._question_timeout) as scope:
                    answers = await self._input_responses(result)
                if scope.cancelled_caught:
                    what = f"the answer to a question of the server ({method})"
                    raise CallTimeout(what, self._question_timeout, self.stderr())
                params = {key: params[key] for key in params if key != "requestState"} | answers
                deadline += trio.current_time() - asked  # a person's time to think is not ours
                id = None
        except DeadlinePassed:
            what = f"tool {params.get('name')!r}" if method == "tools/call" else method
            raise CallTimeout(what, seconds, self.stderr()) from None
        raise ProtocolError(f"{method}: the server asked for input {_MOST_ROUNDS} times in a row")

    def next_id(self) -> Id:
        """Reserve the id of a request."""
        return self._transport.next_id()

    def failure(self) -> ClientError:
        """Tell how the connection ended."""
        return self._failure()

    async def _ask(
        self,
        method: str,
        params: Params,
        on_progress: Progress | None,
        deadline: float,
        id: Id | None,
    ) -> dict[str, Json]:
        if self.over.is_set():
            raise self.failure()
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
            result = await self._transport.request(method, params, deadline, id)
        except ConnectionEnded:
            await self.over.wait()
            raise self.failure() from None
        finally:
            if token is not None:
                del self._progress[token]
        if not isinstance(result, dict):
            raise ProtocolError(f"{method}: the server's result is no object")
        return result

    async def _input_responses(self, result: dict[str, Json]) -> Params:
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

    async def list(self, method: str, key: str) -> list[Json]:
        """Ask for all pages of a list.

        Args:
            method: The method that lists.
            key: Where the items are in its result.

        Raises:
            ResponseTooLarge: All pages together are longer than a message may be.
            ClientError: As for `request`.
        """
        items: list[Json] = []
        room = self._most_bytes
        cursor = None
        for _ in range(_MOST_PAGES):
            page = await self.request(method, {} if cursor is None else {"cursor": cursor})
            found = page.get(key)
            if not isinstance(found, list):
                raise ProtocolError(f"{method}: the result has no {key}")
            room -= len(encode(found))
            if room < 0:
                why = f"{method}: all pages together have more than {self._most_bytes} bytes"
                raise ResponseTooLarge(why)
            items += found
            following = page.get("nextCursor")
            if following is None:
                return items
            if following == cursor:
                break
            cursor = following
        raise ProtocolError(f"{method}: the list has no end")

    # -- what connect does ----------------------------------------------------------------

    async def introduce(self, era: Era | None) -> None:
        """Shake hands and learn the tools. Called by `connect`."""
        try:
            self._negotiated = await negotiate(self._transport, self._identity, era)
            if self._negotiated.revision.modern:
                self._meta = self._identity.meta(self._negotiated.revision)
            await self.load_tools()
        except ConnectionEnded:
            await self.over.wait()
            raise self.failure() from None
        except McpError as error:
            raise ProtocolError(f"the server does not list its tools: {error}") from None
        self._states.connected()

    async def load_tools(self) -> None:
        """Learn what has to be known before the connection is of use."""

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Ask for log messages of this level and above; they go to `on_log` of `connect`.

        A modern server is told with each request from now on, a legacy one at once.

        Raises:
            ValueError: There is no such level.
            ClientError: As for `request`.
        """
        if level not in LOGGING_LEVELS:
            raise ValueError(f"no log level {level!r}; there are: {', '.join(LOGGING_LEVELS)}")
        if self._meta is None:
            await self.request("logging/setLevel", {"level": level})
        else:
            self._meta = {**self._meta, META_LOG_LEVEL: level}

    def disconnected(self, failure: Callable[[], ClientError] | None) -> None:
        """The connection ended, by itself (then `failure` tells how) or by leaving the block."""
        if self.over.is_set():
            return
        if failure is not None:
            self._failure = failure
        self._states.disconnected(None if failure is None else failure())
        self._messages.end()
        self.over.set()

    def on_notification(self, notification: Notification) -> None:
        """Take note of what the server tells."""
        take = _NOTIFICATIONS.get(notification.method)
        if take is None:
            self.subscriptions.take(notification)
            return
        try:
            take(self, notification.params)
        except Exception:  # a callback's mistake must not end the connection
            logger.exception("The callback for %s failed", notification.method)

    def _on_progress(self, params: Params) -> None:
        token = params.get("progressToken")
        callback = self._progress.get(token) if isinstance(token, str | int) else None
        progress = params.get("progress")
        if callback is not None and isinstance(progress, int | float):
            callback(progress, params.get("total"), params.get("message"))

    def _on_message(self, params: Params) -> None:
        level: Any = params.get("level")
        if self._on_log is not None and level in LOGGING_LEVELS:
            self._on_log(level, params.get("data"), params.get("logger"))

    def on_noise(self, line: bytes) -> None:
        """Report a line that is no message, and keep its beginning; of a flood, only the first."""
        if len(self.noise) < _MOST_NOISE:
            self.noise.append(line[:_MOST_NOISE_BYTES])
            told = "The server wrote a line that is no message (%d bytes)"
            logger.warning(told, len(line), extra={"noise": self.noise[-1]})

    def on_line(self, line: bytes) -> None:
        """Show a raw line to those who listen."""
        if self._messages.wanted:
            self._messages.announce(line)


_NOTIFICATIONS: Final[dict[str, Callable[[ClientSession, Params], None]]] = {
    "notifications/progress": ClientSession._on_progress,
    "notifications/message": ClientSession._on_message,
}
