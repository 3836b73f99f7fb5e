"""The requests that others have open: the states of one, and any order of events for many."""

from collections import Counter, defaultdict

import pytest
from attrs import define
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from trio_mcp.peer.cancellation import read_cancellation
from trio_mcp.peer.channel import ReplyChannel
from trio_mcp.peer.inbound import Cause, Inbound, InboundRequest, Slots
from trio_mcp.wire.answers import BatchAnswer, Result
from trio_mcp.wire.errors import INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import (
    Batch,
    Malformed,
    Notification,
    Request,
    Response,
)

pytestmark = pytest.mark.requirement("B2", "B7", "A15")

LEAST_BYTES = 1024
"""What a waiting request counts at least."""
DUPLICATE = "Invalid request: this id is already in use"
STOPPING = "Server is shutting down"
BUSY = "Too many requests wait; try again when some have been answered"
WAY_BACK = ReplyChannel()
IN_ITS_PLACE = Result("in its place")


class Scope:
    """In place of a cancel scope."""

    def __init__(self) -> None:
        self.cancel_called = False
        self.cancelled_caught = False
        self.deadline = 0.0

    def cancel(self, *, reason: object = None) -> None:
        self.cancel_called = True


@define(eq=False)
class Work(InboundRequest):
    """In place of a call."""

    number: int
    long_lived: bool = False
    timeout: float = 10

    @property
    def label(self) -> str:
        return f"work {self.number}"


