"""Trio tasks for what asyncio wants done there: each is used again when it has done one thing.

It ends where something of that is left: a lock that it holds, or a cancelled scope.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Final

import outcome
import trio
from trio.lowlevel import Abort, Task

from trio_mcp.background import lock_owners

Work = Callable[[trio.CancelScope], Awaitable[None]]
"""What a task does. It gets the scope that it may be cancelled by; then its task ends with it."""

_IDLE: Final = 64
"""So many tasks are kept for what comes next."""


class WorkTasks:
    """Does things in tasks, side by side, each in a context of its own.

    Args:
        start: Starts a task in the nursery that all of them run in; returns false if it is closed.
    """

    def __init__(self, start: Callable[[Callable[[], Awaitable[None]]], bool]) -> None:
        self._start = start
        self._context = copy_context()
        self._idle: list[Task] = []

    def start_soon(self, context: Context, work: Work) -> bool:
        """Begin with something soon, in a context that nothing else uses.

        Returns:
            Whether that is possible, as the nursery is open.
        """
        if not self._idle:
            return context.run(self._start, partial(self._run, work))
        task = self._idle.pop()
        task.context = context
        trio.lowlevel.reschedule(task, outcome.Value(work))
        return True

    async def _run(self, work: Work) -> None:
        task = trio.lowlevel.current_task()
        with trio.CancelScope() as scope:
            while True:
                await work(scope)
                if scope.cancel_called or task in lock_owners or len(self._idle) >= _IDLE:
                    return
                task.context = self._context  # an idle task must keep nothing of what it has done
                del work
                work = await self._next(task)

    async def _next(self, task: Task) -> Work:
        def abort(_: object) -> Abort:
            self._idle.remove(task)
            return Abort.SUCCEEDED

        self._idle.append(task)
        work: Work = await trio.lowlevel.wait_task_rescheduled(abort)
        return work
