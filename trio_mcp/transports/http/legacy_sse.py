"""HTTP+SSE, the transport over HTTP that revision 2024-11-05 had (its "HTTP with SSE").

A client GETs a stream of events, on which all comes that the server has to say, and POSTs what it
has to say itself to a URI that the first event names. Both together carry lines in both
directions: a `LineTransport`, on which the connection runs that runs on any stream. It runs in
the task of the GET, so it ends with it.

Nothing is kept for a client that cannot be reached: a POST waits until the connection takes its
message, and the connection writes no more while the client does not read. Where several instances
share sessions, a POST may come to any of them: `Sharing` takes it to the one with the stream.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final
from urllib.parse import parse_qs, quote
from weakref import WeakKeyDictionary

import trio
from attrs import define, field

from trio_mcp.auth.authorization import Authorization
from trio_mcp.background import background_nursery
from trio_mcp.peer.connection import Connection
from trio_mcp.peer.inbound import InboundRequest
from trio_mcp.server.dispatcher import Dispatcher
from trio_mcp.server.server import Server
from trio_mcp.server.session import Session
from trio_mcp.telemetry import HTTP
from trio_mcp.transports.http.answering import while_connected
from trio_mcp.transports.http.bodies import LongBody
from trio_mcp.transports.http.policy import HttpPolicy
from trio_mcp.transports.http.posted import accepts, check_json, read_message
from trio_mcp.transports.http.request import EVENTS, HttpRequest, Methods, Refusal, stopping
from trio_mcp.transports.http.sessions import Sessions
from trio_mcp.transports.http.shares import Shares
from trio_mcp.transports.http.sharing.interface import Sharing, Take
from trio_mcp.transports.stream import run_connection
from trio_mcp.wire.answers import Answer
from trio_mcp.wire.framing import Frame
from trio_mcp.wire.jsonrpc import Batch, Message, Request
from trio_mcp.wire.sse import encode_event

_SESSION: Final = "session_id"
_CALL_BYTES: Final = 16 * 1024
"""What a call that waits counts for besides its message."""


class SseLines:
    """The server's end of the lines that travel in both directions (a `LineTransport`)."""

    def __init__(self) -> None:
        delivering = trio.open_memory_channel[tuple[bytes, LongBody | None]](0)
        self.deliver, self._delivered = delivering
        self._bodies: deque[LongBody | None] = deque()  # of the lines that were received
        self.body: LongBody | None = None
        """What the line that is being dealt with counts for."""
        self._events = b""  # what waits to be passed on
        self._finished = False
        self._broken = False
        self._changed = trio.lowlevel.ParkingLot()

    # -- for the requests that carry it ---------------------------------------------------

    async def pass_on(self, http: HttpRequest, keep_alive: float) -> None:
        """Write what is sent as events, until `finish`; and comments while nothing is.

        Raises:
            Disconnected: The client has left.

        However it ends, nothing can be sent afterwards.
        """
        try:
            while self._events or not self._finished:
                if self._events:
                    await http.send_raw(self._events)
                    self._events = b""
                    self._changed.unpark_all()
                    continue
                with trio.move_on_after(keep_alive) as quiet:
                    await self._changed.park()
                if quiet.cancelled_caught:
                    await http.send_comment()
        finally:
            self._broken = True
            self._changed.unpark_all()

    def finish(self) -> None:
        self.refuse()
        self._finished = True
        self._changed.unpark_all()

    def refuse(self) -> None:
        self._delivered.close()

    # -- for the connection (`LineTransport`) --------------------------------------------

    async def receive(self) -> list[Frame]:
        line, body = await self._delivered.receive()
        self._bodies.append(body)
        return [line]

    def begin_line(self, line: bytes) -> None:
        self.body = self._bodies.popleft()

    async def send(self, lines: list[bytes]) -> None:
        """Have lines passed on, and wait until they are. Cancelled meanwhile, they still are."""
        self._events = b"".join(encode_event(line[:-1], event="message") for line in lines)
        self._changed.unpark_all()
        while self._events and not self._broken:
            await self._changed.park()
        if self._broken:
            raise trio.BrokenResourceError("the client has left")


class _SseDispatcher(Dispatcher):
    """Has a message count until the requests in it are closed: its POST ends before."""

    def __init__(self, server: Server, session: Session, stream: SseLines) -> None:
        super().__init__(server, session)
        self._stream = stream
        self._bodies: WeakKeyDictionary[InboundRequest, LongBody] = WeakKeyDictionary()

    def begin(self, request: Request, in_batch: bool) -> Answer | InboundRequest:
        opened, body = super().begin(request, in_batch), self._stream.body
        if not in_batch:
            self._stream.body = None
        if body is not None and isinstance(opened, InboundRequest):
            self._bodies[opened] = body
        return opened


