"""A session of a legacy client: what outlives a single HTTP request.

A session has streams of events: one for each request that is being answered, and one for what
concerns no request. A call runs in the session, not in the HTTP request that brought it, so a
client that loses its connection finds the events when it comes back with `Last-Event-ID`. What
nobody fetches is kept within bounds.

Where several instances share a store, this is one instance's half of a session; its `SharedSession`
joins it to the others.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections import OrderedDict, deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from trio_mcp.auth.authorization import Authorization
from trio_mcp.peer.channel import ReplyChannel
from trio_mcp.peer.inbound import Inbound, InboundRequest, Slots
from trio_mcp.peer.requests import OutgoingRequests
from trio_mcp.peer.runner import Runner, wait_for_slots
from trio_mcp.peer.time_limits import TimeLimit
from trio_mcp.registry.changes import ListChanged, ResourceUpdated
from trio_mcp.registry.invalid import holds_many
from trio_mcp.server.caller import Caller
from trio_mcp.server.dispatcher import Dispatcher
from trio_mcp.server.server import Server
from trio_mcp.server.session import Session
from trio_mcp.server.subscriptions import send_changes
from trio_mcp.store.errors import StoreError
from trio_mcp.transports.http.events import EventStore
from trio_mcp.transports.http.policy import HttpPolicy
from trio_mcp.transports.http.request import HttpRequest, Refusal, pieces_of
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError
from trio_mcp.wire.jsonrpc import (
    Batch,
    Id,
    Json,
    Notification,
    Request,
    Response,
    decode,
    error_line,
    is_id,
    result_line,
    trimmed,
)
from trio_mcp.wire.revisions import LEGACY
from trio_mcp.wire.settings import is_setting

if TYPE_CHECKING:  # few servers share a store
    from trio_mcp.transports.http.sharing.session import SharedSession
    from trio_mcp.transports.http.sharing.stream import ElsewhereStream

logger = logging.getLogger("trio_mcp.http")

_STANDALONE: Final = "0"
_UNSENT: Final = 100
"""Events that a client which is there may be behind before whoever speaks has to wait."""

_KEPT: Final = 100
"""Streams that were sent to their end, but are kept: some of it may never have arrived."""

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_ELSEWHERE: Final = re.compile(r"[0-9a-f]{12}\.[0-9]{1,18}")

_UNTOLD: Final = McpError(INTERNAL_ERROR, "The other instances cannot be told of it now; try again")


class SessionStream(ReplyChannel):
    """One stream of events, and the `LineQueue` of our requests that belong to it."""

    cannot_ask = None

    def __init__(self, name: str, session: HttpSession, request: Request | None = None) -> None:
        self.name: Final = name
        self._session = session
        self._store = session.store
        self._request_id: Id | None = None if request is None else request.id
        self._is_setting = request is not None and is_setting(request.method)
        self._recorded = False  # for who comes back to another instance
        self._unsent: deque[tuple[int, bytes]] = deque()  # what the reader is to get
        self._unsent_bytes = 0
        self.last = 0
        """The number of the last event."""
        self.sent = 0
        """The number of the last event that was sent."""
        self.reader: HttpRequest | None = None
        """Who is being sent the events, or will be."""
        self.finished = False
        """There will be no more events."""
        self._answered = False  # the last one is the answer
        self.closing = False
        """The reader is to go, and to come back."""
        self.changed: Final = trio.lowlevel.ParkingLot()

    # -- writing ---------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Whether a reader is too far behind."""
        return len(self._unsent) > _UNSENT or self._unsent_bytes > self._session.max_unsent_bytes

    async def wait_for_room(self) -> None:
        """Wait until that is not so."""
        while self.full:
            await self.changed.park()
        if self._session.shared is not None:
            await self._session.shared.wait_for_room()

    def put_nowait(self, line: bytes) -> None:
        """Add an event, unless there was the last one already."""
        if not self.finished:  # of a session that has ended, say, nothing is kept
            self._add(line)
            self.changed.unpark_all()

    def _add(self, line: bytes) -> None:
        line = trimmed(line)
        self.last = self._store.append(self.name, line)
        if self.reader is not None:
            self._unsent.append((self.last, line))
            self._unsent_bytes += len(line)
        if self._recorded:
            self._record(line)

    async def send_notification(self, line: bytes) -> None:
        """Send a notification, once there is room."""
        await self.wait_for_room()
        self.put_nowait(line)

    def send_notification_nowait(self, line: bytes) -> None:
        """Send a notification, whether there is room or not."""
        self.put_nowait(line)

    async def send_request(self, method: str, params: dict[str, Json], deadline: float) -> Json:
        """Send a request to the client, on this stream."""
        return await self._session.requests.send(method, params, TimeLimit(deadline), lines=self)

    async def send_response(self, line: bytes | None, *, overdue: bool = False) -> None:
        """Add the last event. Nobody waits for room: what was answered is kept, read or not."""
        if self._is_setting and self._session.shared is not None:
            try:
                await self._session.settle()
            except StoreError as error:
                logger.warning("%s", error)
                assert self._request_id is not None
                line = error_line(self._request_id, _UNTOLD)
        self.finish(line)

    def close_sse_stream(self) -> None:
        """Have the reader go, and come back for the rest, if it knows how to."""
        if self.reader is not None and self._session.primes:
            self.closing = True
            self.changed.unpark_all()

    def finish(self, line: bytes | None) -> None:
        """Add the last event, if there is one. After the first time nothing happens."""
        if self.finished:
            return
        if line is not None:
            self._add(line)
            self._answered = True
        self.finished = True
        if self._recorded:
            self._record(b"")
        self.changed.unpark_all()

    def _begin_recording(self) -> None:
        """Have the events kept where other instances find them, from now on.

        A client that was sent none yet has nothing to come back for.
        """
        kept = self._store.since(self.name, 0)
        if self._request_id is None or self._recorded or len(kept) != self.last:
            return
        assert self._session.shared is not None
        self._recorded = True
        self._session.shared.begin_stream(self.name, self._request_id)
        for _, line in kept:
            self._record(line)
        if self.finished:
            self._record(b"")

    def _record(self, line: bytes) -> None:
        assert self._session.shared is not None
        self._session.shared.record(self.name, line)

    # -- reading --------------------------------------------------------------------------

    async def answer(self, http: HttpRequest, policy: HttpPolicy) -> None:
        """Answer the request that it belongs to: with JSON, unless something is said before.

        Cancelled (the client left), whatever was not sent is kept.
        """
        self._begin_reading(http, 0)
        try:
            while not (self.last or self.finished or self.closing):
                await self.changed.park()
            if not self.finished or self.last > self._answered:  # there is more than an answer
                await self._send_all(http, policy, 0)
                return
            self._session.forget(self)  # the client knows of no event to come back to
            if self._unsent:
                body = pieces_of(self._unsent.popleft()[1][:-1])
                await http.respond(200, body, headers=self._session.headers)
            elif self._session.ended:
                raise no_session()
            else:  # the client has cancelled the request
                await http.respond(202, headers=self._session.headers)
        finally:
            self._end_reading()

    async def follow(self, http: HttpRequest, policy: HttpPolicy, after: int) -> None:
        """Send the events that come after a number, as they come, until there are no more.

        Cancelled (the client left), whatever was not sent is kept.

        Raises:
            Refusal: Somebody is reading it (409).
        """
        if self.reader is not None:
            raise Refusal(409, "This stream is being read already.")
        self._begin_reading(http, after)
        try:
            await self._send_all(http, policy, after)
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
        if self.finished and self.sent == self.last:
            self._session.was_sent(self)

    async def _send_all(self, http: HttpRequest, policy: HttpPolicy, after: int) -> None:
        if self._session.shared is not None:
            self._begin_recording()
        await http.start_stream(self._session.headers)
        if self._session.primes:
            await http.send_id(f"{self.name}-{after}")
        await self._pass_on(http, policy)
        if self.closing and not self.finished:
            if self._session.shared is not None:  # the client comes back at once, and to anybody
                await self._session.shared.written()
            await http.send_retry(policy.retry)
        await http.end_stream()

    async def _pass_on(self, http: HttpRequest, policy: HttpPolicy) -> None:
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
            with trio.move_on_at(min(now + policy.keep_alive, http.deadline)) as quiet:
                await self.changed.park()
            if quiet.cancelled_caught and trio.current_time() < http.deadline:
                await http.send_comment()


