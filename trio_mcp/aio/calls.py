"""From asyncio to Trio: a call, which is a task there and a future here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Final, Generic, TypeVar

import trio

from trio_mcp.aio.crossing import Crossing, resolve, settled
from trio_mcp.client.session import ClientRequest, ClientSession, Started
from trio_mcp.wire.jsonrpc import Json

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


class SentCall:
    """A request that is sent in the Trio run while an asyncio task waits: no task does there.

    Args:
        run: The run.
        session: Sends it.
        request: The request.
    """

    def __init__(self, run: Crossing, session: ClientSession, request: ClientRequest) -> None:
        self._run = run
        self._session = session
        self._request = request
        self._future = run.future()
        self.sent: Started | None = None
        self.result: dict[str, Json] | None = None
        """Its result, if it is plain (`ClientSession.plain_outcome`)."""
        self._is_over = False

    async def wait(self) -> Started | None:
        """Send it, and wait for its end; `None` if it has to be sent in another way.

        If cancelled, it is withdrawn before this returns.
        """
        self._run.post(self._start)
        try:
            await self._future
        except asyncio.CancelledError:
            if not self._is_over:
                self._future = self._run.future()
                self._run.post(self._withdraw)
                await settled(self._future)
            raise
        return self.sent

    # -- Trio's side ----------------------------------------------------------------------

    def _start(self) -> None:
        if not self._run.is_over:  # else this is called in some other thread
            with suppress(TypeError):  # which is raised where it is sent in the other way
                self.sent = self._session.start(self._request, self._ended)
        if self.sent is None:
            self._run.tell(self._finish)

    def _ended(self, sent: Started) -> None:
        self.result = self._session.plain_outcome(sent)
        self._run.tell(self._finish)

    def _withdraw(self) -> None:
        if self.sent is None or not self.sent.is_open or self._run.is_over:
            self._run.tell(self._finish)
        else:
            self._session.withdraw(self.sent)

    # -- asyncio's side -------------------------------------------------------------------

    def _finish(self) -> None:
        self._is_over = True
        resolve(self._future)