@define(eq=False)
class _SseSession:
    """One client."""

    session: Session
    stream: SseLines
    connection: Connection
    lease: trio.CancelScope
    """Lasts until the last of its owner's tokens expires."""

    def renew(self, authorization: Authorization | None) -> None:
        """Go by what the token of the latest message allows.

        Who reads the message does so later: by then its owner may have sent another one, and what
        both allow was checked for each.
        """
        self.session.authorization = authorization
        if authorization is not None:
            self.lease.deadline = max(self.lease.deadline, authorization.deadline)

    async def take(
        self,
        line: bytes,
        authorization: Authorization | None,
        http: HttpRequest | None = None,
    ) -> bool:
        """Take a message, and what it counts for from the request that has brought it."""
        body = None if http is None else http.take_long_body()
        if body is not None:
            body.leave_when_unused()
        self.renew(authorization)
        try:
            await self.stream.deliver.send((line, body))
        except trio.BrokenResourceError:
            return False
        return True

    async def expire(self) -> None:
        """End it when its owner has no token any more."""
        with self.lease:
            await trio.sleep_forever()
        self.connection.stop()


@define(eq=False, repr=False)
class SseEndpoint:
    """The path for clients of HTTP+SSE.

    When a GET is cancelled, or its client leaves, its session ends with the calls in it.
    """

    _path: str
    _server: Server
    _sessions: Sessions
    _shares: Shares
    _policy: HttpPolicy
    _require: Callable[[HttpRequest, Message], None]
    _sharing: Sharing
    _open: dict[str, _SseSession] = field(factory=dict, init=False)
    _stopping: bool = field(default=False, init=False)

    @property
    def methods(self) -> Methods:
        """What answers requests, by their HTTP methods."""
        return {"GET": self._get, "POST": self._post}

    def stop(self) -> None:
        """Begin no more sessions. Those that there are end once their calls have, or the grace."""
        self._stopping = True
        for session in list(self._open.values()):
            session.connection.stop()

    # -- GET ------------------------------------------------------------------------------

    async def _get(self, http: HttpRequest) -> None:
        if not accepts(http, EVENTS):
            raise Refusal(406, "The client must accept text/event-stream.")
        if self._stopping:
            raise stopping()
        await while_connected(http, lambda: self._hold(http))

    async def _hold(self, http: HttpRequest) -> None:
        id = secrets.token_urlsafe(32)
        session = Session(
            address=http.client_address,
            network=HTTP,
            principal=http.principal,
            authorization=http.authorization,
            headers=http.headers,
        )
        stream = SseLines()

        def no_more() -> None:
            self._open.pop(id, None)
            stream.refuse()

        connection = Connection(
            stream,
            _SseDispatcher(self._server, session, stream),
            self._server.limits,
            on_line=stream.begin_line,
            shared_slots=self._shares.slots_of(http.owner),
            on_drain=no_more,
            on_stuck=lambda labels: stream.finish(),
        )

        async def run() -> None:
            try:
                await run_connection(connection, self._server.registry, session)
            finally:
                stream.finish()

        http.on_cut = connection.stop_at_once
        with self._sessions.lasting(http.owner, connection.stop):
            held = self._open[id] = _SseSession(
                session, stream, connection, trio.CancelScope(deadline=http.deadline)
            )
            try:
                async with self._sharing.taking_posts(id, http.principal, held.take):
                    await http.start_stream()
                    endpoint = f"{quote(self._mounted_at(http))}?{_SESSION}={id}"
                    await http.send_raw(encode_event(endpoint.encode(), event="endpoint"))
                    async with background_nursery(run, held.expire):
                        await stream.pass_on(http, self._policy.keep_alive)
                        await http.end_stream()  # here, because a call may go on for longer
            finally:
                no_more()

    def _mounted_at(self, http: HttpRequest) -> str:
        root: str = http.scope.get("root_path", "").rstrip("/")
        return root + self._path

    # -- POST -----------------------------------------------------------------------------

    async def _post(self, http: HttpRequest) -> None:
        take = self._find(http)
        check_json(http)
        message, body = await read_message(http, self._server.limits)
        self._require(http, message)
        if isinstance(message, Request | Batch):
            http.count_body(len(body) + _CALL_BYTES)

        async def deliver() -> None:
            if not await take(body, http.authorization):
                raise _no_session()
            await http.respond(202)

        await while_connected(http, deliver)

    def _find(self, http: HttpRequest) -> Take:
        query: bytes = http.scope.get("query_string", b"")
        [id, *_] = parse_qs(query.decode("latin-1")).get(_SESSION, [""])
        session = self._open.get(id)
        if session is None:
            try:
                return self._sharing.poster(id, http.principal)
            except LookupError:
                raise _no_session() from None
        if session.session.principal != http.principal:
            raise _no_session()
        session.renew(http.authorization)
        return partial(session.take, http=http)


def _no_session() -> Refusal:
    return Refusal(404, "There is no such session (any more); GET another stream of events.")
