"""A context manager of Trio's that one Trio task holds open for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeVar

import trio

from trio_mcp.aio.calls import Call
from trio_mcp.aio.crossing import resolve, settled
from trio_mcp.aio.inloop import Callback
from trio_mcp.aio.run import TrioRun, acquire
from trio_mcp.errors import AlreadyConnected, NotConnected

T = TypeVar("T")
F = TypeVar("F")
R = TypeVar("R")


def _closed() -> Exception:
    return NotConnected("the connection was closed here, and what still ran on it ended with it")


class Portal(AbstractAsyncContextManager[F, None], Generic[T, F]):
    """A context manager of Trio's, opened and closed from any task of asyncio.

    One Trio task enters it, waits until it is closed, and leaves it. What is called on what it
    yields runs in a nursery within it.
    """

    def __init__(
        self,
        block: Callable[[], AbstractAsyncContextManager[T]],
        wrap: Callable[[T], F],
        within: Portal[Any, Any] | None = None,
    ) -> None:
        self._block = block
        self._wrap = wrap
        self._within = within
        self._run: TrioRun | None = None
        self._is_released = False
        self._scope = trio.CancelScope()
        self._closing = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._value: T
        self._failure: Exception | None = None
        self._opened: asyncio.Future[None]
        self._ended: asyncio.Future[None]
        self._callbacks: list[Callback] = []

    @property
    def run(self) -> TrioRun:
        if self._run is None:
            raise NotConnected("the connection is not open yet")
        return self._run

    @property
    def is_here(self) -> bool:
        """Whether it is open in the current loop and process."""
        return self._nursery is not None and not self._is_released and self.run.is_here

    # -- asyncio's side -------------------------------------------------------------------

    async def open(self) -> F:
        """Enter the block.

        Raises:
            AlreadyConnected: It was opened before.
            NotConnected: It was closed meanwhile.
            Exception: Whatever entering it raises.

        If cancelled, it leaves nothing behind.
        """
        if self._run is not None:
            raise AlreadyConnected("this connection was opened before; call connect() again")
        self._run = acquire() if self._within is None else self._within.run
        loop = asyncio.get_running_loop()
        self._opened, self._ended = loop.create_future(), loop.create_future()
        self._run.post(partial(copy_context().run, self._start, self._run))
        try:
            either = [self._opened, self._ended]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._run.post(self._scope.cancel)
            await self._finish(self._run)
            raise
        if self._nursery is None:
            await self._finish(self._run)
            self._raise()
            raise _closed()
        return self._wrap(self._value)

    async def aclose(self) -> None:
        """Leave the block; what still runs in it is cancelled, and so is `open`.

        Nothing happens if it was never opened, or is closed already.

        Raises:
            Exception: Whatever leaving it raises; while it is being opened, `open` raises that.

        If cancelled, it is closed all the same, without what is not needed for that.
        """
        if self._run is None or self._is_released:
            return
        self._run.check()
        if self._nursery is None:
            self._opened.cancel()  # so `open` hears of it, and raises what there is to raise
            self._run.post(self._scope.cancel)
        else:
            self._run.post(self._closing.set)
        try:
            await asyncio.wait([self._ended])
        except asyncio.CancelledError:
            self._run.post(self._scope.cancel)
            raise
        finally:
            await self._finish(self._run)
        if self._nursery is not None:
            self._raise()

    async def __aenter__(self) -> F:
        return await self.open()

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()

    async def call(self, function: Callable[[], Awaitable[R]]) -> R:
        """Call a Trio function within the block, and wait for its end.

        Raises:
            NotConnected: The block was left.
            Exception: Whatever the function raises.

        If cancelled, the function is cancelled, and has ended when this returns.
        """
        return await self.wait_for(self.begin(function))

    def give_up(self) -> None:
        """Have `open` fail, if it has not succeeded yet. May be called in any thread."""
        if self._run is None:  # nothing of it runs
            self._scope.cancel()
        else:
            self._run.post(self._scope.cancel)

    def begin(self, function: Callable[[], Awaitable[R]]) -> Call[R]:
        self.run.check()
        return Call(self.run, function, _closed)

    async def wait_for(self, call: Call[R]) -> R:
        return await call.wait(self._inside())

    def _inside(self) -> trio.Nursery:
        if self._nursery is None:
            raise NotConnected("the connection is not open")
        return self._nursery

    def callback(self, function: Callable[..., object]) -> Callback:
        """Wrap a user's callback so that Trio can call it. It ends with the block."""
        made = Callback(self.tell, function)
        self._callbacks.append(made)
        return made

    def forget(self, callback: Callback) -> None:
        """Stop a callback, and drop it."""
        callback.stop()
        self._callbacks.remove(callback)

    def tell(self, message: Callable[[], object]) -> None:
        self.run.tell(message)

    async def _finish(self, run: TrioRun) -> None:
        try:
            await settled(self._ended)
        finally:
            if not self._is_released:
                self._is_released = True
                for callback in self._callbacks:
                    callback.stop()
                if self._within is None:
                    await run.release()

    def _raise(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _begin(self, nursery: trio.Nursery) -> None:
        if not self._opened.done():  # or else it was closed meanwhile
            self._nursery = nursery
            self._opened.set_result(None)

    # -- Trio's side ----------------------------------------------------------------------

    def start_soon(self, task: Callable[[], Awaitable[object]]) -> bool:
        """Start a task in the block, from Trio's side. False if it was left."""
        return self.run.start_soon(self._inside(), task)

    def _start(self, run: TrioRun) -> None:
        nursery = run.nursery if self._within is None else self._within._inside()
        if not run.start_soon(nursery, partial(self._own, run)):
            self._failure = _closed()
            run.tell(partial(resolve, self._ended))

    async def _own(self, run: TrioRun) -> None:
        close = self._closing.set
        run.closings.add(close)
        try:
            with self._scope:
                async with self._block() as self._value, trio.open_nursery() as nursery:
                    run.tell(partial(self._begin, nursery))
                    await self._closing.wait()
                    nursery.cancel_scope.cancel()
        except Exception as error:
            self._failure = error
        finally:
            run.closings.discard(close)
            run.tell(partial(resolve, self._ended))
