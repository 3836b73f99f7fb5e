"""A session of a legacy client: what outlives a single HTTP request.

A session has streams of events: one for each request that is being answered, and one for what
concerns no request. A call runs in the session, not in the HTTP request that brought it, so a
client that loses its connection finds the events when it comes back with `Last-Event-ID`. Events
that are not fetched are kept within bounds.

Where several instances share sessions, this is one instance's replica, which a `SessionSharing`
joins to the others.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from itertools import count
from time import perf_counter
from typing import Final

import trio

from trio_mcp.loggers import logger_of
from trio_mcp.peer.channel import ReplyChannel
from trio_mcp.peer.inbound import Inbound, InboundRequest, Slots
from trio_mcp.peer.requests import OpenRequests
from trio_mcp.peer.runner import Runner, wait_for_slots
from trio_mcp.peer.time_limits import TimeLimit
from trio_mcp.server.dispatcher import Dispatcher
from trio_mcp.server.server import Server
from trio_mcp.server.session import Session
from trio_mcp.server.subscriptions import send_rest
from trio_mcp.store.errors import StoreError
from trio_mcp.telemetry import HTTP
from trio_mcp.transports.http.bodies import LongBody
from trio_mcp.transports.http.events import EventStore
from trio_mcp.transports.http.request import (
    Body,
    HttpRequest,
    Refusal,
    body_of,
    no_session,
    no_stream,
)
from trio_mcp.transports.http.session_options import SessionOptions
from trio_mcp.transports.http.sharing.interface import STANDALONE, EventStream, SessionSharing
from trio_mcp.wire.answers import Answer, Reply, reply_line
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError
from trio_mcp.wire.jsonrpc import Batch, Id, Json, Notification, Request, Response, trimmed
from trio_mcp.wire.settings import is_setting
from trio_mcp.wire.sse import encode_event

logger = logger_of("trio_mcp.http")

_UNSENT: Final = 100
"""Events that a connected client may be behind before the sender has to wait."""

_KEPT: Final = 100
"""Streams that were sent to their end, but are kept: some of it may never have arrived."""

_NUMBER: Final = re.compile(r"[0-9]{1,18}")

_UNTOLD: Final = McpError(INTERNAL_ERROR, "The other instances cannot be reached now; try again")


class SessionStream(ReplyChannel):
    """One stream of events, and the `LineQueue` of our requests that belong to it."""

    cannot_ask = None

    def __init__(self, name: str, session: HttpSession, request: Request | None = None) -> None:
        self.name: Final = name
        self._session = session
        self._store = session.store
        self._is_setting = request is not None and is_setting(request.method)
        self._record = session.sharing.record(name, None if request is None else request.id)
        self._unsent: deque[tuple[int, bytes]] = deque()  # what the reader is to get
        self._unsent_bytes = 0
        self.last = 0
        self.sent = 0
        self.reader: HttpRequest | None = None
        self.finished = False
        self._is_known = False  # to the client, by the id of an event
        self._body: Body | None = None  # the answer, if it is all that there is to send
        self.closing = False
        self.changed: Final = trio.lowlevel.ParkingLot()

    # -- writing ---------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        return len(self._unsent) > _UNSENT or self._unsent_bytes > self._session.max_unsent_bytes

    async def wait_for_room(self) -> None:
        while self.full and not self.finished:
            await self.changed.park()
        if not self.finished:
            await self._session.sharing.wait_for_room()

    def send_notification_nowait(self, line: bytes) -> None:
        if not self.finished:  # of a session that has ended, say, nothing is kept
            self._add(line)
            self.changed.unpark_all()

    put_nowait = send_nowait = send_notification_nowait

    def _add(self, line: bytes) -> None:
        line = trimmed(line)
        self.last = self._store.append(self.name, line)
        if self.reader is not None:
            self._unsent.append((self.last, line))
            self._unsent_bytes += len(line)
        self._record.add(line)

    async def send_notification(self, line: bytes) -> None:
        await self.wait_for_room()
        self.put_nowait(line)

    async def send_request(self, method: str, params: dict[str, Json], deadline: float) -> Json:
        return await self._session.ask(method, params, deadline, self)

    async def respond(self, id: Id, reply: Reply | None, *, overdue: bool = False) -> None:
        """Add the last event, without waiting for room: what was answered is kept, read or not."""
        if self._is_setting and not self.finished:
            try:
                await self._session.sharing.settle()
            except StoreError as error:
                logger.warning("%s", error)
                reply = _UNTOLD
        self.finish(None if reply is None else reply_line(id, reply))

    def close_sse_stream(self) -> None:
        """Have the reader go, and come back for the rest, if it knows how to."""
        if self.reader is not None and self._session.primes:
            self.closing = True
            self.changed.unpark_all()

    def finish(self, line: bytes | None) -> None:
        """Add the last event, if there is one. After the first time nothing happens."""
        if self.finished:
            return
        if line is not None and not (self.last or self._is_known):
            self._body = body_of(line)
        elif line is not None:
            self._add(line)
        self.finished = True
        self._record.finish()
        self.changed.unpark_all()
        if self.reader is None and not self._is_known:
            self._session.forget(self)

    def drop(self) -> None:
        """Keep no event any more, here and where other instances find them."""
        self._store.drop(self.name)
        self._record.drop()

    # -- reading --------------------------------------------------------------------------

    async def answer(self, http: HttpRequest, keep_alive: float) -> None:
        """Answer the request that it belongs to: with JSON, unless something is said before.

        Cancelled (the client left), whatever was not sent is kept, if the client knows of any
        event to come back to.
        """
        self._begin_reading(http, 0)
        try:
            while not (self.last or self.finished or self.closing):
                await self.changed.park()
            if self.last or not self.finished:  # there is more than an answer
                await self._send_all(http, keep_alive, 0)
            elif self._body is not None:
                body, self._body = self._body, None
                await http.respond(200, body, headers=self._session.headers)
            elif self._session.ended:
                raise no_session()
            else:  # the client has cancelled the request
                await http.respond(202, headers=self._session.headers)
        finally:
            self._end_reading()

    async def follow(self, http: HttpRequest, keep_alive: float, after: int) -> None:
        """Send the events that come after a number, as they come, until there are no more.

        Cancelled (the client left), whatever was not sent is kept.

        Raises:
            Refusal: Another request is reading it (409).
        """
        if self.reader is not None:
            raise Refusal(409, "This stream is being read already.")
        self._begin_reading(http, after)
        try:
            await self._send_all(http, keep_alive, after)
        finally:
            self._end_reading()

    def _begin_reading(self, http: HttpRequest, after: int) -> None:
        self.reader, self.sent, self.closing = http, after, False
        if self.last > after:  # a new one mostly has nothing yet
            self._unsent.extend(self._store.since(self.name, after))
            self._unsent_bytes = sum(len(line) for _, line in self._unsent)

    def _end_reading(self) -> None:
        self.reader = None
        self._unsent.clear()
        self._unsent_bytes = 0
        self._session.last_used = self._session.now()
        if self.changed:
            self.changed.unpark_all()
        if self.finished and not self._is_known:
            self._session.forget(self)
        elif self.finished and self.sent == self.last:
            self._session.was_sent(self)

    async def _send_all(self, http: HttpRequest, keep_alive: float, after: int) -> None:
        self._is_known = True
        self._record.begin(self._store, self.last, self.finished)
        await http.start_stream(self._session.headers)
        if self._session.primes:
            await http.send_id(f"{self.name}-{after}")
        await self._pass_on(http, keep_alive)
        if self.closing and not self.finished:
            await self._session.sharing.written()  # the client comes back at once, and to any
            milliseconds = round(self._session.options.retry * 1000)
            await http.send_raw(encode_event(b"", retry=milliseconds))
        await http.end_stream()

    async def _pass_on(self, http: HttpRequest, keep_alive: float) -> None:
        while True:
            while self._unsent:
                number, line = self._unsent[0]
                await http.send_event(line, id=f"{self.name}-{number}")
                self._unsent.popleft()
                self._unsent_bytes -= len(line)
                self.sent = number
                self.changed.unpark_all()
            now = trio.current_time()
            if self.closing or self.finished or now >= http.deadline:
                return
            with trio.move_on_at(min(now + keep_alive, http.deadline)) as quiet:
                await self.changed.park()
            if quiet.cancelled_caught and trio.current_time() < http.deadline:
                await http.send_comment()


class HttpSession:
    """One session. Its owner's other tokens may take the place of the first request's."""

    def __init__(
        self,
        server: Server,
        options: SessionOptions,
        http: HttpRequest,
        store: EventStore,
        slots: Slots,
        runner: Runner,
        id: str,
        sharing: SessionSharing,
        nursery: trio.Nursery,
        on_end: Callable[[], object],
    ) -> None:
        self.id: Final = id
        self._on_end = on_end
        self.sharing: Final = sharing
        self.owner: Final = http.owner
        # All instances name it alike, in logs and to handlers; its id lets people in.
        name = hashlib.sha256(id.encode()).hexdigest()[:16]
        self.session: Final = Session(
            name,
            address=http.client_address,
            network=HTTP,
            principal=http.principal,
            authorization=http.authorization,
        )
        self.headers: Final = [(b"mcp-session-id", self.id.encode())]
        self.store: Final = store
        self.max_unsent_bytes: Final = server.limits.max_outgoing_bytes
        self.requests: Final = OpenRequests(sharing.prefix)
        self._slots = slots
        self.inbound: Final = Inbound(
            Dispatcher(server, self.session), self._slots, self.requests.respond
        )
        self._runner = runner
        self.options: Final = options
        self._standalone: SessionStream | None = None
        self._streams: OrderedDict[str, SessionStream] = OrderedDict()
        self._sent: deque[SessionStream] = deque()
        self._numbers = count(1)
        self._nursery = nursery
        self._tasks: list[trio.CancelScope] = []  # those beside the calls
        self._watches = False  # the deadlines of questions
        self._tells = False  # of changes
        self._is_over = False
        self.expires = http.deadline
        """When the last of its owner's tokens expires, by Trio's clock."""
        self._began = perf_counter()
        self.now: Final = runner.now
        self.last_used = self.now()
        self._listener = server.catalogue.changes.listen(owner=self.owner)
        self.session.listener = self._listener.__enter__()
        self._listener.on_queued = self._tell_soon
        sharing.start(self._start_soon, self)

    @property
    def standalone(self) -> SessionStream:
        """The stream of what concerns no request. Made when it is needed: it often is not."""
        if self._standalone is None:
            stream = SessionStream(self.sharing.prefix + STANDALONE, self)
            self._standalone = self._streams[stream.name] = stream
        return self._standalone

    @property
    def primes(self) -> bool:
        """Whether streams begin with an event that has nothing but an id (since 2025-11-25)."""
        return self.session.caller.revision.primed_streams

    @property
    def busy(self) -> bool:
        return bool(self.inbound) or any(stream.reader for stream in self._streams.values())

    @property
    def ended(self) -> bool:
        return self._is_over or self.now() >= self.expires

    def _start_soon(self, task: Callable[[], Awaitable[object]]) -> None:
        """Run a task beside the calls, until the session ends."""
        self._nursery.start_soon(self._run_beside, task)

    async def _run_beside(self, task: Callable[[], Awaitable[object]]) -> None:
        if not self.ended:
            with trio.CancelScope() as scope:
                self._tasks.append(scope)
                try:
                    await task()
                finally:
                    self._tasks.remove(scope)

    def _tell_soon(self) -> None:
        if not self._tells:
            self._tells = True
            self._start_soon(self._tell)

    async def _tell(self) -> None:
        try:
            await send_rest(self._listener, self.standalone.send_notification)
        finally:
            self._tells = False

    async def ask(
        self, method: str, params: dict[str, Json], deadline: float, lines: SessionStream
    ) -> Json:
        """Ask the client on a stream. Most sessions ask nothing, and need no watch for it."""
        if not self._watches:
            self._watches = True
            self._start_soon(self.requests.watch)
        return await self.requests.send_on(lines, method, params, TimeLimit(deadline))

    def renew(self, deadline: float) -> None:
        """Let the session last until another token of its owner's expires, if that is later."""
        self.expires = max(self.expires, deadline)

    def end(self) -> None:
        """End it, and cancel what runs in it. After the first time nothing happens."""
        if self._is_over:
            return
        self._is_over = True
        self._on_end()
        self.inbound.cancel_all()
        self.requests.end("the session has ended")
        for stream in list(self._streams.values()):
            stream.finish(None)
            self.store.drop(stream.name)
        # They know the session, which would not be freed at once.
        self._streams.clear()
        self._sent.clear()
        self._standalone = None
        for scope in [*self._tasks]:
            scope.cancel()
        self._listener.__exit__()
        self.session.note_end(self._began)

    async def begin(self, message: Request, http: HttpRequest) -> Answer | SessionStream:
        """Answer a request at once, or have it answered on a stream.

        A client that leaves its calls alone cannot heap them up: while there is no slot for
        another, this waits. Cancelled meanwhile (the client left), the call is not begun.
        """
        stream = SessionStream(f"{self.sharing.prefix}{next(self._numbers)}", self, message)
        session = self.session  # each request keeps the token, and the headers, it came with
        session.authorization, session.headers = http.authorization, http.headers
        request = self.inbound.admit(message, stream)
        session.headers = None
        if not isinstance(request, InboundRequest):
            if is_setting(message.method):
                await self.sharing.settle()
            return request
        self._keep(stream)
        try:
            if request.waiting_in is not None:
                await wait_for_slots(request, self._slots)
                if self.ended:  # meanwhile: the nursery may take no more tasks
                    raise no_session()
        except BaseException:
            self.inbound.close(request)
            self.forget(stream)
            raise
        body = http.take_long_body()  # the call may outlast the request that brought it
        self._nursery.start_soon(self._run_call, request, body, name=request.label)
        return stream

    async def _run_call(self, request: InboundRequest, body: LongBody | None) -> None:
        try:
            await self._runner.run(request)
        finally:
            self.last_used = self.now()
            if body is not None:
                body.leave()

    # -- streams --------------------------------------------------------------------------

    def _keep(self, stream: SessionStream) -> None:
        self._streams[stream.name] = stream
        if len(self._streams) > self.options.max_events:
            for old in self._streams.values():
                if old.finished and old.reader is None:  # no client has come back to it so far
                    self.forget(old)
                    break

    def was_sent(self, stream: SessionStream) -> None:
        """Keep a stream that was sent to its end for as long as it is one of the last."""
        if self._is_over:
            return
        self._sent.append(stream)
        if len(self._sent) > _KEPT:
            self.forget(self._sent.popleft())

    def forget(self, stream: SessionStream) -> None:
        """Forget a stream: no client can come back to it."""
        if stream is not self._standalone:
            self._streams.pop(stream.name, None)
            stream.drop()

    def resumed(self, event_id: str) -> tuple[EventStream, int]:
        """Find the stream of an event, and its number in it; refuse it if there is none (400)."""
        name, _, number = event_id.rpartition("-")
        if not _NUMBER.fullmatch(number):
            raise no_stream()
        stream = self._streams.get(name)
        if stream is None:
            return self.sharing.resume(name, int(number))
        after = min(int(number), stream.last)
        if stream.finished and after < stream.last and not self.store.since(name, after):
            raise Refusal(400, "What came after that Last-Event-ID is not kept any more.")
        return stream, after

    # -- other replicas -----------------------------------------------------------------------

    async def take(self, message: Notification | Response) -> None:
        """Take note of what needs no answer; what is for another replica goes there."""
        if not await self.sharing.forward(message):
            self.inbound.note(message)

    async def settle_for(self, batch: Batch) -> None:
        """Let other replicas know of what a batch has set, if it has set anything."""
        if any(isinstance(part, Request) and is_setting(part.method) for part in batch.messages):
            await self.sharing.settle()
