"""The tasks that calls run in: a pool that grows only when a call waits.

A task takes one call after another from a queue. Before it runs one while others are queued, it has
a second task stand by. If the call waits, that one takes over; so a call that waits keeps its task
and delays no other, and calls that never wait share one.

What a call leaves in its task is not seen by the next: a task whose context variables have changed,
which still holds a lock, or in which a cancel scope or a nursery was left open, ends with its call,
and a fresh one takes its place.

A call that comes alone begins in the task that has read it (`release`, `begin_here`), a turn of
Trio's scheduler earlier. If it waits, it keeps that task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from operator import is_not
from types import coroutine
from typing import Any, Final

import trio
from trio.lowlevel import Abort, Task

from trio_mcp.background import lock_owners
from trio_mcp.peer.inbound import InboundRequest
from trio_mcp.peer.runner import end_nurseries

IDLE_NAME: Final = "trio_mcp.peer.call_tasks.idle"
IDLE_TASKS: Final = 8
"""So many are kept for the next calls."""
TURN: Final = 32
"""Calls that a task runs before others have their turn, if none of these calls waits."""


class CallTasks:
    """Runs calls in tasks of a nursery, each named by the label of its call.

    Args:
        nursery: Where the tasks run. What a call raises ends it.
        run: Runs a call, in a cancel scope of its own.

    Calls begin with the context variables of the task that makes this object.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        run: Callable[[InboundRequest], Coroutine[Any, Any, None]],
    ) -> None:
        self.nursery = nursery
        self._run = run
        self._context = copy_context()
        self._values = [*self._context.values()]
        self._queue: deque[InboundRequest] = deque()
        self._idle: list[Task] = []
        self._coming = 0  # tasks that were sent to the queue, and are not there yet
        self._standbys = 1  # so many are sent next

    def start_soon(self, call: InboundRequest) -> None:
        """Run a call soon. Calls begin in the order in which they are handed over."""
        self._queue.append(call)
        if not self._coming:
            self._send(1)

    def hold(self) -> None:
        """Begin no call before `release`, which has to follow without a checkpoint."""
        self._coming += 1  # as if a task were on its way

    def release(self, *, takes_one: bool) -> InboundRequest | None:
        """Begin the calls that were held.

        Args:
            takes_one: Whether to return a single one instead, for `begin_here`.
        """
        self._coming -= 1
        if self._queue and not self._coming:
            if takes_one and len(self._queue) == 1:
                return self._queue.popleft()
            self._send(1)
        return None

    @coroutine
    def begin_here(
        self, call: InboundRequest, on_wait: Callable[[], None]
    ) -> Generator[Any, Any, bool]:
        """Run a call in the current task, which is not one of these.

        Args:
            call: The call.
            on_wait: Called when the task has to be left to the call: it waits, or has ended and
                left something.

        Returns:
            Whether the task may go on with something else. Otherwise it has to end.
        """
        task = trio.lowlevel.current_task()
        name, context = task.name, task.context
        task.name = call.label
        work, trap, waits = self._run(call), None, True
        try:
            trap = work.send(None)
        except StopIteration:
            waits = False
        if not (waits or self._has_left_something(call, task, context)):
            task.name = name
            return True
        on_wait()
        if waits:
            yield from _going_on(work, trap)
        yield from end_nurseries(task, 0, call.label)
        return False

    def start_task(self, task: Callable[..., Awaitable[object]], *args: object) -> None:
        """Start a task beside these, not in the context of the one that starts or ends a call."""
        self._context.run(self.nursery.start_soon, task, *args)

    def _stand_by(self) -> None:
        # Twice as many each time, while all calls wait: a hundred have begun after a few turns.
        self._send(min(self._standbys, len(self._queue)))
        self._standbys = 2 * self._coming

    def _send(self, tasks: int) -> None:
        self._coming = tasks
        for _ in range(tasks):
            if self._idle:
                trio.lowlevel.reschedule(self._idle.pop())
            else:
                self.start_task(self._work)

    async def _work(self) -> None:
        task = trio.lowlevel.current_task()
        context = task.context
        while True:
            self._coming -= 1
            for _ in range(TURN):
                if not self._queue:
                    break
                call = self._queue.popleft()
                if self._queue and not self._coming:
                    self._stand_by()
                task.name = call.label
                await self._run(call)
                if self._has_left_something(call, task, context):
                    await end_nurseries(task, 0, call.label)
                    return
                del call  # an idle task must not keep it
            self._standbys = 1
            if len(self._idle) >= IDLE_TASKS:
                return
            task.name = IDLE_NAME
            await self._sleep(task)

    def _has_left_something(self, call: InboundRequest, task: Task, context: Context) -> bool:
        """Whether a call has left something in its task, the one that runs."""
        values = self._values
        return (
            call.left_open
            or task.context is not context
            or task in lock_owners
            or task.child_nurseries != []
            or len(copy_context()) != len(values)  # none can be removed, only changed
            or (values != [] and self._has_other_values())
        )

    def _has_other_values(self) -> bool:
        """Whether a call has changed a context variable of its task, the one that runs."""
        # By identity: equal values may be two all the same, and `==` may be an author's.
        return any(map(is_not, copy_context().values(), self._values))

    async def _sleep(self, task: Task) -> None:
        def abort(_: object) -> Abort:
            self._idle.remove(task)
            return Abort.SUCCEEDED

        self._idle.append(task)
        await trio.lowlevel.wait_task_rescheduled(abort)


def _going_on(work: Coroutine[Any, Any, None], trap: Any) -> Generator[Any, Any, None]:
    """Do what `await` does with work that has begun, and waits."""
    try:
        while True:
            try:
                values = [(yield trap)]
            except BaseException as error:
                trap = work.throw(error)
            else:  # a frame that refers to an error which passes through it would make a cycle
                trap = work.send(values.pop())
    except StopIteration:
        return
