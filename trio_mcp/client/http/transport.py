"""A client's requests over Streamable HTTP, each in a POST of its own.

A request runs in the task that sends it: it posts the message and reads the reply, a JSON body or
a stream of events, until its response is there. What else the stream brings (notifications and, in
legacy revisions, requests of the server) goes to the client's inbound handler. So a request that is
cancelled, or whose deadline passes, closes its own stream and nothing else; to a modern server that
is the cancellation, a legacy one gets a notification besides.

What belongs to no request runs in the connection's nursery: answers to questions, notifications,
and a legacy server's stream of messages of its own. A legacy stream that breaks off is resumed; a
modern one cannot be. A legacy session that the server has ended is replaced.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar, Final

import trio
from attrs import define, field

from trio_mcp.background import background_nursery
from trio_mcp.client.http.endpoint import Endpoint, Reply
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.client.http.refusals import refusal, rpc_error
from trio_mcp.client.http.server_requests import ServerRequests
from trio_mcp.client.http.streams import (
    EVENTS,
    Cursor,
    Headers,
    PendingRequest,
    Session,
    session_id,
)
from trio_mcp.client.http.tools import KnownTools
from trio_mcp.client.transport import InboundHandler, Params
from trio_mcp.errors import (
    CannotReach,
    ClientError,
    ConnectionLost,
    HttpError,
    ProtocolError,
    SessionExpired,
)
from trio_mcp.loggers import logger_of
from trio_mcp.peer.cancellation import reason_of
from trio_mcp.peer.lines import decoded
from trio_mcp.peer.outbound import ConnectionEnded, notification_line
from trio_mcp.peer.requests import OpenRequests, encoded, is_large_request
from trio_mcp.peer.time_limits import TimeLimit, pausable
from trio_mcp.telemetry import carrier_of, meta_of
from trio_mcp.threads import offload
from trio_mcp.wire import codec
from trio_mcp.wire.bucket import TokenBucket
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.headers import (
    METHOD_HEADER,
    NAME_HEADER,
    SESSION_HEADER,
    VERSION_HEADER,
    encode_value,
)
from trio_mcp.wire.jsonrpc import (
    Batch,
    Id,
    Json,
    Malformed,
    Notification,
    Request,
    Response,
    Single,
)
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.methods import CALL_TOOL, Method
from trio_mcp.wire.revisions import LEGACY, META_VERSION
from trio_mcp.wire.sse import EventParser
from trio_mcp.wire.weight import is_heavier

logger = logger_of("trio_mcp.client")

_JSON: Final = "application/json"
_POST_HEADERS: Final[dict[str, str | bytes]] = {
    "Accept": f"{_JSON}, {EVENTS}",
    "Content-Type": _JSON,
}
_AT_ONCE: Final = 500
"""So many events are dealt with before others get their turn."""
_CLOSE_TIMEOUT: Final = 2.0
"""Seconds that the end of a session may take."""
_POST_TIMEOUT: Final = 30.0
"""Seconds that a message without an answer may take."""
_LINGER: Final = 1.0
"""Seconds that a stream may stay open after the answer."""
_REFUSED_BY_HTTP_SSE: Final = (400, 404, 405)
"""How a server of HTTP+SSE refuses `initialize` (2025-11-25, "Backwards Compatibility")."""
_MOST_RETURNS: Final = 10.0
"""How often in a second a stream is resumed, in the long run, whatever the server says."""
_NOT_OFFERED: Final = 405
"""How a server says that it has no messages of its own."""


@define(eq=False)
class HttpTransport:
    """Requests to a server over HTTP (a `ClientTransport`). Made by `open_http`."""

    endpoint: Endpoint
    inbound: InboundHandler
    options: HttpOptions
    limits: Limits
    nursery: trio.Nursery
    _tools: KnownTools
    always_responds: ClassVar[bool] = True
    begin: ClassVar[None] = None
    may_be_http_sse: bool = False
    """Whether the server refused `initialize` as one does that only knows HTTP+SSE."""
    _requests: OpenRequests = field(factory=OpenRequests)
    _posting: int = 0  # requests that are open, or about to leave
    _idle: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)
    _server_requests: ServerRequests = field(init=False)
    _max_bytes: int = field(init=False)
    _session: Session | None = None
    _begun: Session | None = None
    """The last one that the server began, which may not have got as far as `_session`."""
    _renewing: trio.Lock = field(factory=trio.Lock)
    _closed: bool = False

    def __attrs_post_init__(self) -> None:
        self._server_requests = ServerRequests(
            self.inbound, self._post_quietly, self.nursery, self.limits
        )
        self._max_bytes = self.limits.max_message_bytes
        self.inbound.answered = self._requests.respond
        self.inbound.paused = self._requests.paused
        self.nursery.start_soon(self._requests.watch)

    # -- requests (`ClientTransport`) ------------------------------------------

    def next_id(self) -> Id:
        return self._requests.next_id()

    async def learn_tools(self, tools: Mapping[str, dict[str, Json]]) -> Mapping[str, str]:
        """Learn which arguments become headers; return tools that must not be called, and why."""
        refused = await self._tools.learn(tools)
        return refused if self._session is None else {}  # legacy revisions mirror nothing

    async def request(
        self,
        method: str,
        params: Params | None = None,
        limit: TimeLimit | None = None,
        id: Id | None = None,
    ) -> Json:
        """Send a request and return its result, as `ClientTransport.request` says."""
        pending = self._pending_request(method, params, limit, id)
        async with self._opened(pending):
            await self._settle(pending)
        if pending.response is None:
            self._cancel(pending)
        result = pending.result
        session = pending.session
        if session is not None:
            if method == "initialize":
                self._agree(session, result)
                self._session = session
            else:
                session.settings.note(method, params or {})
        return result

    def _pending_request(
        self,
        method: str,
        params: Params | None,
        limit: TimeLimit | None = None,
        id: Id | None = None,
    ) -> PendingRequest:
        if self._closed:
            raise ConnectionEnded("closed")
        version = _version_of(params)
        of_revision = self._modern_headers(version, method, params or {}) if version else {}
        return PendingRequest(
            id=self.next_id() if id is None else id,
            method=method,
            params=params,
            headers={**of_revision, **_trace_of(params)},
            limit=limit or TimeLimit(),
            modern=version is not None,
            session=None if version or method == "initialize" else self._session,
        )

    def _modern_headers(self, version: str, method: str, params: Params) -> Headers:
        headers = {VERSION_HEADER: version, METHOD_HEADER: method}
        name = params.get(self._tools.target_of(method) or "")
        if isinstance(name, str):
            headers[NAME_HEADER] = encode_value(name)
        if method == CALL_TOOL.name:
            headers |= self._tools.headers(name, params.get("arguments"))
        return headers

    @asynccontextmanager
    async def _opened(self, pending: PendingRequest) -> AsyncIterator[None]:
        """Register a request for the length of the block, so that any stream may answer it."""
        self._requests.add(pending)
        self._posting += 1
        try:
            with pending.scope, pausable(pending.limit.paused):
                yield
        except trio.Cancelled as cancelled:
            pending.reason = reason_of(cancelled)
            self._cancel(pending)
            raise
        finally:
            self._requests.give_up(pending)
            self._posting -= 1
            if not self._posting:
                self._idle.unpark_all()

    async def _settle(self, pending: PendingRequest) -> None:
        """Send a request and wait for its answer, if need be in a new session."""
        try:
            await self._attempt(pending)
        except SessionExpired:
            if pending.session is None or pending.delivered:
                raise
            pending.session = await self._renewed(pending.session)
            await self._attempt(pending)

    async def _attempt(self, pending: PendingRequest) -> None:
        """Post a request; again if that fails and does no harm."""
        try:
            await self._post(pending)
        except (CannotReach, ConnectionLost) as error:
            if not self._tools.is_repeatable(pending.method, pending.params or {}):
                raise
            logger.debug("%s is repeated: %s", pending.method, error)
            # The first may still be open over there.
            self._requests.renumber(pending, self.next_id())
            await self._post(pending)

    async def _post(self, pending: PendingRequest) -> None:
        """Post a request, and read its reply until it is answered."""
        cursor = Cursor()
        line = await encoded(pending) if is_large_request(pending.params) else pending.line()
        pending.sent = True
        try:
            async with self._exchange(pending.session, line[:-1], pending.headers) as reply:
                if not reply.is_success:
                    if pending.method == "initialize":
                        self.may_be_http_sse = reply.status in _REFUSED_BY_HTTP_SSE
                    raise await self._refusal(reply, pending)
                pending.delivered = True
                if pending.method == "initialize":
                    id = session_id(reply.header(SESSION_HEADER))
                    self._begun = pending.session = Session(id, pending.params or {})
                await self._read_answer(reply, cursor, pending)
        except ConnectionLost as error:
            if pending.modern or not cursor.can_resume:
                raise ConnectionLost(f"{pending.method}: {error}") from None
        if pending.response is None:
            await self._resume(pending, cursor)

    async def _read_answer(self, reply: Reply, cursor: Cursor, pending: PendingRequest) -> None:
        kind = reply.media_type
        if kind == EVENTS:
            await self._read_events(reply, cursor, pending, pending.session)
            return
        if kind != _JSON:
            what = f"of type {kind}" if kind else f"with status {reply.status} and no body"
            raise ProtocolError(f"{pending.method}: the server answered {what}; is this its URL?")
        body = await reply.read_all(self._max_bytes)
        await self._take(body, pending.session, pending)
        if pending.response is None:
            message = await decoded(body, self.limits)
            error = rpc_error(await offload(_value, body, self.limits.max_message_values))
            if error is not None:
                raise error
            why = f": {message.error.message}" if isinstance(message, Malformed) else ""
            raise ProtocolError(f"{pending.method}: the server's answer is none{why}")

    async def _resume(self, pending: PendingRequest, cursor: Cursor) -> None:
        """Resume the stream of a request that broke off before the answer."""
        lost = f"{pending.method}: the server ended the stream before it had answered"
        if pending.modern or pending.session is None or not cursor.can_resume:
            raise ConnectionLost(lost)
        try:
            await self._follow(pending.session, cursor, pending)
        except SessionExpired:
            raise
        except (ClientError, McpError) as error:
            raise ConnectionLost(f"{lost}, and it cannot be resumed: {error}") from error

    def _cancel(self, pending: PendingRequest) -> None:
        """Notify a legacy server that a request is cancelled; a modern one sees it."""
        line = pending.cancellation
        if pending.modern or line is None or pending.response is not None:
            return
        if self._closed or not pending.sent:
            return
        self.nursery.start_soon(self._post_quietly, pending.session, line)

    # -- notifications (`ClientTransport`) ------------------------------------------

    async def notify(self, method: str, params: Params | None = None) -> None:
        """Send a notification, and wait until the server has it or refuses it."""
        if self._closed:
            return
        line = notification_line(method, params)
        session = self._session
        version = _version_of(params)
        headers = self._modern_headers(version, method, params or {}) if version else None
        await self._post_quietly(session, line, headers)
        if session is not None and method == "notifications/initialized":
            self._start_listening(session)

    async def _post_quietly(
        self, session: Session | None, line: bytes, headers: Headers | None = None
    ) -> None:
        """Post a message that needs no answer; log a failure."""
        try:
            with TimeLimit.after(_POST_TIMEOUT).scope():
                async with self._exchange(session, line.rstrip(b"\n"), headers) as reply:
                    if not reply.is_success:
                        raise await refusal(self.endpoint, reply, id=None, in_session=True)
        except (ClientError, McpError) as error:
            logger.warning("A message could not be sent to the server: %s", error)

    def _exchange(
        self, session: Session | None, body: bytes, headers: Headers | None = None
    ) -> AbstractAsyncContextManager[Reply]:
        belongs = {} if session is None else session.headers
        merged = {**_POST_HEADERS, **belongs, **(headers or {})}
        return self.endpoint.exchange("POST", merged, body)

    async def _refusal(self, reply: Reply, pending: PendingRequest) -> ClientError | McpError:
        in_session = pending.session is not None and pending.session.id is not None
        return await refusal(self.endpoint, reply, id=pending.id, in_session=in_session)

    # -- messages of the server -----------------------------------------------------------

    async def _read_events(
        self, reply: Reply, cursor: Cursor, pending: PendingRequest | None, session: Session | None
    ) -> None:
        """Read a stream of events to its end, or to the answer."""
        parser = EventParser(self._max_bytes)
        cursor.opened = True
        cursor.moved = False
        while (events := await reply.read_events(parser)) is not None:
            cursor.note(parser, len(events))
            for number, event in enumerate(events, 1):
                if number % _AT_ONCE == 0:
                    await trio.lowlevel.checkpoint()
                if event.event == "message" and event.data:
                    await self._take(event.data, session, pending)
            if pending is not None and pending.response is not None:
                if not self._closed:  # read to its end, its connection can be used again
                    reply.handed_over = True
                    self.nursery.start_soon(reply.finish, _LINGER)
                return

    async def _take(
        self, line: bytes, session: Session | None, reader: PendingRequest | None
    ) -> None:
        """Handle a message that was received on the stream of a request, or on none's."""
        self.inbound.lines.take(line)
        message = await decoded(line, self.limits)
        singles: list[Single] = []
        if isinstance(message, Batch):
            singles = message.messages
        elif message is not None:
            singles = [message]
        for single in singles:
            if isinstance(single, Response):
                self._responded(single, reader)
            elif isinstance(single, Notification):
                self._server_requests.note(single)
            elif not isinstance(single, Request):
                self.inbound.malformed(single, line)
            elif session is None:  # modern servers put their questions into results
                self.inbound.lines.take_stray(line)
            else:
                await self._server_requests.answer(single, session)

    def _responded(self, response: Response, reader: PendingRequest | None) -> None:
        if reader is not None and self._requests.get(response.id) is reader:
            reader.reads_on = True  # its stream may bring more, and its connection is used again
        if self._requests.respond(response) is None:
            logger.debug("An answer is to no request of ours")

    # -- legacy sessions ------------------------------------------------------------------

    def _agree(self, session: Session, result: Json) -> None:
        version = result.get("protocolVersion") if isinstance(result, dict) else None
        # Any other one is refused in the handshake, and may not even go into a header.
        session.version = version if isinstance(version, str) and version in LEGACY else None

    async def _renewed(self, old: Session) -> Session:
        """Replace a session that the server has ended, or raise `SessionExpired`."""
        async with self._renewing:
            if self._session is not None and self._session is not old:
                return self._session  # another request was quicker
            try:
                self._session = session = await self._reinitialized(old)
            except (ClientError, McpError) as error:
                where = self.endpoint.where
                why = f"{where} has ended the session, and begins no new one: {error}"
                raise SessionExpired(404, why) from error
        logger.warning("The server had ended the session; a new one was begun")
        old.listening.cancel()
        self._start_listening(session)
        return session

    async def _reinitialized(self, old: Session) -> Session:
        pending = await self._directly("initialize", old.opening, None)
        session = pending.session
        assert session is not None
        self._agree(session, pending.result)
        if session.version != old.version:
            raise ProtocolError(
                f"it has gone over to protocol version {session.version or 'unknown'}"
            )
        await self._post_quietly(session, notification_line("notifications/initialized"))
        for method, params in old.settings:
            pending = await self._directly(method, params, session)
            error = pending.response.error if pending.response is not None else None
            if error is None:
                session.settings.note(method, params)
            else:
                logger.warning("%s was refused in the new session: %s", method, error)
        return session

    async def _directly(
        self, method: str, params: Params, session: Session | None
    ) -> PendingRequest:
        """Send a request in the given session, without repeating it."""
        pending = self._pending_request(method, params, TimeLimit.after(_POST_TIMEOUT))
        pending.session = session
        async with self._opened(pending):
            await self._post(pending)
        if pending.response is not None:
            return pending
        if isinstance(pending.failure, ConnectionEnded):
            raise pending.failure
        raise ConnectionLost(f"{method}: no answer within {_POST_TIMEOUT:g} s")

    # -- streams that can be resumed ------------------------------------------------------

    def _start_listening(self, session: Session) -> None:
        if self.options.listen and self.options.max_connections > 1 and not self._closed:
            self.nursery.start_soon(self._listen, session)

    async def _listen(self, session: Session) -> None:
        """Read a legacy server's own messages, for as long as it sends any."""
        cursor = Cursor()
        with session.listening:
            try:
                try:
                    await self._follow(session, cursor)
                except SessionExpired:
                    if not cursor.opened:  # it has no such stream, and says so in the wrong way
                        return
                    await trio.sleep(self.options.reconnect_delay)
                    await self._renewed(session)
            except HttpError as error:
                level = logging.DEBUG if error.status == _NOT_OFFERED else logging.WARNING
                logger.log(level, "The server's own messages are not heard: %s", error)
            except (ClientError, ConnectionEnded) as error:
                logger.warning("The server's own messages are not heard: %s", error)

    async def _follow(
        self, session: Session, cursor: Cursor, pending: PendingRequest | None = None
    ) -> None:
        """Read a stream, and resume it whenever it ends, until there is an answer.

        Raises:
            ClientError: It cannot be opened, or not any more.
        """
        failures = 0
        returns = TokenBucket(_MOST_RETURNS, _MOST_RETURNS)
        while pending is None or pending.response is None:
            await trio.sleep(cursor.delay(self.options, failures))
            if seconds := returns.wait(trio.current_time()):  # the server may always say: at once
                await trio.sleep(seconds)
                returns.take(trio.current_time())
            try:
                await self._read_on(session, cursor, pending)
                failures = 0
            except (CannotReach, ConnectionLost):
                failures = 1 if cursor.moved else failures + 1
                cursor.moved = False
                if failures > self.options.reconnect_attempts:
                    raise

    async def _read_on(
        self, session: Session, cursor: Cursor, pending: PendingRequest | None
    ) -> None:
        headers = {"Accept": EVENTS, **session.headers, **cursor.headers}
        async with self.endpoint.exchange("GET", headers) as reply:
            if not reply.is_success:
                in_session = session.id is not None
                error = await refusal(self.endpoint, reply, id=None, in_session=in_session)
                if reply.status >= 500:  # it may be better soon
                    raise ConnectionLost(str(error))
                raise error
            if reply.media_type != EVENTS:
                raise HttpError(reply.status, f"{self.endpoint.where} gives no stream of events")
            await self._read_events(reply, cursor, pending, session)

    # -- the end --------------------------------------------------------------------------

    async def aclose(self) -> None:
        """End what is open, and the session. Shielded, for at most `_CLOSE_TIMEOUT` seconds."""
        self._closed = True
        self.nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True) as scope:
            scope.deadline = trio.current_time() + _CLOSE_TIMEOUT
            self._requests.end("closed")
            while self._posting:
                await self._idle.park()
            if self._begun is not None and self._begun.id is not None:
                await self._end_session(self._begun)

    async def _end_session(self, session: Session) -> None:
        try:
            async with self.endpoint.exchange("DELETE", session.headers) as reply:
                logger.debug("The end of the session was answered with %d", reply.status)
        except ClientError as error:
            logger.debug("The session could not be ended: %s", error)


def _version_of(params: Params | None) -> str | None:
    """Return the revision that a modern message names."""
    version: str | None = meta_of(params or {}).get(META_VERSION)
    return version


def _trace_of(params: Params | None) -> dict[str, str]:
    """Return the trace that a request is part of, for what stands on the way and reads headers."""
    meta = meta_of(params or {})
    return carrier_of(meta) if "traceparent" in meta else {}


def _value(body: bytes, limit: int) -> Json:
    try:
        return None if is_heavier(body, limit) else codec.loads(body)
    except ValueError:
        return None


@asynccontextmanager
async def open_http(
    endpoint: Endpoint,
    options: HttpOptions,
    inbound: InboundHandler,
    limits: Limits,
    methods: Mapping[str, Method],
) -> AsyncIterator[HttpTransport]:
    """Open a transport to a server for the length of the block.

    Nothing is sent before the first request. At the end, of whatever kind, requests that are open
    end, and so does a legacy session, within a bounded time.
    """
    async with background_nursery() as nursery:
        transport = HttpTransport(endpoint, inbound, options, limits, nursery, KnownTools(methods))
        try:
            yield transport
        finally:
            await transport.aclose()
