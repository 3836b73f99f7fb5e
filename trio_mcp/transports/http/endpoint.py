"""The MCP endpoint (Streamable HTTP): a POST brings a message, and its response the answer.

A modern request stands for itself: it is checked against its headers and answered by the response
to its POST. A legacy client has a session, which `initialize` begins, and may GET a stream of it.
Both go through the same dispatcher as on any other transport.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import define, field

from trio_mcp.peer.channel import ResponseOnly
from trio_mcp.peer.inbound import Inbound, InboundRequest, Slots
from trio_mcp.peer.runner import Runner
from trio_mcp.server.caller import UNKNOWN_CALLER, Caller, is_modern
from trio_mcp.server.dispatcher import Dispatcher
from trio_mcp.server.methods import initialize
from trio_mcp.server.request import RequestContext
from trio_mcp.server.scopes import needed_scopes
from trio_mcp.server.server import Server
from trio_mcp.server.session import Session
from trio_mcp.store.errors import StoreError
from trio_mcp.transports.http.answering import (
    QueuedChannel,
    ResponseChannel,
    finish,
    outgoing,
    run_call,
    status_of,
    while_connected,
)
from trio_mcp.transports.http.guard import Guard
from trio_mcp.transports.http.header_check import VERSION, check_headers
from trio_mcp.transports.http.policy import HttpPolicy
from trio_mcp.transports.http.posted import accepts, bad_message, check_json, read_message
from trio_mcp.transports.http.request import (
    EVENTS,
    JSON,
    Disconnected,
    Header,
    HttpRequest,
    Refusal,
)
from trio_mcp.transports.http.session import HttpSession, SessionStream
from trio_mcp.transports.http.sessions import SESSION, Sessions
from trio_mcp.wire.errors import INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import (
    UNKNOWN_ID,
    Batch,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    decode,
    is_id,
)
from trio_mcp.wire.methods import modern_only
from trio_mcp.wire.revisions import BY_NAME, LEGACY, MODERN

if TYPE_CHECKING:  # few servers share a store
    from trio_mcp.transports.http.sharing.stream import ElsewhereStream

_ASSUMED: Final = "2025-03-26"
"""What a legacy client without a version header speaks."""
_ALLOW: Final = [(b"allow", b"GET, POST, DELETE")]


@define(eq=False, repr=False)
class McpEndpoint:
    """The path for clients of Streamable HTTP, for POST, GET and DELETE.

    Args:
        server: What is served.
        sessions: Those of legacy clients.
        guard: Knows what a token allows.
        policy: The bounds to keep.
        slots: Those for calls that all clients share.
        runner: Runs the calls.
        shared: Whether sessions go on at other instances when this one stops.
    """

    _server: Server
    _sessions: Sessions
    _guard: Guard
    _policy: HttpPolicy
    _slots: Slots
    _runner: Runner
    _shared: bool
    _alone: dict[Inbound, HttpRequest] = field(factory=dict, init=False)
    """Of requests that stand for themselves."""
    stopping: bool = field(default=False, init=False)
    """Whether nothing is begun any more that would go on for ever."""

    async def serve(self, http: HttpRequest) -> None:
        """Answer a request that the guard has let pass.

        Raises:
            Refusal: It cannot be answered as it is.
            Disconnected: The client has left.
            StoreError: Other instances have to be asked or told, and cannot be.
        """
        answer = _METHODS.get(http.method)
        if answer is None:
            raise Refusal(405, "The MCP endpoint is for POST, GET and DELETE.", _ALLOW)
        await answer(self, http)

    def stop(self) -> None:
        """End what would go on for ever: subscriptions, and the streams of sessions."""
        self.stopping = True
        for inbound in list(self._alone):
            inbound.end_long_lived()
        self._sessions.stop()

    def cancel_calls(self) -> None:
        """Cancel the calls that still run, and have them answered."""
        for inbound in list(self._alone):
            inbound.cancel_all()
        self._sessions.cancel_calls()

    def require(self, http: HttpRequest, message: Message) -> None:
        """Let a message pass whose token allows all that is in it.

        Raises:
            Refusal: It does not (403).
        """
        if http.authorization is not None:
            method = message.method if isinstance(message, Request) else ""
            context = context_of(http, method, self._server)
            self._guard.require(http, needed_scopes(message, context))

    # -- POST -----------------------------------------------------------------------------

    async def _post(self, http: HttpRequest) -> None:
        check_json(http)
        if not accepts(http, JSON, EVENTS):
            raise Refusal(406, "The client must accept application/json and text/event-stream.")
        message, _ = await read_message(http, self._server.limits)
        self.require(http, message)
        if self.stopping and self._would_end_at_once(message):
            raise _stopping()
        if isinstance(message, Request) and is_modern(message.params.get("_meta")):
            self._check_headers(http, message)
            await self._answer(http, message, _session_of(http), modern=True)
        elif isinstance(message, Request) and self._means_modern(http, message):
            message.params["_meta"] = _claim_modern(message.params.get("_meta"))
            await self._answer(http, message, _session_of(http), modern=True)
        elif _says_modern(http):
            await self._take_modern(http, message)
        else:
            _check_version(http)
            if self._policy.stateless or _stands_alone(http, message):
                await self._answer_alone(http, message)
            else:
                await self._answer_in_session(http, message)

    def _would_end_at_once(self, message: Message) -> bool:
        """Whether it begins something that lasts no longer than this server."""
        known = None
        if isinstance(message, Request):
            known = self._server.registry.methods.get(message.method)
        if known is None or not known.lasting:
            return False
        return not (self._shared and _begins_session(message))  # which goes on at the others

    def _means_modern(self, http: HttpRequest, request: Request) -> bool:
        """Whether a request means to be a modern one, though its `_meta` does not say so."""
        return modern_only(request.method, self._server.registry.methods) or _says_modern(http)

    def _check_headers(self, http: HttpRequest, request: Request) -> None:
        try:
            check_headers(http, request, self._server.registry)
        except McpError as error:
            raise bad_message(request.id, error) from None

    async def _take_modern(self, http: HttpRequest, message: Message) -> None:
        """A notification is taken note of; there is nothing else without an answer."""
        if isinstance(message, Notification):
            session = _session_of(http)
            await self._take_notification(http, message, Dispatcher(self._server, session))
            return
        what = "Invalid request: a modern client sends one request or notification at a time"
        raise bad_message(UNKNOWN_ID, McpError(INVALID_REQUEST, what))

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
            await self._take_notification(http, message, Dispatcher(self._server, session))

    async def _take_notification(
        self, http: HttpRequest, message: Message, dispatcher: Dispatcher
    ) -> None:
        """Take note of a notification; only a cancellation is about requests that are open.

        Ids are the clients' own, so two may use the same. The sender may cancel what came with the
        same token, or without tokens from the same address; if that is not one request, none.
        """
        if isinstance(message, Notification) and message.method != "notifications/cancelled":
            dispatcher.notified(message)
        elif isinstance(message, Notification):
            id, sender = message.params.get("requestId"), _sender_of(http)
            meant = [
                inbound
                for inbound, its in self._alone.items()
                if is_id(id) and id in inbound and _sender_of(its) == sender
            ]
            if len(meant) == 1:
                meant[0].note(message)
        await http.respond(202)

    def _inbound_for(self, http: HttpRequest, session: Session) -> Inbound:
        """The requests of one POST that stands for itself, until it is taken out of `_alone`."""
        inbound = Inbound(Dispatcher(self._server, session), self._slots)
        self._alone[inbound] = http
        return inbound

    async def _answer(
        self,
        http: HttpRequest,
        message: Request,
        session: Session,
        *,
        modern: bool,
    ) -> None:
        inbound = self._inbound_for(http, session)
        try:
            channel = ResponseChannel(http, self._policy.keep_alive)
            request = inbound.admit(message, channel)
            if isinstance(request, bytes):
                status = status_of(request, message.id) if modern else 200
                await finish(http, outgoing(http, request), status)
                return
            if request.may_notify:
                channel = request.channel = QueuedChannel(
                    http, self._policy.keep_alive, self._server.limits.max_outgoing_bytes
                )
            await run_call(http, request, self._runner)
        finally:
            del self._alone[inbound]
        line = channel.line
        if not channel.ended:
            status = 200 if line is None or not modern else status_of(line, message.id)
            answer = outgoing(http, line)
            # Nobody else holds it now: a slow client gives memory back with each piece it takes.
            line = channel.line = request.response = None
            await finish(http, answer, status)

    async def _answer_in_session(self, http: HttpRequest, message: Message) -> None:
        if isinstance(message, Request) and message.method == "initialize":
            await self._begin_session(http, message)
            return
        session = await self._sessions.find(http)
        if isinstance(message, Request):
            await self._answer_on_stream(http, message, session)
        elif isinstance(message, Batch):
            for each in message.messages:
                await session.forward(each)
            await self._answer_batch(
                http, message, session.inbound, session.session, session.headers, session.settle_for
            )
        else:
            assert not isinstance(message, Malformed)  # `read_message` has refused it
            await session.take(message)
            await http.respond(202)

    async def _begin_session(self, http: HttpRequest, request: Request) -> None:
        # Another session may have to make room, so it is tried first whether it comes to one.
        id, method, params, unknown = request.id, request.method, request.params, UNKNOWN_CALLER
        try:
            initialize(RequestContext(self._server, id, method, params, unknown, Session()))
        except McpError as error:
            raise bad_message(request.id, error) from None
        session = await self._sessions.new(http)
        try:
            answer = await while_connected(http, partial(self._shake_hands, request, session))
            if answer is None:
                raise Disconnected
            shaken = decode(answer[:-1])
            if isinstance(shaken, Response) and shaken.error is not None:
                raise Refusal(400, "The handshake is refused.", body=answer[:-1])
            await session.share()
        except BaseException:
            self._sessions.end(session)
            raise
        await http.respond(200, answer[:-1], headers=session.headers)

    async def _shake_hands(self, request: Request, session: HttpSession) -> bytes | None:
        channel = ResponseOnly()
        answer = session.inbound.admit(request, channel)
        if isinstance(answer, bytes):
            return answer
        await self._runner.run(answer)  # it goes through middleware
        return channel.line

    async def _answer_on_stream(
        self, http: HttpRequest, request: Request, session: HttpSession
    ) -> None:
        async def answer() -> None:
            begun = await session.begin(request, http.authorization)
            if isinstance(begun, bytes):
                await http.respond(200, begun[:-1], headers=session.headers)
            else:
                await begun.answer(http, self._policy)

        await while_connected(http, answer)

    async def _answer_batch(
        self,
        http: HttpRequest,
        batch: Batch,
        inbound: Inbound,
        session: Session,
        headers: Iterable[Header] = (),
        settle: Callable[[Batch], Awaitable[None]] | None = None,
    ) -> None:
        """Answer a batch with an array (2025-03-26, "Batching")."""
        failures: list[StoreError] = []  # a nursery would make a group of one

        async def settled() -> None:
            try:
                if settle is not None:
                    await settle(batch)
            except StoreError as error:
                failures.append(error)

        async def run(request: InboundRequest) -> None:
            await self._runner.run(request)
            await settled()

        async def answer() -> None:
            channel = ResponseOnly()
            session.authorization = http.authorization  # each request keeps the one it came with
            # No checkpoint before the tasks run: whatever is opened here is closed by them.
            opened, line = inbound.take(batch, channel)
            async with trio.open_nursery() as nursery:
                for request in opened:
                    nursery.start_soon(run, request)
                await settled()  # what was set at once, before another instance may set it
            if failures:
                raise failures[0]
            line = line or channel.line
            if line is None:
                await http.respond(202, headers=headers)
            else:  # no array answers a batch that was refused as a whole
                status = 200 if line.startswith(b"[") else 400
                await http.respond(status, line[:-1], headers=headers)

        await while_connected(http, answer)

    # -- GET and DELETE -------------------------------------------------------------------

    async def _get(self, http: HttpRequest) -> None:
        """Open the stream of a session, or one that was interrupted (legacy)."""
        if self._policy.stateless or _says_modern(http):
            raise Refusal(405, "There is no stream to GET; see subscriptions/listen.", _ALLOW)
        if not accepts(http, EVENTS):
            raise Refusal(406, "The client must accept text/event-stream.")
        if http.header(SESSION) is None and http.header(VERSION) is None:
            raise Refusal(405, "The MCP endpoint is for POST; a GET needs a session.", _ALLOW)
        _check_version(http)
        if self.stopping:
            raise _stopping()
        session = await self._sessions.find(http)
        event_id = http.header(b"last-event-id")
        stream: SessionStream | ElsewhereStream = session.standalone
        after = session.standalone.sent
        if event_id is not None:
            stream, after = session.resumed(event_id)
        await while_connected(http, partial(stream.follow, http, self._policy, after))

    async def _delete(self, http: HttpRequest) -> None:
        """End a session (legacy)."""
        if self._policy.stateless or _says_modern(http):
            raise Refusal(405, "There are no sessions to end.", _ALLOW)
        session = await self._sessions.find(http)
        await self._sessions.delete(session)
        await http.respond(200)


_METHODS: Final[dict[str, Callable[[McpEndpoint, HttpRequest], Awaitable[None]]]] = {
    "POST": McpEndpoint._post,
    "GET": McpEndpoint._get,
    "DELETE": McpEndpoint._delete,
}


def _stopping() -> Refusal:
    return Refusal(503, "The server is stopping.", [(b"retry-after", b"10")])


def _sender_of(http: HttpRequest) -> tuple[str, bytes]:
    """Who sends a request, as far as that can be known: owner and program."""
    return http.owner, http.headers.get(b"user-agent", b"")


def _stands_alone(http: HttpRequest, message: Message) -> bool:
    """Whether a legacy message belongs to no session and begins none: a plain POST, as by curl."""
    if SESSION in http.headers or isinstance(message, Response):
        return False
    return not _begins_session(message)


def _begins_session(message: Message) -> bool:
    return isinstance(message, Request) and message.method == "initialize"


def _says_modern(http: HttpRequest) -> bool:
    """Whether the header of a message says so."""
    return http.headers.get(VERSION, b"").decode("latin-1") in MODERN


def _claim_modern(meta: Any) -> dict[str, Any]:
    """The `_meta` of a request that is modern by its header or method, but does not say so."""
    from trio_mcp.wire.revisions import META_CLIENT_CAPABILITIES

    # With one of the two required fields there, the dispatcher names the one that is missing.
    return {**(meta if isinstance(meta, dict) else {}), META_CLIENT_CAPABILITIES: {}}


def _check_version(http: HttpRequest) -> None:
    version = http.header(VERSION)
    if version is not None and version not in LEGACY:
        what = ", ".join(BY_NAME)
        raise Refusal(400, f"MCP-Protocol-Version is not one that is served here: {what}.")


def _session_of(http: HttpRequest, caller: Caller = UNKNOWN_CALLER) -> Session:
    """What is known of who sends a message that belongs to no session."""
    return Session(
        "http", caller=caller, principal=http.principal, authorization=http.authorization
    )


def context_of(http: HttpRequest, method: str, server: Server) -> RequestContext:
    """What is known of a request before its message is looked at."""
    session = _session_of(http)
    return RequestContext(server, "", method, {}, UNKNOWN_CALLER, session, session.authorization)
