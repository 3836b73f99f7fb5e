"""A registry's lifespan, and the tasks that live on what it opened.

The tasks must end before the lifespan is closed, and yet they may not be within it: a tool that
ignores its cancellation would keep it open. So they run in a nursery that stands around the
lifespan. Whatever is left there once the lifespan is closed is reported as stuck.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from trio_mcp.background import background_nursery
from trio_mcp.loggers import logger_of
from trio_mcp.registry import Registry, catalogue_of
from trio_mcp.registry.lifespan import Opened
from trio_mcp.transports.flushing import flush_process
from trio_mcp.wire.limits import Limits

logger = logger_of("trio_mcp")

OnStuck = Callable[[list[str]], None]
"""Called with labels of what ignores its cancellation, when nothing else is left to be done."""


def wait_for_stuck(labels: list[str]) -> None:
    """Say that a process which is not ours waits for what Trio cannot end."""
    logger.error("%s ignores its cancellation; it is waited for", ", ".join(labels))


_EXIT_STUCK: Final = 70  # EX_SOFTWARE
_FLUSH_TIMEOUT: Final = 2.0


def leave_process(labels: list[str]) -> None:
    """End a process that is ours, in spite of what Trio cannot end."""
    logger.critical("%s ignores its cancellation; the process exits", ", ".join(labels))
    flush_process(_FLUSH_TIMEOUT)
    os._exit(_EXIT_STUCK)


class Serving:
    """What the lifespans yielded, and the nursery of the tasks that use it."""

    def __init__(self, opened: Opened, nursery: trio.Nursery) -> None:
        self.opened: Final = opened
        self.nursery: Final = nursery
        """Cancelled at the end of the block."""
        self.stuck: list[str] = []
        """Labels of calls that ignore their cancellation."""
        self._left = trio.Event()

    def leave(self, labels: Sequence[str] = ()) -> None:
        """Have `run` return: what goes on seems to be stuck."""
        self.stuck += labels
        self._left.set()

    async def run(self, task: Callable[[], Awaitable[object]]) -> None:
        """Run a task in the nursery, and wait until it ends, or `leave` is called.

        Raises:
            Exception: What the task raises.
        """
        failures: list[Exception] = []

        async def run() -> None:
            try:
                await task()
            except Exception as error:  # raised below, outside of any exception group
                failures.append(error)
            finally:
                self._left.set()

        self.nursery.start_soon(run)
        await self._left.wait()
        if failures:
            raise failures[0]


@asynccontextmanager
async def serving(
    registry: Registry, limits: Limits, on_stuck: OnStuck = wait_for_stuck
) -> AsyncIterator[Serving]:
    """Open a registry's lifespan for the block, and a nursery for the tasks that use it.

    At the end the tasks are cancelled, and the lifespan is closed when they have ended, or after
    `Limits.cancel_timeout` and `Limits.flush_timeout`. It has `Limits.lifespan_timeout` for that,
    and is cancelled then.

    Args:
        registry: Whose lifespan.
        limits: The bounds to keep.
        on_stuck: What to do about tasks, and about a lifespan, that ignore their cancellation.
            Trio cannot abandon them; if it returns, they are waited for.

    Raises:
        LifespanError: The lifespan failed when it was opened, or closed.
    """
    stuck: list[str] = []
    closed = trio.CancelScope(shield=True)  # of the watch over the lifespan's end

    async def watch() -> None:
        with closed:
            await trio.sleep(limits.lifespan_timeout + limits.cancel_timeout)
            on_stuck([*stuck, f"The lifespan of {registry.name}"])

    async with background_nursery() as outer:
        try:
            async with catalogue_of(registry).opened(limits) as opened:
                ended = trio.Event()
                nursery = await outer.start(_hold_nursery, ended)
                here = Serving(opened, nursery)
                try:
                    yield here
                finally:
                    nursery.cancel_scope.cancel()
                    # Shielded, because answers may still be written; and bounded.
                    flush = 0 if here.stuck else limits.flush_timeout
                    with trio.CancelScope(shield=True) as waiting:
                        waiting.deadline = trio.current_time() + limits.cancel_timeout + flush
                        await ended.wait()
                    if not ended.is_set():
                        stuck += here.stuck or ["A call"]
                    outer.start_soon(watch)
        finally:
            closed.cancel()
            if stuck:
                on_stuck(stuck)


async def _hold_nursery(
    ended: trio.Event, task_status: trio.TaskStatus[trio.Nursery] = trio.TASK_STATUS_IGNORED
) -> None:
    try:
        async with trio.open_nursery() as nursery:
            task_status.started(nursery)
            await trio.sleep_forever()
    finally:
        ended.set()
