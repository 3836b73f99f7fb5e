"""Our own requests, until they are answered: a state machine without I/O."""

import gc
import weakref
from math import inf

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from trio_mcp.peer.outbound import ConnectionEnded, DeadlinePassed, Outbound, OutgoingRequest
from trio_mcp.peer.time_limits import TimeLimit
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.jsonrpc import Response, decode

pytestmark = pytest.mark.requirement("B2")


class Waiting(OutgoingRequest):
    """A request, and how often its sender was woken."""

    woken: list[int]

    def wake(self) -> None:
        self.woken.append(1)


def request_of(outbound: Outbound, deadline: float = inf, method: str = "x"):
    """Make a request, and a list that grows each time its sender is woken."""
    request = Waiting(outbound.next_id(), method, {}, TimeLimit(deadline))
    request.woken = []
    return request, request.woken


def test_a_response_wakes_its_sender_once():
    outbound = Outbound()
    request, woken = request_of(outbound)
    outbound.open(request, 0)
    assert outbound.respond(Response(request.id, {"a": 1})) is request
    assert outbound.respond(Response(request.id, "again")) is None
    assert (request.result, woken, len(outbound)) == ({"a": 1}, [1], 0)


def test_an_error_is_raised():
    outbound = Outbound()
    request, _ = request_of(outbound)
    outbound.open(request, 0)
    outbound.respond(Response(request.id, error=McpError(-5, "no")))
    with pytest.raises(McpError, match="no"):
        _ = request.result


def test_what_could_not_be_sent_fails_at_once():
    outbound = Outbound()
    request, woken = request_of(outbound)
    outbound.open(request, 0)
    outbound.fail(request.id, OSError("refused"))
    outbound.fail(request.id, OSError("again"))
    assert (woken, len(outbound)) == ([1], 0)
    with pytest.raises(OSError, match="refused"):
        _ = request.result


def test_a_deadline_is_put_off_but_never_moved_forward():
    outbound = Outbound()
    request, _ = request_of(outbound, deadline=5)
    outbound.open(request, 0)
    request.limit.put_off(7, now=2)
    request.limit.put_off(1, now=2)
    assert outbound.next_deadline == 9
    assert outbound.overdue(8.9) == []
    assert outbound.overdue(9) == [request]


def test_after_its_deadline_a_response_is_late():
    outbound = Outbound()
    request, woken = request_of(outbound, deadline=5)
    outbound.open(request, 0)
    assert outbound.overdue(4.9) == []
    assert outbound.overdue(5) == [request]
    assert outbound.respond(Response(request.id, "late")) is None
    assert woken == [1]
    with pytest.raises(DeadlinePassed):
        _ = request.result


def test_what_is_given_up_is_not_woken():
    outbound = Outbound()
    request, woken = request_of(outbound)
    outbound.open(request, 0)
    assert outbound.give_up(request)
    assert not outbound.give_up(request)
    outbound.end("EOF")
    assert woken == []


def test_after_the_end_nothing_is_opened():
    outbound = Outbound()
    outbound.end("EOF")
    with pytest.raises(ConnectionEnded, match="EOF"):
        outbound.open(request_of(outbound)[0], 0)


def test_initialize_is_never_cancelled():
    outbound = Outbound()
    assert request_of(outbound, method="initialize")[0].cancellation is None
    other, _ = request_of(outbound)
    notification = decode(other.cancellation.rstrip(b"\n"))
    assert notification.params == {"requestId": other.id}


def test_a_request_that_is_sent_again_has_another_id():
    outbound = Outbound()
    request, woken = request_of(outbound)
    outbound.open(request, 0)
    old, new = request.id, outbound.next_id()
    outbound.renumber(request, new)
    assert outbound.respond(Response(old, "x")) is None
    assert outbound.respond(Response(new, "x")) is request
    assert woken == [1]


def test_a_pause_puts_deadlines_off():
    """Pauses nest, and what is opened during one has all its time left afterwards."""
    outbound = Outbound()
    before, during = request_of(outbound, deadline=10)[0], request_of(outbound, deadline=17)[0]
    outbound.open(before, 0)
    outbound.pause(5)
    outbound.pause(6)
    outbound.open(during, 7)
    assert outbound.next_deadline == inf
    outbound.resume(8)
    assert outbound.next_deadline == inf
    outbound.resume(25)
    assert (before.limit.deadline, during.limit.deadline) == (30, 35)
    assert outbound.next_deadline == 30


