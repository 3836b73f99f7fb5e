"""The requests that the other side has open: a state machine without I/O.

    admit ──▶ running ──▶ answered ──▶ closed
       │         ▲ ▲          ▲
       │  a slot │ └─ cancel ─┘  by the call itself, or in its place when it is overdue
       ▼         │
    waiting ─────┘

Here it is decided, in values and without Trio, whether a request is a duplicate, may run or must
wait for a slot, is part of a batch, and has been answered. What carries messages (a stream, an
HTTP request, a call in this process) does what is decided: it runs the call (`Runner`), sends the
line, and reports back with `answer` and `close`.

"Answered exactly once" is a property of `answer`, and of nothing else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import AbstractContextManager
from enum import Enum
from math import inf
from typing import ClassVar, Final, Protocol

from trio_mcp.loggers import logger_of
from trio_mcp.peer.cancellation import PeerReason, peer_reason, read_cancellation
from trio_mcp.peer.channel import ReplyChannel
from trio_mcp.wire.answers import Answer, BatchAnswer, Reply
from trio_mcp.wire.errors import BUSY, INTERNAL_ERROR, INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import (
    UNKNOWN_ID,
    Batch,
    Id,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    Single,
)

logger = logger_of("trio_mcp")

_DUPLICATE: Final = McpError(INVALID_REQUEST, "Invalid request: this id is already in use")
_NO_BATCHES: Final = McpError(
    INVALID_REQUEST, "Invalid request: the revision that was agreed on has no batches"
)
_STOPPING: Final = McpError(INTERNAL_ERROR, "Server is shutting down")
_BUSY: Final = McpError(BUSY, "Too many requests wait; try again when some have been answered")
_LEAST_BYTES: Final = 1024
"""A waiting request counts at least this much, for what it occupies besides its message."""


class Cause(Enum):
    """Why a request was cancelled before its deadline."""

    PEER = "cancelled by the peer"
    SHUTDOWN = "shutdown"


class Scope(AbstractContextManager[object, bool], Protocol):
    """What a call runs in (a `trio.CancelScope`)."""

    deadline: float
    """When it is cancelled by itself, by Trio's clock."""
    cancelled_caught: bool
    """Whether the work was ended by it."""

    @property
    def cancel_called(self) -> bool:
        """Whether it is cancelled, for whatever reason."""

    def cancel(self, *, reason: str | None = None) -> None:
        """End what runs in it; the exceptions that end it say why."""


class Handler(Protocol):
    """Who deals with what comes in from one peer."""

    @property
    def takes_batches(self) -> bool:
        """Whether what was agreed on with the peer has batches."""

    def begin(self, request: Request, in_batch: bool) -> Answer | InboundRequest:
        """Answer a request at once, or return it as one that takes time."""

    def notified(self, notification: Notification) -> None:
        """Take note of a notification."""

    def malformed(self, message: Malformed, line: bytes) -> McpError | None:
        """Return the answer to what is not a message, if it deserves one."""


class Carrier(Protocol):
    """What carries messages, to a request that needs no task (a connection)."""

    @property
    def now(self) -> Callable[[], float]:
        """Tells the time."""

    @property
    def is_full(self) -> bool:
        """Whether an answer would have to wait until others are written."""

    def finish(self, request: InboundRequest, answer: Answer | None) -> None:
        """Answer a request, and close it."""

    def run_in_task(self, request: InboundRequest) -> None:
        """Run a request in a task, after all."""


class Overseer(Protocol):
    """Who answers a request in place of its work, if that goes on after its end (a `Runner`)."""

    def end_changed(self, request: InboundRequest) -> None:
        """Take note that a request was cancelled, or that its deadline was moved."""


