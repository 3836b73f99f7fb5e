"""Tasks beside a block, which end with it; what tasks, and runs of Trio, have of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import trio

try:
    from trio._core._parking_lot import GLOBAL_PARKING_LOT_BREAKER as _owners
except ImportError:  # there is no public way; without it, a lock may stay held
    _owners = {}

lock_owners: Final = _owners
"""Tasks that hold a lock of Trio's, which is broken when they end."""

T = TypeVar("T")
Task = Callable[[], Awaitable[object]]


@asynccontextmanager
async def background_nursery(*tasks: Task) -> AsyncIterator[trio.Nursery]:
    """Open a nursery that is cancelled at the end of the block, and run tasks in it.

    What the block raises leaves it as it is, not in an exception group. That holds for
    `trio.Cancelled`, too: to end the block from a task, cancel a scope around it, not the nursery.

    If a task raises as well, what the tasks raise leaves it instead. An exception of the block is
    not lost to a cancellation from outside, which only goes on at the next checkpoint then.
    """
    failure: BaseException | None = None
    try:
        try:
            async with trio.open_nursery() as nursery:
                for task in tasks:
                    nursery.start_soon(task)
                try:
                    yield nursery
                except BaseException as error:  # raised again below, unless a task raises
                    failure = _without_first_frame(error)
                nursery.cancel_scope.cancel()
        except BaseException as error:
            if failure is None or not _is_only_cancelled(error):
                raise
        if failure is not None:
            raise failure
    finally:
        del failure  # a frame that refers to what passes through it makes a cycle


def _is_only_cancelled(error: BaseException) -> bool:
    """Whether an exception, or all that is in a group, is a cancellation."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)


def _without_first_frame(error: BaseException) -> BaseException:
    """Have an exception refer no more to the frame that has caught it."""
    traceback = error.__traceback__
    return error.with_traceback(None if traceback is None else traceback.tb_next)


async def run_all(tasks: Iterable[Task]) -> None:
    """Run tasks side by side, and wait for all of them.

    Raises:
        Exception: What the first one to fail raises, as it is. The others are cancelled then.
    """
    failures: list[Exception] = []

    async def run(task: Task) -> None:
        try:
            await task()
        except Exception as error:  # raised below, outside of any exception group
            failures.append(error)
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for task in tasks:
            nursery.start_soon(run, task)
    if failures:
        try:
            raise failures[0]
        finally:
            failures.clear()


def runs_here(token: trio.lowlevel.TrioToken) -> bool:
    """Whether this is the thread of a Trio run, and code of that run."""
    return trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is token


def of_this_run(var: trio.lowlevel.RunVar[T], make: Callable[[], T]) -> T:
    """Return this run's value of a variable, which is made when it is first asked for."""
    try:  # no await between look and set, so there cannot be two
        return var.get()
    except LookupError:
        var.set(value := make())
        return value
