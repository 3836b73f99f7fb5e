"""From Trio to asyncio: the user's functions, which run in the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Generic, NoReturn, TypeVar

import outcome
import trio

from trio_mcp.aio.crossing import Crossing
from trio_mcp.loggers import logger_of

T = TypeVar("T")
logger = logger_of("trio_mcp.aio")

_KEPT: Final = 1000


class LoopEnded(RuntimeError):
    """The event loop ended, or cancelled what Trio was waiting for."""


class LoopCall(Generic[T]):
    """An asyncio task that a Trio task waits for. Make it in that Trio task.

    Args:
        run: The way to asyncio.
        start: What the task does.
        name: What the log calls it.
        contained: Exceptions that the Trio task gets, though they would end the event loop.
    """

    def __init__(
        self,
        run: Crossing,
        start: Callable[[], Awaitable[T]],
        name: str = "A callback",
        contained: tuple[type[SystemExit], ...] = (),
    ) -> None:
        self._run = run
        self._start = start
        self._name = name
        self._contained = contained
        self._waiter = trio.lowlevel.current_task()
        self._raise_cancel: Callable[[], NoReturn] | None = None
        self._task: asyncio.Task[None] | None = None
        self._context = copy_context()

    @property
    def is_cancelled(self) -> bool:
        return self._raise_cancel is not None

    async def wait(self) -> T:
        if self._run.is_orphan:
            raise LoopEnded("the event loop has ended")
        self._run.waiting.add(self)
        self._run.tell(self._begin)
        value: T = await trio.lowlevel.wait_task_rescheduled(self._abort)
        return value

    # -- Trio's side ----------------------------------------------------------------------

    def _abort(self, raise_cancel: Callable[[], NoReturn]) -> trio.lowlevel.Abort:
        # It goes on here when it has ended there.
        self._raise_cancel = raise_cancel
        self._run.cancelled.add(self)
        self._run.tell(self._cancel)
        return trio.lowlevel.Abort.FAILED

    def let_go(self) -> None:
        """Leave the asyncio task to itself: it ignores its cancellation."""
        logger.error("%s ignores its cancellation; it is left to itself", self._name)
        self._resume(outcome.Error(LoopEnded("it ignores its cancellation")))

    def give_up(self) -> None:
        self._resume(outcome.Error(LoopEnded("the event loop has ended")))

    def _resume(self, result: outcome.Outcome[T]) -> None:
        self._run.cancelled.discard(self)
        if self not in self._run.waiting:
            return
        self._run.waiting.remove(self)
        if self._raise_cancel is not None and isinstance(result, outcome.Error):
            trio.lowlevel.reschedule(self._waiter, outcome.capture(self._raise_cancel))
        else:
            trio.lowlevel.reschedule(self._waiter, result)

    # -- asyncio's side -------------------------------------------------------------------

    def _begin(self) -> None:
        self._task = self._run.create_task(self._call(), self._context)
        self._task.add_done_callback(self._end)
        if self._raise_cancel is not None:
            self._cancel()

    async def _call(self) -> None:
        result: outcome.Outcome[T]
        try:
            result = outcome.Value(await self._start())
        except self._contained as error:
            result = outcome.Error(error)
        if self._task is not None:  # its callback would cost another turn of the loop
            self._task.remove_done_callback(self._end)
        self._run.post(partial(self._resume, result))

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            if self._run.is_ending:
                self.detach()

    def detach(self) -> None:
        """Have the end of the loop not wait for it, which may be forever."""
        if self._task is not None:
            asyncio.tasks._unregister_task(self._task)

    def _end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            error: BaseException | None = LoopEnded("asyncio cancelled it")
        else:
            error = task.exception()
        if error is not None:
            self._run.post(partial(self._resume, outcome.Error(error)))


async def call_asyncio(
    run: Crossing, function: Callable[..., Awaitable[T]], *args: Any, name: str = "A callback"
) -> T:
    """Call an asyncio function from Trio, and wait for its end. The log calls it by the name.

    Raises:
        Exception: Whatever the function raises.
        LoopEnded: The event loop ended.

    If cancelled, the asyncio task is cancelled, and has ended when this returns.
    """
    return await LoopCall(run, partial(function, *args), name).wait()


class Callback:
    """Calls a user's callback in the event loop: in order, and one at a time.

    It may be a plain function or an `async def` one. Trio does not wait for it. So it misses the
    oldest calls if it is a thousand behind.
    """

    def __init__(
        self, tell: Callable[[Callable[[], object]], None], function: Callable[..., object]
    ) -> None:
        self._tell = tell
        self._function = function
        self._calls: deque[tuple[Any, ...]] = deque(maxlen=_KEPT)
        self._is_woken = False
        self._task: asyncio.Future[object] | None = None

    def __call__(self, *args: Any) -> None:
        """Schedule a call, from Trio's side."""
        self._calls.append(args)
        if not self._is_woken:
            self._is_woken = True
            self._tell(self._work)

    def _work(self) -> None:
        self._is_woken = False
        for _ in range(len(self._calls)):  # a call made meanwhile wakes it again
            if self._task is not None:
                return
            try:
                result = self._function(*self._calls.popleft())
                if isinstance(result, Awaitable):
                    self._task = asyncio.ensure_future(result)
                    self._task.add_done_callback(self._go_on)
            except Exception:
                logger.exception("A callback failed")

    def _go_on(self, task: asyncio.Future[object]) -> None:
        self._task = None
        if not task.cancelled() and task.exception() is not None:
            logger.error("A callback failed", exc_info=task.exception())
        self._work()

    async def finish(self) -> None:
        """Wait until all scheduled calls are done. If cancelled, they are cancelled."""
        try:
            while self._task is not None:
                await asyncio.wait([self._task])
        except asyncio.CancelledError:
            self.stop()
            raise

    def stop(self) -> None:
        """Drop the calls that are left, and cancel the one that runs."""
        self._calls.clear()
        if self._task is not None:
            self._task.cancel()
