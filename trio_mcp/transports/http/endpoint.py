"""The MCP endpoint (Streamable HTTP): a POST brings a message, and its response the answer.

A modern request stands for itself: it is checked against its headers and answered by the response
to its POST. A legacy client has a session, which `initialize` begins, and may GET a stream of it.
Both go through the same dispatcher as on any other transport.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from math import inf
from typing import Final

import trio
from attrs import define, field

from trio_mcp.peer.cancellation import CANCELLED, read_cancellation
from trio_mcp.peer.channel import ResponseOnly
from trio_mcp.peer.inbound import Inbound, InboundRequest
from trio_mcp.peer.runner import Runner
from trio_mcp.server.caller import UNKNOWN_CALLER, Caller, caller_of, is_modern
from trio_mcp.server.dispatcher import Dispatcher
from trio_mcp.server.methods import newcomer
from trio_mcp.server.request import RequestContext
from trio_mcp.server.scopes import needed_scopes
from trio_mcp.server.server import Server
from trio_mcp.server.session import Session
from trio_mcp.store.errors import StoreError
from trio_mcp.telemetry import HTTP
from trio_mcp.transports.http.answering import (
    QueuedChannel,
    ResponseChannel,
    finish,
    outgoing,
    run_with_writer,
    status_of,
    while_connected,
)
from trio_mcp.transports.http.guard import Guard
from trio_mcp.transports.http.policy import HttpPolicy
from trio_mcp.transports.http.posted import (
    VERSION,
    accepts,
    bad_message,
    check_headers,
    check_message,
    read_message,
)
from trio_mcp.transports.http.request import (
    EVENTS,
    Disconnected,
    HttpRequest,
    Methods,
    Refusal,
    body_of,
    stopping,
)
from trio_mcp.transports.http.session import HttpSession
from trio_mcp.transports.http.sessions import SESSION, Sessions
from trio_mcp.transports.http.shares import Shares
from trio_mcp.transports.http.sharing.interface import EventStream, Sharing
from trio_mcp.wire.answers import BatchAnswer, Reply, Result, reply_line
from trio_mcp.wire.errors import INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import (
    UNKNOWN_ID,
    Batch,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
)
from trio_mcp.wire.methods import modern_only
from trio_mcp.wire.revisions import BY_NAME, LEGACY, META_CLIENT_CAPABILITIES, MODERN
from trio_mcp.wire.settings import is_setting

_ASSUMED: Final = "2025-03-26"
_ONE_AT_A_TIME: Final = McpError(
    INVALID_REQUEST, "Invalid request: a modern client sends one request or notification at a time"
)
_MODERN: Final = frozenset(name.encode() for name in MODERN)
_LEGACY: Final = frozenset(name.encode() for name in LEGACY)
_ANSWERED: Final = (Request, Batch)
_ALLOW: Final = [(b"allow", b"GET, POST, DELETE")]


@define(eq=False, repr=False)
class McpEndpoint:
    """The path for clients of Streamable HTTP."""

    _server: Server
    _sessions: Sessions
    _guard: Guard
    _policy: HttpPolicy
    _shares: Shares
    _runner: Runner
    _sharing: Sharing
    _alone: dict[Inbound, HttpRequest] = field(factory=dict, init=False)
    """Who sent what stands for itself, and when the token expires that it came with."""
    _wakes: float = field(default=inf, init=False)
    """When `watch` looks at the tokens of those."""
    _look: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    stopping: bool = field(default=False, init=False)

    @property
    def methods(self) -> Methods:
        """What answers requests, by their HTTP methods."""
        return {"GET": self._get, "POST": self._post, "DELETE": self._delete}

    def stop(self) -> None:
        """End what would go on forever: subscriptions, and the streams of sessions."""
        self.stopping = True
        for inbound in list(self._alone):
            inbound.end_long_lived()
        self._sessions.stop()

    def cancel_calls(self) -> None:
        for inbound in list(self._alone):
            inbound.cancel_all()
        self._sessions.cancel_calls()

    def require(self, http: HttpRequest, message: Message) -> None:
        """Refuse a message whose token does not allow all that is in it (403)."""
        if http.authorization is not None:
            needed = self._server.catalogue.scopes
            if self._server.catalogue.has_scopes:
                context = partial(context_of, http, self._server)
                needed = needed_scopes(message, self._server, context)
            self._guard.require(http, needed)

    # -- POST -----------------------------------------------------------------------------

    async def _post(self, http: HttpRequest) -> None:
        check_message(http)
        # To answer it may last forever, so nothing of the message is kept here.
        answering = self._answering(http, (await read_message(http, self._server.limits))[0])
        await answering

    def _answering(self, http: HttpRequest, message: Message) -> Awaitable[None]:
        """Return what answers a message."""
        self.require(http, message)
        if isinstance(message, _ANSWERED):
            self._shares.stay(http.owner)
        if self.stopping and self._would_end_at_once(message):
            raise stopping()
        if isinstance(message, Request) and self._is_modern(http, message):
            return self._answer(http, message, _session_of(http), modern=True)
        if _says_modern(http):
            if not isinstance(message, Notification):
                raise bad_message(UNKNOWN_ID, _ONE_AT_A_TIME)
            return self._take_notification(http, message, _session_of(http))
        _check_version(http)
        if self._sessions.options.stateless or _stands_alone(http, message):
            return self._answer_alone(http, message)
        return self._answer_in_session(http, message)

    def _would_end_at_once(self, message: Message) -> bool:
        """Whether it begins something that lasts no longer than this server."""
        known = None
        if isinstance(message, Request):
            known = self._server.catalogue.methods.get(message.method)
        if known is None or not known.lasting:
            return False
        return not (self._sharing.outlasts_instance and _begins_session(message))

    def _is_modern(self, http: HttpRequest, request: Request) -> bool:
        """Whether a request is a modern one, whose headers have been compared with its body then.

        One that only means to be is given one of the two fields that each needs: so the dispatcher
        names the one that is missing.
        """
        meta, catalogue = request.params.get("_meta"), self._server.catalogue
        if is_modern(meta):
            try:
                check_headers(http, request, catalogue)
            except McpError as error:
                raise bad_message(request.id, error) from None
            return True
        if modern_only(request.method, catalogue.methods) or _says_modern(http):
            known = meta if isinstance(meta, dict) else {}
            request.params["_meta"] = {**known, META_CLIENT_CAPABILITIES: {}}
            return True
        return False

    async def _answer_alone(self, http: HttpRequest, message: Message) -> None:
        """Legacy without sessions: the version header is all that is known of the client."""
        version = http.header(VERSION) or _ASSUMED
        caller = Caller(LEGACY[version], {})
        session = _session_of(http, caller)
        if isinstance(message, Request):
            await self._answer(http, message, session, modern=False)
        elif isinstance(message, Batch):
            inbound = self._inbound_for(http, session)
            try:
                await self._answer_batch(http, message, inbound, session)
            finally:
                del self._alone[inbound]
        else:
            await self._take_notification(http, message, session)

    async def _take_notification(
        self, http: HttpRequest, message: Message, session: Session
    ) -> None:
        """Take note of a notification; only a cancellation is about requests that are open.

        Ids are the clients' own, so two may use the same. The sender may cancel what the same
        program sent with the same owner's token; if that is not one request, none. Without a token
        there is nothing that another client could not say, too: it closes the response.
        """
        if isinstance(message, Notification) and message.method != CANCELLED:
            Dispatcher(self._server, session).notified(message)
        elif isinstance(message, Notification) and (params := read_cancellation(message)):
            id, sender = params.request_id, _sender_of(http)
            meant = [
                inbound
                for inbound, its in self._alone.items()
                if id in inbound and _sender_of(its) == sender
            ]
            if http.principal is not None and len(meant) == 1:
                meant[0].note(message)
        await http.respond(202)

    def _inbound_for(self, http: HttpRequest, session: Session) -> Inbound:
        """The requests of one POST that stands for itself, until it is taken out of `_alone`."""
        inbound = Inbound(Dispatcher(self._server, session), self._shares.slots_of(http.owner))
        self._alone[inbound] = http
        http.on_cut = inbound.cancel_all
        if http.deadline < self._wakes:
            self._wakes = http.deadline
            self._look.unpark_all()
        return inbound

    async def watch(self) -> None:
        """Cancel what stands for itself, and have it answered, when its token expires."""
        while True:
            with trio.move_on_at(self._wakes) as waiting:
                await self._look.park()
            if not waiting.cancelled_caught:
                continue  # a call has come whose token expires earlier; most end long before
            now, deadlines = trio.current_time(), [inf]
            for inbound, http in list(self._alone.items()):
                if http.deadline <= now:
                    inbound.cancel_all()
                else:
                    deadlines.append(http.deadline)
            self._wakes = min(deadlines)

    async def _answer(
        self, http: HttpRequest, message: Request, session: Session, *, modern: bool
    ) -> None:
        inbound = self._inbound_for(http, session)
        try:
            channel, id = ResponseChannel(http, self._policy.keep_alive), message.id
            request = inbound.admit(message, channel)
            del message  # a subscription lasts, and does not need all of it
            if not isinstance(request, InboundRequest):
                status = status_of(request) if modern else 200
                await finish(http, outgoing(http, id, request), status)
                return
            if request.long_lived:
                http.leave_long_body()
            run = partial(self._runner.run, request)
            if request.may_notify:
                channel = request.channel = queued = QueuedChannel(
                    http, self._policy.keep_alive, self._server.limits.max_outgoing_bytes
                )
                run = partial(run_with_writer, queued, run)
            await while_connected(http, run)
        finally:
            del self._alone[inbound]
        if not channel.ended:
            status = status_of(channel.reply) if modern else 200
            answer = outgoing(http, id, channel.reply)
            # Nothing else holds it now: a slow client gives memory back with each piece it takes.
            channel.reply = request.reply = None
            await finish(http, answer, status)

    async def _answer_in_session(self, http: HttpRequest, message: Message) -> None:
        if isinstance(message, Request) and message.method == "initialize":
            await self._begin_session(http, message)
            return
        try:
            session = await self._sessions.find(http)
        except Refusal as refused:
            if refused.status == 404 and self._needs_no_session(message):
                await self._answer_alone(http, message)
                return
            raise
        if isinstance(message, Request):
            await self._answer_on_stream(http, message, session)
        elif isinstance(message, Batch):
            for part in message.messages:
                await session.sharing.forward(part)
            await self._answer_batch(http, message, session.inbound, session.session, session)
        else:
            assert not isinstance(message, Malformed)  # `read_message` has refused it
            await session.take(message)
            await http.respond(202)

    def _needs_no_session(self, message: Message) -> bool:
        """Whether a message that names an unknown session is answered without one."""
        if not self._sessions.options.answer_unknown:
            return False
        sets = isinstance(message, Request) and is_setting(message.method)
        return isinstance(message, Request | Notification) and not sets

    async def _begin_session(self, http: HttpRequest, request: Request) -> None:
        # Another session may have to make room, so it is tried first whether it comes to one.
        id, method, params = request.id, request.method, request.params
        try:
            newcomer(RequestContext(self._server, id, method, params, UNKNOWN_CALLER, Session()))
        except McpError as error:
            raise bad_message(id, error) from None
        session = self._sessions.new(http)
        try:
            answer = await while_connected(http, partial(self._shake_hands, request, session))
            if answer is None:
                raise Disconnected
            if isinstance(answer, McpError):
                raise bad_message(id, answer)
            await session.sharing.begin()
        except BaseException:
            self._sessions.end(session)
            raise
        await http.respond(200, reply_line(id, answer)[:-1], headers=session.headers)

    async def _shake_hands(self, request: Request, session: HttpSession) -> Reply | None:
        channel = ResponseOnly()
        answer = session.inbound.admit(request, channel)
        if isinstance(answer, InboundRequest):
            await self._runner.run(answer)  # it goes through middleware
            return channel.take()
        return answer

    async def _answer_on_stream(
        self, http: HttpRequest, request: Request, session: HttpSession
    ) -> None:
        async def answer() -> None:
            begun = await session.begin(request, http)
            if isinstance(begun, Result | McpError):
                body = body_of(reply_line(request.id, begun))
                await http.respond(200, body, headers=session.headers)
            else:
                await begun.answer(http, self._policy.keep_alive)

        await while_connected(http, answer)

    async def _answer_batch(
        self,
        http: HttpRequest,
        batch: Batch,
        inbound: Inbound,
        session: Session,
        kept: HttpSession | None = None,
    ) -> None:
        failures: list[StoreError] = []  # a nursery would make a group of one
        headers = () if kept is None else kept.headers

        async def settled() -> None:
            try:
                if kept is not None:
                    await kept.settle_for(batch)
            except StoreError as error:
                failures.append(error)

        async def run(request: InboundRequest) -> None:
            await self._runner.run(request)
            await settled()

        async def answer() -> None:
            channel = ResponseOnly()
            session.authorization = http.authorization  # each request keeps the one it came with
            session.headers = http.headers
            # No checkpoint before the tasks run: whatever is opened here is closed by them.
            opened, reply = inbound.take(batch, channel)
            session.headers = None  # which they have taken along
            async with trio.open_nursery() as nursery:
                for request in opened:
                    nursery.start_soon(run, request)
                await settled()  # what was set at once, before another instance may set it
            if failures:
                raise failures[0]
            reply = reply or channel.take()
            if reply is None:
                await http.respond(202, headers=headers)
            else:  # one answer and no array: the batch was refused as a whole
                status = 200 if isinstance(reply, BatchAnswer) else 400
                line = reply_line(UNKNOWN_ID, reply)
                await http.respond(status, line[:-1], headers=headers)

        await while_connected(http, answer)

    # -- GET and DELETE -------------------------------------------------------------------

    async def _get(self, http: HttpRequest) -> None:
        if self._sessions.options.stateless or _says_modern(http):
            raise Refusal(405, "There is no stream to GET; see subscriptions/listen.", _ALLOW)
        if b"accept" not in http.headers or not accepts(http, EVENTS):
            raise Refusal(406, "The client must accept text/event-stream.")
        if http.header(SESSION) is None and http.header(VERSION) is None:
            raise Refusal(405, "The MCP endpoint is for POST; a GET needs a session.", _ALLOW)
        _check_version(http)
        if self.stopping:
            raise stopping()
        session = await self._sessions.find(http)
        event_id = http.header(b"last-event-id")
        stream: EventStream = session.standalone
        after = session.standalone.sent
        if event_id is not None:
            stream, after = session.resumed(event_id)
        await while_connected(http, partial(stream.follow, http, self._policy.keep_alive, after))

    async def _delete(self, http: HttpRequest) -> None:
        if self._sessions.options.stateless or _says_modern(http):
            raise Refusal(405, "There are no sessions to end.", _ALLOW)
        await self._sessions.delete(await self._sessions.find(http))
        await http.respond(200)


def _sender_of(http: HttpRequest) -> tuple[str | None, bytes]:
    """Who sends a request: whose token it has, and which program says that it sends it."""
    return http.principal, http.headers.get(b"user-agent", b"")


def _stands_alone(http: HttpRequest, message: Message) -> bool:
    """Whether a legacy message belongs to no session and begins none: a plain POST, as by curl."""
    if SESSION in http.headers or isinstance(message, Response):
        return False
    return not _begins_session(message)


def _begins_session(message: Message) -> bool:
    return isinstance(message, Request) and message.method == "initialize"


def _says_modern(http: HttpRequest) -> bool:
    return http.headers.get(VERSION) in _MODERN


def _check_version(http: HttpRequest) -> None:
    version = http.headers.get(VERSION)
    if version is not None and version not in _LEGACY:
        what = ", ".join(BY_NAME)
        raise Refusal(400, f"MCP-Protocol-Version is not one that is served here: {what}.")


def _session_of(http: HttpRequest, caller: Caller = UNKNOWN_CALLER) -> Session:
    # By position, as each request needs one: keywords take half of the time.
    return Session(
        None,
        http.client_address,
        http.id,
        HTTP,
        None,
        caller,
        http.principal,
        http.authorization,
        http.headers,
    )


def context_of(http: HttpRequest, server: Server, request: Request) -> RequestContext:
    """Make the context of a request with what it says itself of its sender."""
    caller, (id, method, params) = UNKNOWN_CALLER, (request.id, request.method, request.params)
    with suppress(McpError):  # or else it is refused
        caller = caller_of(params.get("_meta")) or caller
    session = _session_of(http, caller)
    return RequestContext(server, id, method, params, caller, session, http.authorization)
