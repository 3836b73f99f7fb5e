"""From asyncio to Trio: a call, which is a task there and a future here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from typing import Final, Generic, TypeVar

import trio

from trio_mcp.aio.crossing import Crossing, resolve, settled

T = TypeVar("T")

Closed = Callable[[], Exception]
"""Makes the error of calls that are cut off by the end of what they belong to."""


class Call(Generic[T]):
    """A Trio function that an asyncio task waits for."""

    def __init__(self, run: Crossing, function: Callable[[], Awaitable[T]], closed: Closed) -> None:
        self._run = run
        self._function = function
        self._closed = closed
        self._context: Final[Context] = copy_context()
        self._scope = trio.CancelScope()
        self._future = run.future()
        self.value: T
        """What the function returned, even if the waiting task was cancelled at that moment."""
        self._failure: Exception | None = None
        self.has_value = False
        self._is_over = False

    async def wait(self, nursery: trio.Nursery) -> T:
        """Run the function in a nursery of the run, and wait for its end.

        If cancelled, it is cancelled there, and has ended when this returns.
        """
        self._run.post(lambda: self._start(nursery))
        try:
            await self._future
        except asyncio.CancelledError:
            if not self._is_over:
                self._future = self._run.future()
                self._run.post(self._scope.cancel)
                await settled(self._future)
            raise
        if self._failure is not None:
            try:
                raise self._failure
            finally:
                self._failure = None  # or else it would hold itself by its traceback
        return self.value

    # -- Trio's side ----------------------------------------------------------------------

    def _start(self, nursery: trio.Nursery) -> None:
        if not self._context.run(self._run.start_soon, nursery, self._work):
            self._cut_off()

    async def _work(self) -> None:
        try:
            with self._scope:
                self.value = await self._function()
                self.has_value = True
        except Exception as error:
            self._failure = error
        finally:
            if self.has_value or self._failure is not None or self._scope.cancelled_caught:
                self._run.tell(self._finish)
            else:
                self._cut_off()

    def _cut_off(self) -> None:
        self._failure = self._closed()
        self._run.tell(self._finish)

    # -- asyncio's side -------------------------------------------------------------------

    def _finish(self) -> None:
        self._is_over = True
        resolve(self._future)