class InboundRequest:
    """A request of the other side that takes time, from its admission until it is closed.

    A subclass does the work: it is the call, which runs in a task of its own.
    """

    inbound: Inbound
    id: Id
    key: Hashable
    channel: ReplyChannel
    """The way back to its sender."""
    batch: BatchAnswer | None
    size: int
    """Bytes that it counts for while it waits."""

    has_slots = False
    lent = False
    """Whether it has lent the slot that it shares with others."""
    waiting_in: Slots | None = None
    """Where it waits for a slot; `None` if it does not wait."""
    start: Callable[[InboundRequest], None] | None = None
    """Called when it leaves a queue: to wait in the next one, to be run, or to be answered."""
    scope: Scope | None = None
    """What its work runs in; `None` until it runs."""
    started = 0.0
    """When its work began, by Trio's clock."""
    overseer: Overseer | None = None
    """Who has to know when it was cancelled, and when its deadline was moved."""
    due = inf
    """When it is answered without its work, by Trio's clock."""
    cause: Cause | None = None
    """Why it was cancelled; `None` while it is not, or when its deadline passed."""
    answered = False
    reply: Reply | None = None
    """What to send, once it is answered."""

    left_open = False
    """Whether it has left a cancel scope or a nursery open in its task."""

    long_lived: ClassVar[bool] = False
    """Whether it goes on until it is cancelled, and so needs no slot."""
    may_notify = False
    """Whether it may send something before its response, from any task."""

    relay: Callable[[Carrier], bool] | None = None
    """Passes it on, if it needs no task until its answer is there. Returns whether it does so."""

    def withdraw(self, reason: PeerReason | None) -> None:
        """End what `relay` has begun, and answer it: it was cancelled."""

    @property
    def timeout(self) -> float:
        """Seconds that it may take."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """What it is, for the log."""
        raise NotImplementedError

    def run(self, scope: Scope) -> Awaitable[Answer | None]:
        """Do the work inside the scope and return the answer; `None` for none."""
        raise NotImplementedError

    def unfinished(self) -> Answer | None:
        """Return the answer to it when it was cancelled, whether or not it has ended."""
        raise NotImplementedError

    def open(
        self,
        inbound: Inbound,
        id: Id,
        key: Hashable,
        channel: ReplyChannel,
        batch: BatchAnswer | None,
        size: int,
    ) -> None:
        """Begin as `Inbound.admit` says, once a handler has made it."""
        self.inbound = inbound
        self.id = id
        self.key = key
        self.channel = channel
        self.batch = batch
        self.size = size
        # All that is set later, too: the first instance decides which attributes Python keeps
        # without a dictionary for each instance. And the class is a slow place to find them.
        self.waiting_in = self.cause = self.scope = self.overseer = self.reply = None
        self.has_slots = self.lent = self.answered = self.left_open = False
        self.started, self.due = 0.0, inf

    def move_deadline(self, deadline: float) -> None:
        """Give the work more time, or less."""
        if self.scope is not None:
            self.scope.deadline = deadline
            if self.overseer is not None:
                self.overseer.end_changed(self)


class Slots:
    """Slots for calls that run at the same time, and the queue of those that wait for one.

    Args:
        count: How many there are.
        shared: Slots of which each call needs one as well, such as those of a whole app.
    """

    __slots__ = ("__weakref__", "_queue", "_shared", "free", "waiting")

    def __init__(self, count: int, shared: Slots | None = None) -> None:
        self.free = count
        self._shared = shared
        # Made when it is needed: there are slots for each client, and for each session.
        self._queue: OrderedDict[InboundRequest, None] | None = None
        self.waiting = 0
        """How many queue here, and for slots that share these."""

    @property
    def _common(self) -> Slots:
        """Those that all share. Slots that referred to themselves would not be freed at once."""
        slots = self
        while slots._shared is not None:
            slots = slots._shared
        return slots

    def take(self, request: InboundRequest) -> bool:
        """Take a slot here and a shared one, or queue for what is missing; returns if both."""
        slots: Slots | None = self
        while slots is not None:
            if not slots.free:
                queue = slots._queue = slots._queue or OrderedDict()
                queue[request] = None
                self._common.waiting += 1
                request.waiting_in = slots
                return False
            slots.free -= 1
            slots = slots._shared
        request.has_slots = True
        return True

    def give_back(self, request: InboundRequest) -> None:
        """Give back what a request has, or leave the queue that it is in. The next ones move up."""
        missing = request.waiting_in
        if missing is not None:
            self._leave(missing, request)
            request.waiting_in = None
        elif not request.has_slots:
            return
        elif request.lent:
            missing, request.lent = self._common, False
        request.has_slots = False
        slots: Slots | None = self
        while slots is not None and slots is not missing:
            slots.free += 1
            if slots._queue:
                slots._move_up()
            slots = slots._shared

    def lend(self, request: InboundRequest) -> bool:
        """Give back the slot that others could need, while a request waits for something.

        That is the one that is shared by all. What it has of the others bounds how many of their
        requests wait so.

        Returns:
            Whether it was waiting to get that slot back, and does so no more.
        """
        common = self._common
        waits = request.waiting_in is common
        if common is self or request.lent or not (waits or request.has_slots):
            return False
        request.lent = True
        if waits:
            self._leave(common, request)
            request.waiting_in = None
        else:
            common.free += 1
            common._move_up()
        return waits

    def take_back(self, request: InboundRequest) -> bool:
        """Take again what was lent, or queue for it. Returns whether it queues."""
        if not request.lent:
            return False
        request.lent = False
        return not self._common.take(request)

    def _leave(self, missing: Slots, request: InboundRequest) -> None:
        assert missing._queue is not None
        del missing._queue[request]
        self._common.waiting -= 1

    def _move_up(self) -> None:
        if self.free and self._queue:
            request = next(iter(self._queue))
            self._leave(self, request)
            request.waiting_in = None
            self.take(request)  # it may have to queue for what is shared now
            request.inbound.leave_queue(request)


class Inbound:
    """The requests that one peer has open.

    Args:
        on_response: Takes the responses to requests of ours.
        on_change: Called when less waits, and when nothing is open any more.
        is_full: Tells whether what would have to wait for a slot is refused, by the bytes of those
            that wait already.

    A function that refers to what owns this object would make a cycle, which is not freed at once.
    """

    def __init__(
        self,
        handler: Handler,
        slots: Slots,
        on_response: Callable[[Response], object] = lambda response: None,
        on_change: Callable[[], object] = lambda: None,
        is_full: Callable[[int], bool] = lambda waiting: False,
    ) -> None:
        self._handler = handler
        self._slots = slots
        self._on_response = on_response
        self._on_change = on_change
        self._is_full = is_full
        self._open: dict[Hashable, InboundRequest] = {}
        self.waiting_bytes = 0
        """Bytes of the requests that wait for a slot."""
        self.draining = False
        """Whether new requests are refused."""

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._open

    def __iter__(self) -> Iterator[InboundRequest]:
        """Those that are open, oldest first."""
        return iter(list(self._open.values()))

    # -- what comes in --------------------------------------------------------------------

    def admit(
        self,
        request: Request,
        channel: ReplyChannel,
        size: int = 0,
        batch: BatchAnswer | None = None,
        key: Hashable = None,
    ) -> Answer | InboundRequest:
        """Take a request.

        Args:
            request: The request.
            channel: The way back to its sender.
            size: Bytes that it counts for while it waits.
            batch: The batch that it is part of.
            key: What tells it from others, where ids do not.

        Returns:
            The answer at once; or the open request, which has to be run: now or,
            while it is `waiting_in` a queue, when its `start` is called.
        """
        if key is None:
            key = request.id
        if key in self._open:
            return _DUPLICATE
        if self.draining:
            return _STOPPING
        opened = self._handler.begin(request, batch is not None)
        if not isinstance(opened, InboundRequest):
            return opened
        opened.open(self, request.id, key, channel, batch, size)
        if not (opened.long_lived or self._slots.take(opened)):
            if self._is_full(self.waiting_bytes):
                self._slots.give_back(opened)
                return _BUSY
            self.waiting_bytes += max(size, _LEAST_BYTES)
        self._open[key] = opened
        return opened

    def take(
        self, message: Message, channel: ReplyChannel, line: bytes = b""
    ) -> tuple[list[InboundRequest], Reply | None]:
        """Take whatever came: requests are admitted, notifications and responses noted.

        Returns:
            The requests that were opened, as `admit` returns them, and what to send at once.
        """
        if isinstance(message, Batch) and not self._handler.takes_batches:
            message = Malformed(UNKNOWN_ID, _NO_BATCHES, message.size)
        if not isinstance(message, Batch):
            return self._take_one(message, channel, line, None)
        wanted = sum(1 for single in message.messages if isinstance(single, Request | Malformed))
        batch = BatchAnswer(wanted)
        opened: list[InboundRequest] = []
        whole = None
        for single in message.messages:
            more, answer = self._take_one(single, channel, line, batch)
            opened += more
            whole = whole or answer  # only the last answer makes the batch whole
        return opened, whole

    def _take_one(
        self, message: Single, channel: ReplyChannel, line: bytes, batch: BatchAnswer | None
    ) -> tuple[list[InboundRequest], Reply | None]:
        answer: Answer | None
        if isinstance(message, Request):
            admitted = self.admit(message, channel, len(line), batch)
            if isinstance(admitted, InboundRequest):
                return [admitted], None
            answer = admitted
        elif isinstance(message, Malformed):
            answer = self._handler.malformed(message, line)
        else:
            self.note(message)
            return [], None
        return [], answer if batch is None else batch.add(message.id, answer)

    def note(self, message: Notification | Response) -> None:
        """Take note of what needs no answer."""
        if isinstance(message, Response):
            self._on_response(message)
        elif not self._cancelled(message):
            self._handler.notified(message)  # a cancellation may be about a request of ours

    def _cancelled(self, notification: Notification) -> bool:
        params = read_cancellation(notification)
        request = None if params is None else self._open.get(params.request_id)
        if params is None or request is None:
            return False
        reason = peer_reason(params.reason)
        logger.debug("Request cancelled by the peer: %s (%s)", request.label, reason)
        self.cancel(request, Cause.PEER, reason)
        return True

    # -- how it goes on -------------------------------------------------------------------

    def cancel(
        self, request: InboundRequest, cause: Cause, reason: PeerReason | None = None
    ) -> None:
        """End a request's work. The first cause counts."""
        if request.cause is None:
            request.cause = cause
        if request.scope is not None:
            request.scope.cancel(reason=reason)
            if request.overseer is not None:
                request.overseer.end_changed(request)
        elif request.waiting_in is not None:
            self._slots.give_back(request)
            self.leave_queue(request)
        else:
            request.withdraw(reason)

    def leave_queue(self, request: InboundRequest) -> None:
        """Go on with a request that has got a slot, or was cancelled while it waited for one."""
        if request.waiting_in is None:
            self.waiting_bytes -= max(request.size, _LEAST_BYTES)
            self._on_change()
        if request.start is not None:
            request.start(request)

    def answer(self, request: InboundRequest, answer: Answer | None) -> bool:
        """Take the answer to a request, from its call or in place of it.

        Args:
            request: The request.
            answer: The answer; `None` for none. What its sender has cancelled gets none.

        Returns:
            Whether it is the first. Then `request.reply` has to be sent.
        """
        if request.answered:
            return False
        request.answered = True
        if request.cause is not None:  # few are cancelled, and members of enums are slow to find
            answer = None if request.cause is Cause.PEER else answer
        batch = request.batch
        request.reply = answer if batch is None else batch.add(request.id, answer)
        return True

    def release(self, request: InboundRequest) -> None:
        """Let others have the slots of a request that goes on: from now on it mostly waits."""
        self._slots.give_back(request)

    def lend_slot(self, key: Hashable) -> InboundRequest | None:
        """Let others have the slot that they could need, while a request waits for a person.

        Returns:
            The request that has lent it, for `take_slot_back`; `None` if it is closed.
        """
        request = self._open.get(key)
        if request is not None and self._slots.lend(request):
            self.leave_queue(request)
        return request

    def take_slot_back(self, request: InboundRequest) -> bool:
        """Take the slot again that was lent. Returns whether the request has to wait for it."""
        waits = self._open.get(request.key) is request and self._slots.take_back(request)
        if waits:
            self.waiting_bytes += max(request.size, _LEAST_BYTES)
        return waits

    def close(self, request: InboundRequest) -> None:
        """Forget a request whose work has ended, and let the next ones have its slots."""
        del self._open[request.key]
        request.reply = request.batch = None  # which may know of the request, and make a cycle
        waited = request.waiting_in is not None
        if waited:
            self.waiting_bytes -= max(request.size, _LEAST_BYTES)
        self._slots.give_back(request)
        if waited or not self._open:
            self._on_change()

    # -- the end --------------------------------------------------------------------------

    def close_waiting(self) -> None:
        """Forget the requests that no task ends: they wait for a slot, or for another peer."""
        self.draining = True
        for request in self:
            if request.scope is None and request.waiting_in is not None:
                self.close(request)
            elif request.scope is None:
                self.cancel(request, Cause.SHUTDOWN)

    def end_long_lived(self) -> None:
        """End the requests that would go on forever."""
        for request in self:
            if request.long_lived:
                self.cancel(request, Cause.SHUTDOWN)

    def cancel_all(self) -> None:
        """Take no more requests, and end those that are open."""
        self.draining = True
        for request in self:
            self.cancel(request, Cause.SHUTDOWN)
