"""Wrappers for asyncio of Trio's classes: the same methods, which run on the other side.

A wrapper is a subclass, so an editor and mypy know every method, its arguments and its result; and
every method that has to cross does, because the decorator finds them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import ref

import trio

from trio_mcp.transports.observe import Listener

T = TypeVar("T")
C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")


def wrapper_of(theirs: type) -> Callable[[type[C]], type[C]]:
    """Override each public coroutine method of a Trio class in its subclass.

    Those that the subclass defines itself stay. The others call its `_cross`.
    """

    def complete(mine: type[C]) -> type[C]:
        for name, method in inspect.getmembers(theirs, inspect.iscoroutinefunction):
            if not name.startswith("_") and name not in vars(mine):
                setattr(mine, name, _crossing(method))
        return mine

    return complete


def _crossing(method: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
    @wraps(method)
    async def cross(self: Any, *args: Any, **options: Any) -> T:
        result: T = await self._cross(method, *args, **options)
        return result

    return cross


def same_arguments(
    theirs: Callable[P, object],
) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Give a function the arguments of another one, for type checkers and for `help`."""

    def complete(mine: Callable[..., R]) -> Callable[P, R]:
        returned = inspect.signature(mine).return_annotation
        signature = inspect.signature(theirs).replace(return_annotation=returned)
        mine.__signature__ = signature  # type: ignore[attr-defined]
        return mine

    return complete


class Feed(AsyncIterator[T], Generic[T]):
    """Iterates in asyncio over what a listener receives in Trio."""

    def __init__(
        self,
        make: Callable[[], AsyncIterator[T]],
        post: Callable[[Callable[[], object]], object],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._is_woken = False
        self._listener: Listener[T] | None = None
        post(partial(self._attach, make))

    def _attach(self, make: Callable[[], AsyncIterator[T]]) -> None:
        listener = make()
        assert isinstance(listener, Listener)
        me = ref(self)  # weak: the listener ends with the last iterator
        self._listener = listener

        def wake() -> None:
            feed = me()
            if feed is not None and not feed._is_woken:  # a burst wakes it once
                feed._is_woken = True
                with suppress(RuntimeError):  # the loop is closed
                    feed._loop.call_soon_threadsafe(feed._wake)

        listener.on_change = wake
        wake()

    def _wake(self) -> None:
        self._is_woken = False
        self._changed.set()

    async def __anext__(self) -> T:
        """Wait for the next item. If cancelled, no item is lost."""
        while True:
            self._changed.clear()
            if self._listener is not None:
                try:
                    return self._listener.take_nowait()
                except trio.WouldBlock:
                    pass
            await self._changed.wait()
