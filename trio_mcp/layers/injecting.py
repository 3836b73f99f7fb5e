"""Parameters that come from functions: called before the function, and closed after it."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from functools import partial
from math import inf
from types import TracebackType
from typing import Any, Final

import trio
from attrs import define, field, frozen

from trio_mcp.layers.call import Call, Handler
from trio_mcp.layers.function import in_worker

_CLOSING: Final = 2.0
"""So many seconds a thread has to close what a cancelled call had open, before it is left."""

Arguments = Mapping[str, Any]


async def awaited(step: Step, arguments: Arguments, call: Call, stack: AsyncExitStack) -> Any:
    """Call an async function."""
    return await step.function(**arguments)


async def threaded(step: Step, arguments: Arguments, call: Call, stack: AsyncExitStack) -> Any:
    """Call a plain function, in a worker thread."""
    asks = step.context_parameter is not None
    return await in_worker(lambda: step.function(**arguments), call, asks=asks)


async def entered(step: Step, arguments: Arguments, call: Call, stack: AsyncExitStack) -> Any:
    """Enter the async context manager that a function makes."""
    return await stack.enter_async_context(step.function(**arguments))


async def entered_aside(step: Step, arguments: Arguments, call: Call, stack: AsyncExitStack) -> Any:
    """Enter the context manager that a function makes, in a worker thread."""
    asks = step.context_parameter is not None
    manager = _Threaded(step.function(**arguments), partial(in_worker, call=call, asks=asks))
    return await stack.enter_async_context(manager)


@frozen(eq=False, repr=False)
class Step:
    """One function that a call needs the value of."""

    function: Callable[..., Any]
    fill: Callable[[Step, Arguments, Call, AsyncExitStack], Awaitable[Any]]
    """How its value is made: one of the functions above."""
    filled: Mapping[str, int]
    """By parameter, the step whose value it gets."""
    context_parameter: str | None


@define(eq=False, repr=False)
class Injection:
    """What fills the parameters of one function that no caller fills."""

    function: str
    """The function's name."""
    wanted: Mapping[str, Any]
    """By parameter, what the author has asked for (a `Dependency`)."""
    steps: Sequence[Step] = ()
    """What to call, each after all that it needs."""
    filled: Mapping[str, int] = field(factory=dict)
    """By parameter of the function, the step whose value it gets."""

    def around(self, inner: Handler) -> Handler:
        """Add to the arguments what the function gets from others (a layer)."""

        async def run(call: Call) -> Any:
            stack = AsyncExitStack()
            try:
                result = await inner(await self._filled_in(call, stack))
            except BaseException as error:
                await stack.__aexit__(type(error), error, error.__traceback__)
                raise  # even if a dependency has swallowed it: there is no result
            await stack.aclose()
            return result

        return run

    async def _filled_in(self, call: Call, stack: AsyncExitStack) -> Call:
        """Return a call with the values of all steps, to be closed by the stack."""
        values: list[Any] = []
        filled = self.filled
        for step in self.steps:
            arguments = {name: values[number] for name, number in step.filled.items()}
            if step.context_parameter is not None:
                arguments[step.context_parameter] = call.make_context()
            values.append(await step.fill(step, arguments, call, stack))
        given = {name: values[number] for name, number in filled.items()}
        return call.with_arguments({**call.arguments, **given}, call.make_context)


class _Threaded:
    """A context manager that is entered and left in worker threads.

    Args:
        manager: The context manager.
        in_thread: Runs the part that enters it.
    """

    def __init__(
        self,
        manager: AbstractContextManager[Any],
        in_thread: Callable[[Callable[[], Any]], Awaitable[Any]],
    ) -> None:
        self._manager = manager
        self._in_thread = in_thread
        self._lock = threading.Lock()
        self._is_open = self._is_given_up = False

    def _enter(self) -> Any:
        value = self._manager.__enter__()
        with self._lock:
            self._is_open = not self._is_given_up
        if not self._is_open:
            self._manager.__exit__(None, None, None)
        return value

    async def __aenter__(self) -> Any:
        try:
            return await self._in_thread(self._enter)
        except trio.Cancelled as cancelled:
            with self._lock:  # the thread goes on, and closes what it opens from now on
                self._is_given_up = True
            if self._is_open:
                await self.__aexit__(type(cancelled), cancelled, cancelled.__traceback__)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        is_cancelled = trio.current_effective_deadline() == -inf
        deadline = trio.current_time() + _CLOSING if is_cancelled else inf
        with trio.CancelScope(shield=is_cancelled, deadline=deadline):
            return await trio.to_thread.run_sync(
                self._manager.__exit__,
                kind,
                error,
                traceback,
                abandon_on_cancel=True,
                limiter=trio.CapacityLimiter(1),  # others may all be stuck
            )
        return None  # it took too long
