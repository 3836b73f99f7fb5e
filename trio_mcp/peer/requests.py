"""Sending requests to the other side of a connection, and waiting for their responses.

Any number of tasks send at the same time; each waits for its own response. Nothing of the sender's
runs while it waits, so one cancel scope, whose deadline is the earliest of all, watches over
everybody's (`watch`): that costs a request a third less than a scope of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from math import inf
from typing import Any, Final

import trio
from attrs import define, field
from trio.lowlevel import current_task, reschedule, wait_task_rescheduled

from trio_mcp.peer.cancellation import PeerReason, reason_of
from trio_mcp.peer.lines import LineQueue
from trio_mcp.peer.outbound import (
    DeadlinePassed,
    Outbound,
    OutgoingRequest,
    notification_line,
)
from trio_mcp.peer.time_limits import Pausable, TimeLimit
from trio_mcp.threads import LONG_TEXT, convert, is_large
from trio_mcp.wire.jsonrpc import Id, Json, encode

_FEW: Final = 20
"""Arguments that are looked at one by one."""
_SHORT_TEXT: Final = LONG_TEXT // (2 * _FEW)
"""Characters of a text that is short even if all of them are as long."""


class OpenRequests(Outbound, Pausable):
    """Our own requests that wait for their responses, and the watch over their deadlines.

    Args:
        prefix: What their ids begin with, where others send requests to the same peer.
    """

    def __init__(self, prefix: str = "") -> None:
        super().__init__(prefix)
        self._look = trio.lowlevel.ParkingLot()  # where `watch` waits
        self._look_again = self._look.unpark_all  # one object for all limits
        self._wakes = inf  # when it looks at the deadlines

    def add(self, request: OutgoingRequest) -> None:
        """Wait for the response to a request; `ConnectionEnded` if there will be none."""
        limit = request.limit
        limit.on_change = self._look_again
        # The time takes as long as the rest, and only a pause has to know it.
        self.open(request, trio.current_time() if self.pauses else 0.0)
        if limit.deadline < self._wakes:
            self._wakes = limit.deadline
            self._look.unpark_all()

    async def send_on(
        self,
        lines: LineQueue,
        method: str,
        params: dict[str, Json] | None,
        limit: TimeLimit,
        id: Id | None = None,
    ) -> Json:
        """Send a request to the other side and wait for its result.

        Args:
            lines: How to send it.
            method: The method.
            params: Its parameters.
            limit: Until when to wait.
            id: Its id, from `next_id`, if that has to be known beforehand.

        Returns:
            The result.

        Raises:
            McpError: The other side answered with an error.
            ConnectionEnded: The connection ended, or had ended already.
            DeadlinePassed: There was no answer in time.
            TypeError: The parameters are not JSON.

        Cancelled, it tells the other side so, and a late answer is ignored.
        """
        id = self.next_id() if id is None else id
        request = TaskRequest(id, method, params, limit, self, lines)
        line = await encoded(request) if is_large_request(params) else request.line()
        if lines.full:
            await self._wait_for_room(lines, limit.deadline)
        self._open_and_put(request, line)
        # No checkpoint since it was opened: its response cannot come before this task sleeps.
        return await wait_task_rescheduled(request.abandon)

    def _open_and_put(self, request: _SentRequest, line: bytes) -> None:
        self.add(request)
        if len(self._open) == 1:
            request.lines.send_nowait(line)
        else:  # others may come, and share a write
            request.lines.put_nowait(line)

    async def _wait_for_room(self, lines: LineQueue, deadline: float) -> None:
        with trio.CancelScope(deadline=deadline) as scope:
            while lines.full and not self.ended:
                await lines.wait_for_room()
        if scope.cancelled_caught:
            raise DeadlinePassed

    def tell(self, request: OutgoingRequest, lines: LineQueue) -> None:
        """Withdraw a request from the other side.

        It cannot wait for room, in an abort function; there is no more than one for each request.
        """
        line = request.cancellation
        if line is not None:
            lines.put_nowait(line)

    async def watch(self) -> None:
        """Give up the requests whose deadline passes; until cancelled."""
        while True:
            self._wakes = self.next_deadline
            with trio.move_on_at(self._wakes) as sleep:
                await self._look.park()
            if sleep.cancelled_caught:
                self.overdue(trio.current_time())


class OutgoingRequests(OpenRequests):
    """Our own requests on one connection.

    Args:
        lines: How they are sent.
    """

    def __init__(self, lines: LineQueue) -> None:
        super().__init__()
        self._lines = lines
        self._endless = TimeLimit()  # of all requests that wait for as long as it takes

    def send(
        self,
        method: str,
        params: dict[str, Json] | None = None,
        limit: TimeLimit | None = None,
        id: Id | None = None,
    ) -> Coroutine[Any, Any, Json]:
        """Send a request on the connection and wait for its result (`send_on`)."""
        return self.send_on(self._lines, method, params, limit or self._endless, id)

    def begin(
        self,
        method: str,
        params: dict[str, Json],
        limit: TimeLimit,
        on_end: Callable[[RelayedRequest], object],
        owner: object,
        is_encodable: bool = False,
    ) -> RelayedRequest | None:
        """Send a request that no task waits for, if it can be sent at once. It is not a large one.

        Args:
            method: The method.
            params: Its parameters.
            limit: Until when to wait.
            on_end: Called once with the request: when it was answered, or will not be. Not called
                where a task waits for its `outcome` then.
            owner: Whose request it is.
            is_encodable: Whether the parameters are known to hold only what can be encoded
                (`encode`), as those of another request.

        Returns:
            The request; `None` where there is no room, or the connection has ended.
        """
        lines = self._lines
        if self.ended is not None or lines.full:
            return None
        id = self.next_id()
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        line = encode(message, is_encodable)
        # Without its parameters, or those of all that are open would be kept as objects besides.
        request = RelayedRequest(id, method, None, limit, self, lines, on_end, owner)
        self._open_and_put(request, line)
        return request

    async def notify(self, method: str, params: dict[str, Json] | None = None) -> None:
        """Send a notification, once there is room. After the end of the connection nothing happens.

        Raises:
            TypeError: The parameters are not JSON.
        """
        line = notification_line(method, params)
        await trio.lowlevel.checkpoint()
        await self._wait_for_room(self._lines, inf)
        self._lines.put_nowait(line)


def has_short_texts(params: dict[str, Json]) -> bool:
    """Whether the arguments of a request are a few short texts, as they mostly are."""
    given: Any = params.get("arguments", params)
    if given.__class__ is not dict or len(given) > _FEW:
        return False
    for value in given.values():
        if value.__class__ is not str or len(value) > _SHORT_TEXT:
            return False
    return True


def is_large_request(params: dict[str, Json] | None) -> bool:
    """Whether to encode a request would hold up the event loop, by the arguments that it has."""
    if params is None or has_short_texts(params):  # it is asked of each request
        return False
    return is_large(params.get("arguments", params))


async def encoded(request: OutgoingRequest) -> bytes:
    """Return the line of a large request, encoded in a worker thread.

    Raises:
        TypeError: The parameters are not JSON.
    """
    return await convert(request.line, True)


@define(eq=False, repr=False)
class _SentRequest(OutgoingRequest):
    _requests: OpenRequests
    lines: LineQueue
    """How it is sent."""

    def withdraw(self, reason: PeerReason | None) -> None:
        """Want no response any more, and tell the other side so."""
        self.reason = reason
        self._requests.give_up(self)
        self._requests.tell(self, self.lines)

    def abandon(self, raise_cancel: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
        """Withdraw it, as the task that waits for it is cancelled (an abort function)."""
        reason = None
        try:
            raise_cancel()
        except trio.Cancelled as cancelled:
            reason = reason_of(cancelled)
        self.withdraw(reason)
        return trio.lowlevel.Abort.SUCCEEDED


@define(eq=False, repr=False)
class RelayedRequest(_SentRequest):
    """A request that no task waits for, at first. Made by `OutgoingRequests.begin`."""

    on_end: Callable[[RelayedRequest], object]
    owner: Any
    _task: trio.lowlevel.Task | None = field(default=None, init=False)

    @property
    def is_open(self) -> bool:
        """Whether there is nothing yet that it came to."""
        return self.response is None and self.failure is None

    def wake(self) -> None:
        if isinstance(self.failure, DeadlinePassed):
            self._requests.tell(self, self.lines)
        if self._task is None:
            self.on_end(self)
        else:
            reschedule(self._task, self)  # type: ignore[arg-type]

    def unwrap(self) -> None:
        """Let the task go on, which looks for itself (`TaskRequest.unwrap`)."""

    def withdraw(self, reason: PeerReason | None) -> None:
        super().withdraw(reason)
        if self._task is None:
            self.on_end(self)

    def wake_here(self) -> Callable[[trio.lowlevel.RaiseCancelT], trio.lowlevel.Abort]:
        """Have the current task woken when it ends; it is open, and the task sleeps next.

        Returns:
            The abort function of that.
        """
        self._task = current_task()
        return self.abandon

    async def outcome(self) -> Json:
        """Return or raise what it came to, as `OutgoingRequests.send` does; wait if it is open."""
        if self.is_open:
            await wait_task_rescheduled(self.wake_here())
        return self.result


@define(eq=False, repr=False)
class TaskRequest(_SentRequest):
    """A request that a task waits for.

    One object, and no functions that are made for each request: with many in flight, it is the
    number of objects that the garbage collector has to look at again and again.
    """

    _task: trio.lowlevel.Task = field(factory=current_task, init=False)

    def wake(self) -> None:
        reschedule(self._task, self)  # type: ignore[arg-type]

    def unwrap(self) -> Json:
        """Return or raise what it came to.

        Trio calls this on what the task is woken with, which is the request itself: to make an
        `outcome.Value` for each one, and to unwrap it, takes as long as the rest of the waking.
        """
        if isinstance(self.failure, DeadlinePassed):
            self._requests.tell(self, self.lines)
        return self.result