def test_a_limit_outlives_its_request_and_what_is_over_is_not_kept():
    outbound = Outbound()
    outbound.pause(0)
    first, second = request_of(outbound, deadline=10)[0], request_of(outbound)[0]
    outbound.open(first, 2)
    outbound.respond(Response(first.id, "go on"))
    second.limit = first.limit  # as for the next round of the same call
    outbound.open(second, 4)
    for _ in range(3):
        request, _ = request_of(outbound, deadline=10)
        outbound.open(request, 5)
        outbound.respond(Response(request.id, "x"))
    kept = weakref.ref(request.limit)
    del request
    gc.collect()
    assert kept() is None
    outbound.resume(6)
    assert second.limit.deadline == 14
    assert outbound.next_deadline == 14


times = st.integers(0, 10)
picks = st.integers(0, 100)


class AnyOrder(RuleBasedStateMachine):
    """Requests with deadlines, pauses that nest, and an end, in any order.

    The book: by request, the seconds that it has left, which pass only while nothing is paused.
    """

    def __init__(self) -> None:
        super().__init__()
        self.outbound = Outbound()
        self.now = 100.0
        self.pauses = 0
        self.left: dict[OutgoingRequest, float] = {}
        self.woken: dict[OutgoingRequest, list[int]] = {}
        self.ended = False

    def pick(self, number: int) -> OutgoingRequest:
        return list(self.left)[number % len(self.left)]

    @rule(seconds=times | st.just(inf))
    def opens(self, seconds) -> None:
        request, woken = request_of(self.outbound, self.now + seconds)
        if self.ended:
            with pytest.raises(ConnectionEnded):
                self.outbound.open(request, self.now)
            return
        self.outbound.open(request, self.now)
        self.left[request], self.woken[request] = seconds, woken

    @precondition(lambda self: self.left)
    @rule(pick=picks)
    def response_comes(self, pick) -> None:
        request = self.pick(pick)
        del self.left[request]
        assert self.outbound.respond(Response(request.id, "x")) is request
        assert request.result == "x"

    @precondition(lambda self: self.left)
    @rule(pick=picks)
    def sender_gives_up(self, pick) -> None:
        request = self.pick(pick)
        del self.left[request]
        assert self.outbound.give_up(request)
        assert self.woken.pop(request) == []

    @rule()
    def pause_begins(self) -> None:
        self.outbound.pause(self.now)
        self.pauses += 1

    @precondition(lambda self: self.pauses)
    @rule()
    def pause_ends(self) -> None:
        self.outbound.resume(self.now)
        self.pauses -= 1

    @rule(seconds=times)
    def time_passes(self, seconds) -> None:
        self.now += seconds
        if self.pauses:
            assert self.outbound.next_deadline == inf
            return
        self.left = {each: left - seconds for each, left in self.left.items()}
        late = {each for each, left in self.left.items() if left <= 0}
        assert set(self.outbound.overdue(self.now)) == late
        for each in late:
            del self.left[each]
            assert isinstance(each.failure, DeadlinePassed)

    @precondition(lambda self: len(self.woken) > 4 and not self.ended)
    @rule(how=st.sampled_from(["EOF", "stopped"]))
    def connection_ends(self, how) -> None:
        self.outbound.end(how)
        self.ended = True
        assert all(isinstance(each.failure, ConnectionEnded) for each in self.left)
        self.left.clear()

    @invariant()
    def each_is_woken_once_and_only_when_it_is_over(self) -> None:
        assert len(self.outbound) == len(self.left)
        for request, woken in self.woken.items():
            assert len(woken) == (request not in self.left)

    @invariant()
    def the_next_deadline_is_that_of_the_first(self) -> None:
        if not self.pauses:
            expected = self.now + min(self.left.values(), default=inf)
            assert self.outbound.next_deadline == expected


AnyOrder.TestCase.settings = settings(stateful_step_count=30)
TestAnyOrder = AnyOrder.TestCase
