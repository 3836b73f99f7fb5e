"""Run the operations of many tasks on one connection, in one thread at a time.

What is submitted while the thread is busy runs together in the next round. So a lone operation
costs one trip to a thread, many at once share it, and writers share a commit and its flush.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, cast

import trio
from attrs import define

from trio_mcp.store.errors import StoreUnavailable
from trio_mcp.store.tables import Tables, Work

_ROUND: Final = 512
"""Operations of a round at most."""

_ROUND_BYTES: Final = 8 * 1024 * 1024
"""Bytes after which a round takes no more: it is one transaction."""

T = TypeVar("T")


@define(eq=False)
class Job:
    """An operation, and the task that waits for it."""

    work: Work[object]
    channels: tuple[str, ...]
    size: int
    task: trio.lowlevel.Task | None
    begun: bool = False
    outcome: object = None

    def run(self, tables: Tables, now: float, passed_on: type[Exception]) -> None:
        """Run it, and keep what it returns or raises, except for what is passed on."""
        try:
            self.outcome = self.work(tables, now)
        except passed_on:
            raise
        except Exception as error:
            self.outcome = error


class WorkerThread:
    """Runs jobs in a thread, all that are waiting together.

    Args:
        work: Runs jobs, in a thread. It sets their outcomes, and never raises.
        finish: Whether to wait for a job that has begun, even if its task is cancelled.
    """

    def __init__(self, work: Callable[[list[Job]], None], *, finish: bool) -> None:
        self._work = work
        self._finish = finish
        self._thread = trio.CapacityLimiter(1)  # our own: other code may use up the default one
        self._waiting: dict[Job, None] = {}
        self._arrived = trio.Event()
        self._open = True

    async def submit(self, work: Work[T], channels: tuple[str, ...] = (), size: int = 0) -> T:
        """Run an operation in the next round, and return its result.

        Raises:
            StoreUnavailable: The store is closed.
            Exception: Whatever the operation raises.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if not self._open:
            raise StoreUnavailable("the store is closed")
        job = Job(work, channels, size, trio.lowlevel.current_task())
        self._waiting[job] = None
        self._arrived.set()

        def abort(_: object) -> trio.lowlevel.Abort:
            if job.begun and self._finish:
                # The thread cannot be stopped. `Cancelled` promises that nothing was written, so
                # this waits for the end of the transaction.
                return trio.lowlevel.Abort.FAILED
            self._waiting.pop(job, None)
            job.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        if isinstance(job.outcome, Exception):
            raise job.outcome
        return cast(T, job.outcome)

    async def run(self) -> None:
        """Run what is submitted, until cancelled."""
        jobs: list[Job] = []
        try:
            while True:
                await self._arrived.wait()
                jobs = self._next()
                await trio.to_thread.run_sync(self._work, jobs, limiter=self._thread)
                self._wake(jobs)
                jobs = []
        finally:
            self._open = False
            for job in (left := [*jobs, *self._waiting]):
                job.outcome = StoreUnavailable("the store was closed meanwhile")
            self._wake(left)

    def _next(self) -> list[Job]:
        jobs: list[Job] = []
        size = 0
        for job in self._waiting:
            if len(jobs) == _ROUND or size > _ROUND_BYTES:
                break
            jobs.append(job)
            job.begun = True
            size += job.size
        for job in jobs:
            del self._waiting[job]
        if not self._waiting:
            self._arrived = trio.Event()
        return jobs

    def _wake(self, jobs: list[Job]) -> None:
        for job in jobs:
            if job.task is not None:  # otherwise it was cancelled, and no longer waits
                trio.lowlevel.reschedule(job.task)