def _connection_id(session: str) -> str:
    """Name a session in logs and to handlers, at all instances alike: its id lets people in."""
    return hashlib.sha256(session.encode()).hexdigest()[:16]


class HttpSession:
    """One session.

    Args:
        server: What is served.
        policy: The bounds to keep.
        http: Its first request. Its owner's other tokens may take the place of that one's.
        store: Keeps its events.
        slots: Those for calls that all sessions share.
        runner: Runs the calls.
        id: Its id.
        shared: What joins it to the halves that other instances have, if there are others.
    """

    def __init__(
        self,
        server: Server,
        policy: HttpPolicy,
        http: HttpRequest,
        store: EventStore,
        slots: Slots,
        runner: Runner,
        id: str,
        shared: SharedSession | None = None,
    ) -> None:
        self.id: Final = id
        self.shared: Final = shared
        self.principal: Final = http.principal
        self.owner: Final = http.owner
        """To whose share of all sessions it counts."""
        self.session: Final = Session(
            _connection_id(id), principal=http.principal, authorization=http.authorization
        )
        """What is known of the client."""
        self.headers: Final = [(b"mcp-session-id", self.id.encode())]
        self.store: Final = store
        self.max_unsent_bytes: Final = server.limits.max_outgoing_bytes
        self._prefix = "" if shared is None else shared.prefix
        self.standalone: Final = SessionStream(self._prefix + _STANDALONE, self)
        """The stream of what concerns no request."""
        self.requests: Final = OutgoingRequests(self.standalone, self._prefix)
        """Our own requests to the client."""
        self._slots = Slots(server.limits.max_concurrent_calls, slots)
        self.inbound: Final = Inbound(
            Dispatcher(server, self.session),
            self._slots,
            self.requests.respond,
        )
        """The requests that the client has open."""
        self._changes = server.registry.changes
        self._runner = runner
        self._policy = policy
        self._streams: OrderedDict[str, SessionStream] = OrderedDict(
            {self.standalone.name: self.standalone}
        )
        self._sent: deque[SessionStream] = deque()
        self._names = 0
        self._scope = trio.CancelScope(deadline=http.deadline)
        self._is_over = False
        self._nursery: trio.Nursery | None = None
        self.now: Final = runner.now
        self.last_used = self.now()

    @property
    def primes(self) -> bool:
        """Whether streams begin with an event that has nothing but an id (since 2025-11-25)."""
        return self.session.caller.revision.primed_streams

    @property
    def busy(self) -> bool:
        """Whether somebody waits for something."""
        return bool(self.inbound) or any(each.reader is not None for each in self._streams.values())

    def note_use(self) -> None:
        """Have it last where other instances find it, too."""
        if self.shared is not None:
            self.shared.note_use()

    @property
    def ended(self) -> bool:
        """Whether there is an end to it."""
        return self._scope.cancel_called

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the session, until `end` or cancelled."""
        with self._scope, self._changes.listen() as self.session.listener:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self.requests.watch)
                send = self.standalone.send_notification
                self._nursery.start_soon(partial(send_changes, self.session.listener, send))
                if self.shared is not None:
                    self._nursery.start_soon(self.shared.run, self)
                task_status.started()
                await trio.sleep_forever()

    def renew(self, deadline: float) -> None:
        """Let the session last until another token of its owner's expires, if that is later."""
        if deadline > self._scope.deadline:
            self._scope.deadline = deadline

    def end(self) -> None:
        """End the session: calls are cancelled and streams closed."""
        if self._is_over:
            return
        self._is_over = True
        self.inbound.cancel_all()
        self.requests.end("the session has ended")
        for stream in list(self._streams.values()):
            stream.finish(None)
            self.store.drop(stream.name)
        self._scope.cancel()

    async def begin(
        self, message: Request, authorization: Authorization | None
    ) -> bytes | SessionStream:
        """Answer a request at once, or have it answered on a stream.

        Args:
            message: The request.
            authorization: What the token that it came with allows.

        A client that leaves its calls alone cannot heap them up: while there is no slot for
        another, this waits. Cancelled meanwhile (the client left), the call is not begun.
        """
        stream = SessionStream(self._next_name(), self, message)
        self.session.authorization = authorization  # each request keeps the one it came with
        request = self.inbound.admit(message, stream)
        if isinstance(request, bytes):
            if self.shared is not None and is_setting(message.method):
                await self.settle()
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
        assert self._nursery is not None
        self._nursery.start_soon(self._run_call, request, name=request.label)
        return stream

    async def _run_call(self, request: InboundRequest) -> None:
        try:
            await self._runner.run(request)
        finally:
            self.last_used = self.now()

    # -- streams --------------------------------------------------------------------------

    def _next_name(self) -> str:
        self._names += 1
        return f"{self._prefix}{self._names}"

    def _keep(self, stream: SessionStream) -> None:
        self._streams[stream.name] = stream
        if len(self._streams) > self._policy.max_events:
            for each in self._streams.values():
                if each.finished and each.reader is None:  # nobody has come back to it so far
                    self.forget(each)
                    break

    def was_sent(self, stream: SessionStream) -> None:
        """Keep a stream that was sent to its end for as long as it is one of the last."""
        self._sent.append(stream)
        if len(self._sent) > _KEPT:
            self.forget(self._sent.popleft())

    def forget(self, stream: SessionStream) -> None:
        """Forget a stream: nobody can come back to it."""
        if stream is not self.standalone:
            self._streams.pop(stream.name, None)
            self.store.drop(stream.name)

    def resumed(self, event_id: str) -> tuple[SessionStream | ElsewhereStream, int]:
        """Find the stream of an event, and the event's number in it.

        Raises:
            Refusal: There is no such stream, or not any more.
        """
        name, _, number = event_id.rpartition("-")
        stream = self._streams.get(name)
        if not _NUMBER.fullmatch(number):
            raise _no_stream()
        if stream is None:
            return self._resumed_elsewhere(name, int(number))
        after = min(int(number), stream.last)
        if stream.finished and after < stream.last and not self.store.since(name, after):
            raise Refusal(400, "What came after that Last-Event-ID is not kept any more.")
        return stream, after

    # -- the halves of other instances --------------------------------------------------------

    def _resumed_elsewhere(
        self, name: str, number: int
    ) -> tuple[SessionStream | ElsewhereStream, int]:
        if self.shared is None or not _ELSEWHERE.fullmatch(name):
            raise _no_stream()
        if name.endswith(f".{_STANDALONE}"):  # it goes on here; what was missed may be anything
            self._tell_again()
            return self.standalone, self.standalone.sent
        from trio_mcp.transports.http.sharing.stream import ElsewhereStream

        return ElsewhereStream(name, self.shared, self.headers, self.primes), number

    def _tell_again(self) -> None:
        listener = self.session.listener
        assert listener is not None
        for kind in listener.kinds:
            listener.note(ListChanged(kind))
        for uri in listener.uris:
            listener.note(ResourceUpdated(uri))

    async def share(self) -> None:
        """Let other instances know of the session, once it has begun.

        Raises:
            Refusal: Its client says so much of itself that to read it again takes long.
        """
        if self.shared is not None:
            about = self._about()
            if holds_many(about):
                raise Refusal(400, "The handshake says more of the client than is remembered.")
            await self.shared.begin(about)

    async def take(self, message: Notification | Response) -> None:
        """Take note of what needs no answer; what is for another half of the session goes there."""
        if not await self.forward(message):
            self.inbound.take(message, self.standalone)

    async def forward(self, message: object) -> bool:
        """Let other halves have a cancellation, or an answer, that is not for this one.

        Returns:
            Whether it was such a message.
        """
        elsewhere = None if self.shared is None else self._for_others(message)
        if elsewhere is None:
            return False
        assert self.shared is not None
        await self.shared.forward(elsewhere)
        return True

    def _for_others(self, message: object) -> dict[str, Json] | None:
        if isinstance(message, Response):
            return self._answer_for_others(message)
        if not isinstance(message, Notification) or message.method != "notifications/cancelled":
            return None
        id = message.params.get("requestId")
        return {"cancel": id} if is_id(id) and id not in self.inbound else None

    def _answer_for_others(self, answer: Response) -> dict[str, Json] | None:
        id, error = answer.id, answer.error
        if not isinstance(id, str) or not _ELSEWHERE.fullmatch(id) or self.requests.get(id):
            return None
        line = result_line(id, answer.result) if error is None else error_line(id, error)
        return {"answer": line.decode()}

    def cancelled_elsewhere(self, id: Id) -> None:
        """Cancel a request: its cancellation has reached another instance."""
        if id in self.inbound:
            self.inbound.note(Notification("notifications/cancelled", {"requestId": id}))

    def answered_elsewhere(self, line: bytes) -> None:
        """Take a response that has reached another instance."""
        message = decode(line)
        if isinstance(message, Response):
            self.inbound.note(message)

    def _about(self) -> dict[str, Json]:
        caller, listener = self.session.caller, self.session.listener
        return {
            "revision": caller.revision.name,
            "capabilities": caller.capabilities,
            "clientInfo": caller.client_info,
            "principal": self.principal,
            "logLevel": self.session.log_level,
            "kinds": [] if listener is None else sorted(listener.kinds),
            "uris": [],
        }

    def changed_elsewhere(self, about: dict[str, Any]) -> None:
        """Learn what another half knows of the session."""
        self.session.caller = Caller(
            LEGACY[about["revision"]], about["capabilities"], about["clientInfo"]
        )
        self.session.log_level = about["logLevel"]
        listener = self.session.listener
        assert listener is not None
        listener.kinds = set(about["kinds"])
        for uri in set(about["uris"]) - listener.uris.keys():
            listener.watch(uri)
        for uri in listener.uris.keys() - set(about["uris"]):
            listener.unwatch(uri)

    async def settle_for(self, batch: Batch) -> None:
        """Do the same as `settle`, if a batch has changed anything of it."""
        settings = (
            isinstance(each, Request) and is_setting(each.method) for each in batch.messages
        )
        if self.shared is not None and any(settings):
            await self.settle()

    async def settle(self) -> None:
        """Let the other halves know of the log level and of the subscriptions.

        Raises:
            StoreError: They cannot be told.
        """
        assert self.shared is not None
        assert self.session.listener is not None
        known, level = set(self.shared.about["uris"]), self.session.log_level
        # Seen before anything is awaited, in which another half may change the same.
        new, gone = (
            self.session.listener.uris.keys() - known,
            known - self.session.listener.uris.keys(),
        )
        await self.shared.change(
            logLevel=lambda _: level, uris=lambda uris: sorted((set(uris) | new) - gone)
        )
        self.changed_elsewhere(self.shared.about)


def _no_stream() -> Refusal:
    return Refusal(400, "There is no stream with that Last-Event-ID, or not any more.")


def no_session() -> Refusal:
    """Refuse a request of a session that there is not (404)."""
    return Refusal(404, "There is no such session (any more); send initialize again.")
