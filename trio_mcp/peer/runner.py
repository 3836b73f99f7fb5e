"""Running a call in its cancel scope: the one place with deadlines, and with calls that do not end.

A call runs in the task that `Runner.run` is called in: one of the connection's nursery, or that of
an HTTP request. Trio cannot abandon a task, so a call that goes on although it was cancelled keeps
its task and its slot; `watch` has it answered all the same, once `cancel_timeout` has passed.
"""

from __future__ import annotations

from math import inf

import trio
from trio import CancelScope  # by itself, as each call needs one: `trio` looks names up slowly
from trio.lowlevel import Task

from trio_mcp.loggers import logger_of
from trio_mcp.peer.inbound import Inbound, InboundRequest, Slots
from trio_mcp.wire.answers import Reply, Result
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError

logger = logger_of("trio_mcp")

_FAILED = McpError(INTERNAL_ERROR, "Internal error")
_MOVES_ON = 0.5
"""Seconds after which a call that begins has `watch` sleep longer, if it can.

Otherwise the watch would wake before the deadlines of most calls. Trio drops the deadlines of
scopes that have ended only while these come first, so it would keep a thousand of them, for the
garbage collector to look at. To move the watch on with each call would cost more than the call.
"""


class Runner:
    """Runs calls, and has those answered that do not end.

    Args:
        cancel_timeout: Seconds that a cancelled call has to end before it is answered without it.
    """

    def __init__(self, cancel_timeout: float) -> None:
        self._cancel_timeout = cancel_timeout
        self.now = trio.current_time
        """Tells the time."""
        self._running: set[InboundRequest] = set()
        self._wakes = inf  # when `watch` looks at the deadlines
        self._moves_on = -inf  # when a call that begins may have `watch` sleep longer
        self._look = trio.lowlevel.ParkingLot()  # where it waits
        self._sending = 0  # responses in place of calls
        self._drains = 0  # so many wait there: each call asks, and asking the lot costs more
        self._answered = trio.lowlevel.ParkingLot()  # where `drain` waits

    async def run(self, request: InboundRequest) -> None:
        """Run a request's call once it has a slot, send the response, and close the request.

        Cancelled, the call is cancelled, and nothing is sent. What the call has left open in the
        task is ended.
        """
        task = trio.lowlevel.current_task()
        before = len(task.child_nurseries)
        try:
            await self.run_in_call_task(request)
        finally:
            if len(task.child_nurseries) > before:
                await end_nurseries(task, before, request.label)

    async def run_in_call_task(self, request: InboundRequest) -> None:
        """Do the same in a task that ends by itself what a call has left open (`CallTasks`)."""
        inbound = request.inbound
        try:
            if request.waiting_in is not None:
                await wait_for_slots(request)
            if request.has_slots or request.long_lived:
                request.started = now = self.now()
                deadline = now + request.timeout
                request.scope = scope = CancelScope(deadline=deadline)
                request.overseer = self
                request.due = due = deadline + self._cancel_timeout
                self._running.add(request)
                if due < self._wakes or now > self._moves_on or request.cause is not None:
                    self.end_changed(request)
                try:
                    answer = await request.run(scope)
                    if isinstance(answer, Result) and answer.is_large:
                        answer = await request.channel.prepare(request.id, answer)
                except Exception:  # a mistake of ours: it must not end the other calls
                    logger.exception("Internal error in %s", request.label)
                    answer = _FAILED
            else:  # it was cancelled in the queue
                answer = request.unfinished()
            # The slot is held until the response is on its way: a client that does not read stops
            # the work.
            if inbound.answer(request, answer) and not request.channel.respond_nowait(
                request.id, request.reply
            ):
                self.look_again()  # `drain` waits for the answer, and not for room to send it
                await request.channel.respond(request.id, request.reply)
        finally:
            self._running.discard(request)
            inbound.close(request)
            if self._drains:
                self._answered.unpark_all()

    @property
    def labels(self) -> list[str]:
        """Those of the calls that run."""
        return [call.label for call in self._running]

    # -- calls that do not end ------------------------------------------------------------

    def end_changed(self, request: InboundRequest) -> None:
        """Take note of when a request is overdue."""
        assert request.scope is not None
        now = trio.current_time()
        if request.cause is not None:
            request.scope.cancel()  # again, if it was cancelled before it had one
        ends = request.scope.deadline if request.cause is None else now
        request.due = due = ends + self._cancel_timeout
        if due < self._wakes or now > self._moves_on:
            self._wakes = min((call.due for call in self._running), default=inf)
            self._moves_on = now + _MOVES_ON
            self._look.unpark_all()

    async def watch(self) -> None:
        """Answer calls that go on after their end, until cancelled."""
        # Within one run the clock's own method does, at a third of the cost.
        self.now = trio.lowlevel.current_clock().current_time
        async with trio.open_nursery() as nursery:
            while True:
                with trio.move_on_at(self._wakes) as sleep:
                    await self._look.park()
                if not sleep.cancelled_caught:
                    continue
                now = trio.current_time()
                for request in [call for call in self._running if call.due <= now]:
                    request.due = inf
                    self._answer_overdue(request, nursery)
                self._wakes = min((call.due for call in self._running), default=inf)

    def _answer_overdue(self, request: InboundRequest, nursery: trio.Nursery) -> None:
        if request.answered:  # it has ended, and its response waits for room
            return
        if request.cause is None:
            logger.error("%s goes on after its time limit", request.label)
        if request.inbound.answer(request, request.unfinished()):
            # In a task of its own: a client that does not read must not stop the watch.
            self._sending += 1
            nursery.start_soon(self._send_overdue, request, request.reply)
        self._answered.unpark_all()

    async def _send_overdue(self, request: InboundRequest, reply: Reply | None) -> None:
        try:
            await request.channel.respond(request.id, reply, overdue=True)
        finally:
            self._sending -= 1
            self._answered.unpark_all()

    def look_again(self) -> None:
        """Have `drain` look at what is still open, and what is not answered yet."""
        if self._drains:
            self._answered.unpark_all()

    # -- the end --------------------------------------------------------------------------

    async def drain(self, inbound: Inbound, grace: float) -> list[str]:
        """Let the requests of a peer end within some grace, then cancel and answer the rest.

        Returns:
            The labels of the calls that go on all the same.

        Cancelled, it cancels nothing: the calls are cancelled with it, by the task that owns them.
        """
        inbound.draining = True
        inbound.end_long_lived()
        self._drains += 1
        try:
            with trio.move_on_after(grace):
                while inbound:
                    await self._answered.park()
            inbound.cancel_all()
            while self._sending or not all(request.answered for request in inbound):
                await self._answered.park()
        finally:
            self._drains -= 1
        return [request.label for request in inbound]


async def end_nurseries(task: Task, kept: int, label: str) -> None:
    """End the nurseries that a call has left open in its task, which could not end with them.

    Args:
        task: The current task.
        kept: How many of its nurseries are not the call's.
        label: The call.

    Cancelled or not, it waits until all tasks in them have ended; they are cancelled.
    """
    for nursery in reversed(task.child_nurseries[kept:]):
        nursery.cancel_scope.cancel()
        error = await nursery._nested_child_finished(None)  # there is no public way
        logger.error("%s left a nursery open; what ran in it is cancelled", label, exc_info=error)


async def wait_for_slots(request: InboundRequest, slots: Slots | None = None) -> None:
    """Wait until a request has its slots, or was cancelled while it waited for them.

    Args:
        request: The request.
        slots: Wait for one of these only, and not for what is shared besides.

    Cancelled, it goes on waiting: the request has to be closed.
    """
    turn = trio.lowlevel.ParkingLot()

    def start(_: InboundRequest) -> None:
        turn.unpark_all()

    request.start = start
    while request.waiting_in is not None and slots in (None, request.waiting_in):
        await turn.park()