class Handler:
    """Begins work; answers `now` at once, and what is malformed with its error."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    takes_batches = True

    def begin(self, request, in_batch):
        if request.method == "now":
            return Result(request.params["n"])
        return Work(request.params["n"], long_lived=request.method == "long")

    def notified(self, notification) -> None:
        self.notes.append(notification.method)

    def malformed(self, message, line):
        return message.error


def cancelled(id) -> Notification:
    return Notification("notifications/cancelled", {"requestId": id})


def contents(reply, id=None):
    """What a reply says: the number of the request, or the id and the message of the error."""
    if isinstance(reply, BatchAnswer):
        return [contents(answer, id) for id, answer in reply.answers]
    return reply.members if isinstance(reply, Result) else (id, reply.message)


# -- the states of a request ------------------------------------------------------------------


class Desk:
    """An `Inbound`, and what it says."""

    def __init__(self, slots: Slots | None = None) -> None:
        self.handler = Handler()
        self.replys: list[Response] = []
        self.changes = 0
        self.slots = slots or Slots(1)
        self.is_full = False
        self.inbound = Inbound(
            self.handler, self.slots, self.replys.append, self.change, lambda waiting: self.is_full
        )
        self.numbers = iter(range(100))

    def change(self) -> None:
        self.changes += 1

    def admit(self, id, method="work", size=0):
        request = Request(id, method, {"n": next(self.numbers)})
        return self.inbound.admit(request, WAY_BACK, size)

    def line_of(self, request) -> bytes:
        return Result(request.number)


def test_what_needs_no_waiting_is_answered_at_once():
    desk = Desk()
    assert contents(desk.admit("a", "now")) == 0
    assert len(desk.inbound) == 0
    assert desk.slots.free == 1


def test_from_its_admission_to_its_end():
    desk = Desk()
    request = desk.admit("a")
    assert (request.has_slots, request.waiting_in) == (True, None)
    assert "a" in desk.inbound
    assert desk.slots.free == 0
    assert desk.inbound.answer(request, desk.line_of(request))
    assert contents(request.reply) == 0
    assert "a" in desk.inbound, "its slot and its id are held until the response is on its way"
    desk.inbound.close(request)
    assert (len(desk.inbound), desk.slots.free, desk.changes) == (0, 1, 1)


def test_it_waits_for_a_slot_and_counts_meanwhile():
    desk = Desk()
    first, second, third = desk.admit(1), desk.admit(2, size=5000), desk.admit(3, size=1)
    started = []
    second.start = third.start = started.append
    assert (second.waiting_in, third.waiting_in) == (desk.slots, desk.slots)
    assert desk.inbound.waiting_bytes == 5000 + LEAST_BYTES
    desk.inbound.close(first)
    assert started == [second]
    assert second.has_slots
    assert desk.inbound.waiting_bytes == LEAST_BYTES
    assert desk.changes == 1


def test_what_would_wait_is_refused_while_too_much_does():
    desk = Desk(Slots(2, Slots(1)))
    first = desk.admit(1)
    desk.is_full = True
    assert contents(desk.admit(2), 2) == (2, BUSY)
    assert contents(desk.admit(3, "now")) == 2
    assert desk.admit(4, "long").waiting_in is None
    assert (desk.slots.free, desk.slots.waiting, desk.inbound.waiting_bytes) == (1, 0, 0)
    desk.inbound.close(first)
    assert desk.admit(2).has_slots, "its id is free, and there is a slot"


def test_what_goes_on_for_ever_needs_no_slot():
    desk = Desk()
    desk.admit(1)
    assert desk.admit(2, "long").waiting_in is None
    assert desk.slots.free == 0


def test_an_id_is_refused_while_it_is_in_use():
    desk = Desk()
    first = desk.admit(1)
    assert contents(desk.admit(1), 1) == (1, DUPLICATE)
    assert len(desk.inbound) == 1
    desk.inbound.answer(first, None)
    assert contents(desk.admit(1), 1) == (1, DUPLICATE)
    desk.inbound.close(first)
    assert desk.admit(1).number == 3


def test_only_the_first_answer_counts():
    desk = Desk()
    request = desk.admit(1)
    assert desk.inbound.answer(request, IN_ITS_PLACE)
    assert not desk.inbound.answer(request, Result("its own"))
    assert request.reply == IN_ITS_PLACE


def test_whoever_cancelled_a_request_gets_no_answer():
    desk = Desk()
    request = desk.admit(1)
    request.scope = Scope()
    desk.inbound.note(cancelled(1))
    assert request.scope.cancel_called
    assert desk.inbound.answer(request, desk.line_of(request))
    assert request.reply is None


def test_the_first_cause_counts():
    desk = Desk()
    request = desk.admit(1)
    desk.inbound.cancel_all()
    desk.inbound.note(cancelled(1))
    assert request.cause is Cause.SHUTDOWN
    desk.inbound.answer(request, desk.line_of(request))
    assert contents(request.reply) == 0


def test_cancelled_in_a_queue_it_leaves_without_a_slot():
    desk = Desk()
    desk.admit(1)
    waiting, next_one = desk.admit(2), desk.admit(3)
    started = []
    waiting.start = next_one.start = started.append
    desk.inbound.note(cancelled(2))
    assert started == [waiting]
    assert (waiting.has_slots, waiting.waiting_in) == (False, None)
    assert next_one.waiting_in is desk.slots


def test_a_cancellation_of_what_is_not_open_may_be_about_a_request_of_ours():
    desk = Desk()
    for id in (1, None, True, [1]):
        desk.inbound.note(cancelled(id))
    assert desk.handler.notes == ["notifications/cancelled"] * 4


def test_a_cancellation_whose_reason_is_no_text_has_none():
    desk = Desk()
    request = desk.admit(1)
    desk.inbound.note(Notification("notifications/cancelled", {"requestId": 1, "reason": 5}))
    assert request.cause is Cause.PEER


def test_a_cancellation_of_an_id_that_no_request_can_have_is_none():
    assert read_cancellation(cancelled("x" * 1025)) is None
    assert read_cancellation(cancelled("x" * 1024)) is not None


def test_a_response_is_handed_on():
    desk = Desk()
    response = Response(1, "x")
    assert desk.inbound.take(response, WAY_BACK) == ([], None)
    assert desk.replys == [response]


def test_a_batch_is_answered_by_one_line_after_its_last():
    desk = Desk(Slots(2))
    batch = Batch(
        [
            Request(1, "work", {"n": 1}),
            Notification("note", {}),
            Request(2, "now", {"n": 2}),
            Malformed("", McpError(INVALID_REQUEST, "bad")),
            Request(3, "work", {"n": 3}),
        ]
    )
    (one, other), line = desk.inbound.take(batch, WAY_BACK)
    assert line is None
    desk.inbound.answer(other, desk.line_of(other))
    assert other.reply is None
    desk.inbound.answer(one, desk.line_of(one))
    assert contents(one.reply) == [2, ("", "bad"), 3, 1]


def test_a_batch_whose_entries_are_cancelled_has_no_answer():
    batch = BatchAnswer(2)
    assert batch.add(1, None) is None
    assert batch.add(1, None) is None


def test_while_it_drains_nothing_new_is_begun():
    desk = Desk()
    running, lasting = desk.admit(1), desk.admit(2, "long")
    desk.inbound.draining = True
    desk.inbound.end_long_lived()
    assert contents(desk.admit(3), 3) == (3, STOPPING)
    assert (running.cause, lasting.cause) == (None, Cause.SHUTDOWN)


# -- any order of events ----------------------------------------------------------------------


@define(eq=False)
class Ticket:
    """What the test itself knows of one message that wants an answer."""

    number: int
    peer: "Peer"
    kind: str
    batch: "list[Ticket] | None" = None
    request: object = None
    """What it became, if it was opened."""
    content: object = None
    """What its answer has to contain."""
    cause: Cause | None = None
    answered: bool = False
    has_line: bool = True
    stage: str = "new"
    """`new`, `running`, `ending` (only to be closed), or `closed`."""
    noticed: int = 0
    """How often its cancellation was noted."""

    def end_changed(self, request) -> None:
        self.noticed += 1


class Watched(Inbound):
    """An `Inbound` that lets a peer keep book of what it does."""

    peer: "Peer"

    def admit(self, request, channel, size=0, batch=None, key=None):
        expected = self.peer.expect(request)
        answer = super().admit(request, channel, size, batch, key)
        self.peer.admitted(request, answer, expected)
        return answer

    def note(self, message) -> None:
        self.peer.noted(message)
        super().note(message)

    def leave_queue(self, request) -> None:
        self.peer.left_queue(request)
        super().leave_queue(request)


class Peer:
    """One peer: its `Inbound`, who carries its messages, and the books."""

    def __init__(self, machine: "AnyOrder", slots: int, shared: Slots) -> None:
        self.machine = machine
        self.count = slots
        self.slots = Slots(slots, shared)
        self.handler = Handler()
        self.replys = 0
        self.changes = 0
        self.is_full = False
        self.inbound = Watched(
            self.handler, self.slots, self.responded, self.changed, lambda waiting: self.is_full
        )
        self.inbound.peer = self
        self.open: dict[object, Ticket] = {}
        self.draining = self.is_ending = False
        self.lines: Counter = Counter()
        """Contents of the lines that were sent for single messages."""
        self.notes = 0
        self.wanted_responses = 0

    def responded(self, response) -> None:
        self.replys += 1

    def changed(self) -> None:
        self.changes += 1

    # -- the books --

    def expect(self, request):
        if request.id in self.open:
            return request.id, DUPLICATE
        if self.draining:
            return request.id, STOPPING
        if request.method == "work" and self.is_full and not self.has_room:
            return request.id, BUSY
        return request.params["n"] if request.method == "now" else None

    @property
    def has_room(self) -> bool:
        return bool(self.slots.free and self.machine.shared.free)

    def admitted(self, request, answer, expected) -> None:
        ticket = self.machine.tickets[request.params["n"]]
        if expected is not None:
            assert contents(answer, request.id) == expected
            ticket.content, ticket.answered, ticket.stage = expected, True, "closed"
            return
        assert answer.id == request.id
        ticket.content, ticket.request = ticket.number, answer
        self.open[request.id] = ticket
        if answer.waiting_in is not None:
            assert ticket.kind == "work"
            self.machine.queues[answer.waiting_in].append(answer)

    def noted(self, message) -> None:
        if isinstance(message, Response):
            self.wanted_responses += 1
        elif (
            message.method != "notifications/cancelled"
            or message.params["requestId"] not in self.open
        ):
            self.notes += 1
        else:
            self.cancelling(self.open[message.params["requestId"]], Cause.PEER)

    def cancelling(self, ticket: Ticket, cause: Cause) -> None:
        ticket.cause = ticket.cause or cause

    def left_queue(self, request) -> None:
        if self.is_ending:  # it may move up again, before it is closed like the others
            assert self.machine.ticket_of(request).stage == "closed"
            return
        [queue] = [each for each in self.machine.queues.values() if request in each]
        if request.waiting_in is None and not request.has_slots:
            assert self.machine.ticket_of(request).cause is not None
            queue.remove(request)
            return
        assert queue.pop(0) is request, "it overtook another"
        if request.waiting_in is not None:
            assert self.machine.queues[request.waiting_in] is not queue
            self.machine.queues[request.waiting_in].append(request)

    # -- who carries its messages --

    def take(self, message, batch: "list[Ticket] | None" = None, size: int = 0) -> None:
        opened, reply = self.inbound.take(message, WAY_BACK, b"x" * size)
        assert (reply is not None) == (
            self.is_whole(batch) if batch is not None else not opened and wants_answer(message)
        )
        self.send(reply, batch, getattr(message, "id", None))
        for request in opened:
            self.start(request)

    def is_whole(self, batch: list[Ticket]) -> bool:
        return all(each.answered for each in batch) and any(each.has_line for each in batch)

    def send(self, reply, batch: "list[Ticket] | None", to=None) -> None:
        if reply is None:
            return
        if batch is None:
            self.lines[contents(reply, to)] += 1
        else:
            assert self.is_whole(batch)
            assert id(batch) not in self.machine.whole, "a batch was answered twice"
            self.machine.whole[id(batch)] = contents(reply)

    def start(self, request) -> None:
        """As `Connection` does it: run it, let it wait, or answer what was cancelled."""
        ticket = self.machine.ticket_of(request)
        if request.waiting_in is not None:
            request.start = self.start
        elif request.has_slots or request.long_lived:
            request.start = None
        else:
            self.answer(ticket)
            self.close(ticket)

    def answer(self, ticket: Ticket) -> None:
        request, first = ticket.request, not ticket.answered
        if first:
            ticket.answered = True
            ticket.has_line = ticket.cause is not Cause.PEER
        assert self.inbound.answer(request, Result(ticket.number)) is first
        if first:
            whole = ticket.has_line if ticket.batch is None else self.is_whole(ticket.batch)
            assert (request.reply is not None) == whole
            self.send(request.reply, ticket.batch)

    def close(self, ticket: Ticket) -> None:
        ticket.stage = "closed"
        del self.open[ticket.request.id]
        if ticket.request.waiting_in is not None:
            self.machine.queues[ticket.request.waiting_in].remove(ticket.request)
        self.inbound.close(ticket.request)


def wants_answer(message) -> bool:
    return isinstance(message, Request | Malformed)


ids = st.sampled_from([1, 2, 3, "1"])
kinds = st.sampled_from(["work", "work", "work", "now", "long", "malformed"])
peers = st.integers(0, 2)
sizes = st.sampled_from([0, 500, 3000])
picks = st.integers(0, 100)


class AnyOrder(RuleBasedStateMachine):
    """Three peers whose calls share slots, and whatever may happen to them, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.tickets: list[Ticket] = []
        self.queues: dict[Slots, list] = defaultdict(list)
        self.whole: dict[int, list] = {}
        """By batch, the contents of its line."""
        self.batches: list[list[Ticket]] = []
        self.peers: list[Peer] = []
        self.count = 1
        self.shared = Slots(1)

    @initialize(own=st.tuples(*[st.integers(1, 2)] * 3), shared=st.integers(1, 4))
    def begin(self, own, shared) -> None:
        self.count = shared
        self.shared = Slots(shared)
        self.peers = [Peer(self, each, self.shared) for each in own]

    def ticket_of(self, request) -> Ticket:
        return self.tickets[request.number]

    def open(self, *stages: str) -> list[Ticket]:
        found = [each for peer in self.peers for each in peer.open.values()]
        return [each for each in found if not stages or each.stage in stages]

    def startable(self) -> list[Ticket]:
        return [each for each in self.open("new") if each.request.waiting_in is None]

    # -- what comes in --

    def message(self, peer: Peer, kind: str, id, batch=None):
        ticket = Ticket(len(self.tickets), peer, kind, batch)
        self.tickets.append(ticket)
        if batch is not None:
            batch.append(ticket)
        if kind != "malformed":
            return Request(id, kind, {"n": ticket.number})
        why = f"malformed {ticket.number}"
        ticket.content, ticket.answered, ticket.stage = (id, why), True, "closed"
        return Malformed(id, McpError(INVALID_REQUEST, why))

    @rule(peer=peers, kind=kinds, id=ids, size=sizes)
    def arrives(self, peer, kind, id, size) -> None:
        peer = self.peers[peer]
        peer.take(self.message(peer, kind, id), size=size)

    @rule(
        peer=peers,
        entries=st.lists(st.tuples(kinds | st.sampled_from(["note", "cancel"]), ids), max_size=5),
    )
    def batch_arrives(self, peer, entries) -> None:
        peer, batch = self.peers[peer], []
        self.batches.append(batch)
        others = {"note": lambda id: Notification("note", {}), "cancel": cancelled}
        messages = [
            others[kind](id) if kind in others else self.message(peer, kind, id, batch)
            for kind, id in entries
        ]
        peer.take(Batch(messages), batch)

    @rule(peer=peers)
    def too_much_waits_or_no_more(self, peer) -> None:
        self.peers[peer].is_full = not self.peers[peer].is_full

    @rule(peer=peers, message=st.sampled_from([Notification("note", {}), Response(1, "x")]))
    def what_needs_no_answer_arrives(self, peer, message) -> None:
        self.peers[peer].take(message)

    @rule(peer=peers, id=ids)
    def cancellation_arrives(self, peer, id) -> None:
        self.peers[peer].take(cancelled(id))

    # -- what becomes of it --

    @precondition(lambda self: self.startable())
    @rule(pick=picks)
    def call_runs(self, pick) -> None:
        ready = self.startable()
        self.run_call(ready[pick % len(ready)])

    def run_call(self, ticket: Ticket) -> None:
        request = ticket.request
        assert request.has_slots != request.long_lived
        request.scope, ticket.stage = Scope(), "running"
        if request.cause is not None:
            request.scope.cancel()

        request.overseer = ticket

    @precondition(lambda self: self.open("running"))
    @rule(pick=picks)
    def call_ends(self, pick) -> None:
        running = self.open("running")
        ticket = running[pick % len(running)]
        ticket.peer.answer(ticket)
        ticket.stage = "ending"

    @precondition(lambda self: self.open("running"))
    @rule(pick=picks)
    def call_is_answered_in_its_place(self, pick) -> None:
        running = self.open("running")
        ticket = running[pick % len(running)]
        ticket.peer.answer(ticket)

    @precondition(lambda self: self.open("ending"))
    @rule(pick=picks)
    def response_is_on_its_way(self, pick) -> None:
        ending = self.open("ending")
        ticket = ending[pick % len(ending)]
        ticket.peer.close(ticket)

    @precondition(lambda self: self.open())
    @rule(pick=picks)
    def call_is_abandoned(self, pick) -> None:
        """As when the task that it waits or runs in is cancelled."""
        found = self.open()
        ticket = found[pick % len(found)]
        ticket.peer.close(ticket)

    # -- the end --

    @precondition(lambda self: self.open())
    @rule(pick=picks)
    def shutdown_cancels_one(self, pick) -> None:
        found = self.open()
        ticket = found[pick % len(found)]
        ticket.peer.cancelling(ticket, Cause.SHUTDOWN)
        ticket.peer.inbound.cancel(ticket.request, Cause.SHUTDOWN)

    @rule(peer=peers)
    def drain_begins(self, peer) -> None:
        peer = self.peers[peer]
        peer.draining = peer.inbound.draining = True
        for ticket in peer.open.values():
            if ticket.kind == "long":
                peer.cancelling(ticket, Cause.SHUTDOWN)
        peer.inbound.end_long_lived()

    @rule(peer=peers)
    def drain_ends(self, peer) -> None:
        peer = self.peers[peer]
        peer.draining = True
        for ticket in peer.open.values():
            peer.cancelling(ticket, Cause.SHUTDOWN)
        peer.inbound.cancel_all()

    @rule(peer=peers)
    def connection_ends(self, peer) -> None:
        peer = self.peers[peer]
        peer.draining = True
        for ticket in list(peer.open.values()):
            if ticket.request.waiting_in is not None:
                del peer.open[ticket.request.id]
                ticket.stage = "closed"
            elif ticket.request.scope is None:  # no task has begun with it
                ticket.cause = ticket.cause or Cause.SHUTDOWN
        for queue in self.queues.values():
            queue[:] = [each for each in queue if each.inbound is not peer.inbound]
        peer.is_ending = True
        peer.inbound.close_waiting()
        peer.is_ending = False

    # -- what is always so --

    @invariant()
    def the_books_agree(self) -> None:
        for peer in self.peers:
            assert [each.key for each in peer.inbound] == list(peer.open)
            assert len(peer.handler.notes) == peer.notes
            assert peer.replys == peer.wanted_responses
            for ticket in peer.open.values():
                request = ticket.request
                assert request.cause is ticket.cause
                assert request.answered is ticket.answered
                if request.scope is not None:
                    assert request.scope.cancel_called is (ticket.cause is not None)

    @invariant()
    def slots_are_neither_lost_nor_made(self) -> None:
        for peer in self.peers:
            requests = [each.request for each in peer.open.values()]
            own = [each for each in requests if each.has_slots or each.waiting_in is self.shared]
            assert peer.slots.free == peer.count - len(own) >= 0
        holders = [each for each in self.open() if each.request.has_slots]
        assert self.shared.free == self.count - len(holders) >= 0

    @invariant()
    def never_more_run_than_there_are_slots(self) -> None:
        running = [each for each in self.open("running", "ending") if each.kind != "long"]
        assert len(running) <= self.count
        for peer in self.peers:
            assert sum(each.peer is peer for each in running) <= peer.count

    @invariant()
    def nobody_waits_for_a_slot_that_is_free(self) -> None:
        for slots, queue in self.queues.items():
            assert not (queue and slots.free)
            assert all(each.waiting_in is slots for each in queue)

    @invariant()
    def what_waits_is_counted(self) -> None:
        for peer in self.peers:
            waiting = [each.request for each in peer.open.values() if each.request.waiting_in]
            assert sum(map(len, self.queues.values())) >= len(waiting)
            counted = sum(max(each.size, LEAST_BYTES) for each in waiting)
            assert peer.inbound.waiting_bytes == counted

    # -- the end of it all --

    def teardown(self) -> None:
        while tickets := self.open():
            assert any(each.request.waiting_in is None for each in tickets), "they wait for ever"
            for ticket in tickets:
                if ticket.stage == "new" and ticket.request.waiting_in is None:
                    self.run_call(ticket)
                if ticket.stage in ("running", "ending"):
                    ticket.peer.answer(ticket)
                    ticket.peer.close(ticket)
        self.nothing_is_left_over()
        self.everything_was_answered_once()

    def nothing_is_left_over(self) -> None:
        assert self.shared.free == self.count
        assert not any(self.queues.values())
        for peer in self.peers:
            assert peer.slots.free == peer.count
            assert len(peer.inbound) == peer.inbound.waiting_bytes == 0

    def everything_was_answered_once(self) -> None:
        for peer in self.peers:
            wanted = Counter(
                each.content
                for each in self.tickets
                if each.peer is peer and each.batch is None and each.answered and each.has_line
            )
            assert peer.lines == wanted
        for batch in self.batches:
            if all(each.answered for each in batch):
                wanted = Counter(each.content for each in batch if each.has_line)
                assert Counter(self.whole.get(id(batch), ())) == wanted
            else:
                assert id(batch) not in self.whole


AnyOrder.TestCase.settings = settings(stateful_step_count=40)
TestAnyOrder = AnyOrder.TestCase
