"""Requests of ours to the other side, until they are answered.

Any number of tasks ask at the same time; each waits in its own place for its own answer. Nothing
of the caller's runs while it waits, so one cancel scope, whose deadline is the earliest of all,
watches over everybody's (`watch`): that costs a request a third less than a scope of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Protocol

import trio

from trio_mcp.wire.jsonrpc import Id, Json, Response, encode


class ConnectionEnded(Exception):
    """The connection ended before a request of ours was answered. The text says how it ended."""


class DeadlinePassed(Exception):
    """A request of ours was not answered by its deadline. The other side was told to stop."""


class Way(Protocol):
    """How lines reach the other side (an `Outbox` is one)."""

    @property
    def full(self) -> bool:
        """Whether too much waits to be written."""

    async def wait_for_room(self) -> None:
        """Wait until that is not so."""

    def put_nowait(self, line: bytes) -> None:
        """Add a line."""

    def flush(self) -> None:
        """Write now, as far as that needs no waiting."""

    def wake(self) -> None:
        """Write soon."""


class _Waiter:
    """A task that waits for the answer to a request."""

    __slots__ = ("deadline", "failure", "method", "result", "task", "way")

    def __init__(self, method: str, deadline: float, way: Way) -> None:
        self.task = trio.lowlevel.current_task()
        self.method = method
        self.deadline = deadline
        self.way = way
        self.result: Json = None
        self.failure: Exception | None = None

    def wake(self, failure: Exception | None) -> None:
        """Let the task go on."""
        self.failure = failure
        trio.lowlevel.reschedule(self.task)

    def call_off(self, id: str | int) -> None:
        """Tell the other side that nobody waits any more."""
        if self.method != "initialize":  # which must not be cancelled
            _notify(self.way, "notifications/cancelled", {"requestId": id})


def _notify(way: Way, method: str, params: dict[str, Json] | None) -> None:
    message: dict[str, Json] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    way.put_nowait(encode(message))
    way.wake()


class Asking:
    """The requests that one side of a connection has open.

    Args:
        way: How they are sent.
    """

    def __init__(self, way: Way) -> None:
        self._way = way
        self._ids = itertools.count(1)
        self._open: dict[str | int, _Waiter] = {}
        self._ended: str | None = None
        self._watcher = trio.lowlevel.ParkingLot()
        self._watcher_wakes = inf
        self._pauses = 0

    def next_id(self) -> Id:
        """Reserve the id of a request."""
        return next(self._ids)

    async def ask(
        self,
        method: str,
        params: dict[str, Json] | None = None,
        deadline: float = inf,
        id: Id | None = None,
        *,
        way: Way | None = None,
    ) -> Json:
        """Send a request to the other side and wait for its result.

        Args:
            method: The method.
            params: Its parameters.
            deadline: Until when to wait, by Trio's clock.
            id: Its id, from `next_id`, if that has to be known beforehand.
            way: How to send it, in place of the usual way.

        Returns:
            The result.

        Raises:
            McpError: The other side answered with an error.
            ConnectionEnded: The connection ended, or had ended already.
            DeadlinePassed: There was no answer in time.
            TypeError: The parameters are not JSON.

        Cancelled, it tells the other side so, and a late answer is ignored.
        """
        way = way or self._way
        if id is None:
            id = next(self._ids)
        message: dict[str, Json] = {"jsonrpc": "2.0", "id": id, "method": method}
        if params is not None:
            message["params"] = params
        line = encode(message)
        while way.full and self._ended is None:
            with trio.CancelScope(deadline=deadline) as scope:
                await way.wait_for_room()
            if scope.cancelled_caught:
                raise DeadlinePassed
        if self._ended is not None:
            raise ConnectionEnded(self._ended)
        way.put_nowait(line)
        waiter = self._open[id] = _Waiter(method, deadline, way)
        if deadline < self._watcher_wakes and not self._pauses:
            self._watcher.unpark_all()
        if len(self._open) == 1:
            way.flush()
        else:
            way.wake()

        def give_up(_: object) -> trio.lowlevel.Abort:
            del self._open[id]
            waiter.call_off(id)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(give_up)
        if waiter.failure is not None:
            raise waiter.failure
        return waiter.result

    def notify(self, method: str, params: dict[str, Json] | None = None) -> None:
        """Send a notification, soon. After the end of the connection nothing happens.

        Raises:
            TypeError: The parameters are not JSON.
        """
        _notify(self._way, method, params)

    def answered(self, response: Response) -> bool:
        """Hand an answer to who waits for it. Returns whether somebody did."""
        waiter = self._open.pop(response.id, None)
        if waiter is None:  # it was given up, or never asked
            return False
        waiter.result = response.result
        waiter.wake(response.error)
        return True

    def end(self, why: str) -> None:
        """There will be no more answers: wake everybody who waits for one."""
        self._ended = why
        while self._open:
            _, waiter = self._open.popitem()
            waiter.wake(ConnectionEnded(why))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let no deadline pass during the block: the other side waits for us."""
        since = trio.current_time()
        self._pauses += 1
        self._watcher.unpark_all()
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                for waiter in self._open.values():
                    waiter.deadline += trio.current_time() - since
                self._watcher.unpark_all()

    async def watch(self) -> None:
        """Give up the requests whose deadline passes, until cancelled."""
        while True:
            deadlines = [] if self._pauses else [each.deadline for each in self._open.values()]
            self._watcher_wakes = min(deadlines, default=inf)
            with trio.move_on_at(self._watcher_wakes) as sleep:
                await self._watcher.park()
            if sleep.cancelled_caught:
                now = trio.current_time()
                for id in [id for id, each in self._open.items() if each.deadline <= now]:
                    waiter = self._open.pop(id)
                    waiter.call_off(id)
                    waiter.wake(DeadlinePassed())
