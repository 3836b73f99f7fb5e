"""A registry's lifespan, and the tasks that live on what it opened.

The tasks must end before the lifespan is closed, and yet they may not be within it: a tool that
ignores its cancellation would keep it open. So they run in a nursery that stands around the
lifespan. Whatever is left there once the lifespan is closed is reported as stuck. As it is there
before the lifespan is, a connection can be read, and its end be noticed, while the lifespan opens.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import trio

from trio_mcp.background import background_nursery
from trio_mcp.loggers import all_handlers, logger_of
from trio_mcp.registry import Registry, catalogue_of
from trio_mcp.registry.lifespan import Opened
from trio_mcp.system.processes import kill_living
from trio_mcp.wire.limits import Limits

logger = logger_of("trio_mcp")

OnStuck = Callable[[list[str]], None]
"""Called with labels of what ignores its cancellation, when nothing else is left to be done."""


def wait_for_stuck(labels: list[str]) -> None:
    """Say that a process which is not ours waits for what Trio cannot end."""
    logger.error("%s ignores its cancellation; it is waited for", _counted(labels))


_EXIT_STUCK: Final = 70  # EX_SOFTWARE


def leave_process(labels: list[str]) -> None:
    """End a process that is ours, in spite of what Trio cannot end."""
    logger.critical("%s ignores its cancellation; the process exits", _counted(labels))
    logging.shutdown()
    kill_living()
    os._exit(_EXIT_STUCK)


def _counted(labels: list[str]) -> str:
    """Name each label once: a thousand calls of one tool are one word, and a number."""
    counts = Counter(labels).items()
    return ", ".join(label if count == 1 else f"{label} ({count} calls)" for label, count in counts)


class Serving:
    """Tasks that use what a registry's lifespan yields, in a nursery around it."""

    opened: Opened
    """What the lifespans yielded."""
    nursery: trio.Nursery
    """Cancelled when the lifespan is to be closed."""

    def __init__(self, registry: Registry, limits: Limits) -> None:
        self._registry = registry
        self._limits = limits
        self.is_open = False
        """Whether the lifespan is, or was."""
        self.closing: Final = trio.Event()
        """Set when the lifespan is being closed, or is not wanted any more while it opens."""
        self.stuck: list[str] = []
        """Labels of calls that ignore their cancellation."""
        self._failures: list[Exception] = []
        self._left = trio.Event()
        self._ended = trio.Event()

    async def hold_nursery(self, task_status: trio.TaskStatus[None]) -> None:
        """Keep the nursery open until it is cancelled, and all of its tasks have ended."""
        try:
            async with trio.open_nursery() as self.nursery:
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._ended.set()

    def leave(self, labels: Sequence[str] = ()) -> None:
        """Have `wait` return: what goes on seems to be stuck."""
        self.stuck += labels
        self._left.set()

    def start(self, task: Callable[[], Awaitable[object]]) -> None:
        """Run a task in the nursery. At its end, `wait` returns."""

        async def run() -> None:
            try:
                await task()
            except Exception as error:  # raised by `wait`, outside of any exception group
                self._failures.append(error)
            finally:
                self._left.set()
                if not self.is_open:
                    self.closing.set()

        self.nursery.start_soon(run)

    async def wait(self) -> None:
        """Wait until the task that was started ends, or `leave` is called; raises what it did."""
        await self._left.wait()
        if self._failures:
            raise self._failures[0]

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[Opened]:
        """Open the lifespan for the block.

        At the end the tasks are cancelled, and the lifespan is closed when they have ended, or
        after `Limits.cancel_timeout` and `Limits.flush_timeout`.

        Raises:
            LifespanError: The lifespan failed when it was opened, or closed.
        """
        async with catalogue_of(self._registry).opened(self._limits) as self.opened:
            self.is_open = True
            try:
                yield self.opened
            finally:
                await self._end_tasks()
                self.closing.set()

    async def _end_tasks(self) -> None:
        self.nursery.cancel_scope.cancel()
        # Shielded, because answers may still be written; and bounded.
        flush = 0 if self.stuck else self._limits.flush_timeout
        with trio.CancelScope(shield=True) as waiting:
            waiting.deadline = trio.current_time() + self._limits.cancel_timeout + flush
            await self._ended.wait()
        self.stuck = [] if self._ended.is_set() else self.stuck or ["A call"]


@asynccontextmanager
async def tasks_around(
    registry: Registry, limits: Limits, on_stuck: OnStuck = wait_for_stuck
) -> AsyncIterator[Serving]:
    """Open a nursery for the tasks that use a registry's lifespan, before that is opened.

    Args:
        registry: Whose lifespan.
        limits: The bounds to keep.
        on_stuck: What to do about tasks, and about a lifespan, that ignore their cancellation.
            Trio cannot abandon them; if it returns, they are waited for.
    """
    closed = trio.CancelScope(shield=True)

    async def watch(here: Serving) -> None:
        try:
            await here.closing.wait()
        finally:  # also if it is cancelled, as all of this then is
            with closed:
                if here.is_open:
                    await here.closing.wait()
                await trio.sleep(limits.lifespan_timeout + limits.cancel_timeout)
                on_stuck([*here.stuck, f"The lifespan of {registry.name}"])

    async with background_nursery() as outer:
        here = Serving(registry, limits)
        await outer.start(here.hold_nursery)
        outer.start_soon(watch, here)
        try:
            yield here
        finally:
            closed.cancel()
            here.nursery.cancel_scope.cancel()
            if here.stuck:
                on_stuck(here.stuck)


@asynccontextmanager
async def serving(
    registry: Registry, limits: Limits, on_stuck: OnStuck = wait_for_stuck
) -> AsyncIterator[Serving]:
    """Open a registry's lifespan for the block, and a nursery for the tasks that use it.

    Arguments are those of `tasks_around`; how it ends, and what it raises, is said by
    `Serving.lifespan`.
    """
    async with tasks_around(registry, limits, on_stuck) as here, here.lifespan():
        yield here


_PROVIDERS: Final = {
    "opentelemetry.trace": "get_tracer_provider",
    "opentelemetry.metrics": "get_meter_provider",
    "opentelemetry._logs": "get_logger_provider",
}
"""Where the application may have what exports its telemetry, once it has imported that."""


def flush_logs() -> None:
    """Flush all handlers of the log."""
    for handler in all_handlers():
        with suppress(Exception):  # its file is closed, say, or there is no room
            handler.flush()


def flush_process(seconds: float) -> None:
    """Flush logs, and what OpenTelemetry has not exported, of a process that is about to end.

    It blocks, for at most so many seconds: an exporter may wait for a server that is gone, and a
    handler for its reader.
    """
    thread = threading.Thread(target=_flush_all, args=(seconds,), daemon=True)
    thread.start()
    thread.join(seconds)


def _flush_all(seconds: float) -> None:
    flush_logs()
    for module, getter in _PROVIDERS.items():
        if module in sys.modules:
            provider: Any = getattr(sys.modules[module], getter)()
            if hasattr(provider, "force_flush"):  # only the one of the SDK has anything to export
                provider.force_flush(int(seconds * 1000))
