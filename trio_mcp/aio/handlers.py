"""Handlers that are written for asyncio: they run in its loop, on either side."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial, wraps
from types import MappingProxyType
from typing import Any, Final, TypeVar

import outcome
import trio
from attrs import evolve, fields, frozen

from trio_mcp.aio.calls import Call
from trio_mcp.aio.crossing import Crossing, current_crossing
from trio_mcp.aio.inloop import LoopCall, LoopEnded
from trio_mcp.aio.wrappers import wrapper_of
from trio_mcp.registry import Context
from trio_mcp.registry.functions import is_async
from trio_mcp.wire.errors import INVALID_REQUEST, McpError

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_SAYING: Final = {
    Context.progress,
    Context.log,
    Context.debug,
    Context.info,
    Context.warning,
    Context.error,
    Context.notify,
}
"""What a context says, and does not ask."""


class RequestEnded(McpError):
    """The handler has returned or was cancelled, and one of its tasks asks its client something."""

    def __init__(self) -> None:
        super().__init__(
            INVALID_REQUEST, "The request has ended, so its client cannot be asked any more"
        )


@wrapper_of(Context)
@frozen(kw_only=True)
class LoopContext(Context):
    """The context of a handler that runs in the event loop."""

    _theirs: Context
    _run: Crossing
    _nursery: trio.Nursery

    async def _cross(
        self, method: Callable[..., Awaitable[Any]], *args: Any, **options: Any
    ) -> Any:
        call = Call(self._run, partial(method, self._theirs, *args, **options), RequestEnded)
        try:
            return await call.wait(self._nursery)
        except RequestEnded:
            if method not in _SAYING:
                raise
            return None  # it is too late to be heard

    def close_sse_stream(self) -> None:
        """Close the stream, as `Context.close_sse_stream` does."""
        self._run.post(self._theirs.close_sse_stream)


_FIELDS = {item.name: item.alias or item.name for item in fields(Context)}


def _in_loop(options: Mapping[str, Any], run: Crossing, nursery: trio.Nursery) -> dict[str, Any]:
    """Return arguments for a function that runs in the loop, where a context is another one."""

    def in_loop(value: Any) -> Any:
        if not isinstance(value, Context):
            return value
        given: dict[str, Any] = {alias: getattr(value, name) for name, alias in _FIELDS.items()}
        return LoopContext(**given, theirs=value, run=run, nursery=nursery)

    return {name: in_loop(value) for name, value in options.items()}


def on_asyncio(function: F) -> F:
    """Run a handler in the event loop of asyncio: a tool, a resource, a prompt, a completion.

    `http_app`, `serve` and `connect` of `trio_mcp.aio` take registries with such handlers beside
    others. A `trio_mcp.aio.Registry` does this with all its `async def` functions, and may be
    served by anything. Write it below the decorator of the registry.

    The handler's time limit and the client's cancellation cancel its asyncio task. Its `Context`
    has the same methods as any other.

    Raises:
        TypeError: It is no `async def` function; a plain one runs in a worker thread anyway.

    Example:
        >>> registry = Registry("clock")
        >>> @registry.tool
        ... @on_asyncio
        ... async def wait(seconds: float) -> str:
        ...     await asyncio.sleep(seconds)
        ...     return "done"
    """
    if isinstance(function, partial):
        inner = on_asyncio(function.func)
        return partial(inner, *function.args, **function.keywords)  # type: ignore[return-value]
    if not is_async(function):
        raise TypeError("on_asyncio is for async def functions; others run in worker threads")

    @wraps(function)
    async def run_in_loop(*args: Any, **options: Any) -> Any:
        run = crossing_for(_name_of(function))
        for value in options.values():
            if isinstance(value, Context):
                return await _with_contexts(run, function, args, options)
        return await _called(run, function, args, options)

    if not inspect.isroutine(function):  # an object, which has no name of its own
        run_in_loop.__name__ = ""
        run_in_loop.__doc__ = function.__doc__ or type(function).__call__.__doc__
    return run_in_loop  # type: ignore[return-value]


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def crossing_for(what: str) -> Crossing:
    """Return the way from this Trio run to the event loop beside it.

    Raises:
        RuntimeError: There is none, and what to do.
    """
    run = current_crossing.get()
    if run is None:
        raise RuntimeError(
            f"{what} is written for asyncio, and there is no asyncio here: put it in a Registry "
            "of trio_mcp.aio, or serve it by http_app, serve or connect of trio_mcp.aio"
        )
    return run


def _called(
    run: Crossing, function: Callable[..., Awaitable[T]], args: Any, options: Mapping[str, Any]
) -> Awaitable[T]:
    """Run a handler in asyncio, where `SystemExit` would end the loop and all that it serves."""
    start = partial(function, *args, **options)
    return LoopCall(run, start, _name_of(function), (SystemExit,)).wait()


def _with_contexts(
    run: Crossing,
    function: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    options: dict[str, Any],
) -> Awaitable[Any]:
    """Run a handler that may talk back."""
    return _talking(run, function, lambda nursery: (args, _in_loop(options, run, nursery)))


async def _talking(
    run: Crossing,
    function: Callable[..., Awaitable[Any]],
    make: Callable[[trio.Nursery], tuple[tuple[Any, ...], dict[str, Any]]],
) -> Any:
    """Run a function with arguments that are made with a nursery for what it asks of Trio."""
    result: outcome.Outcome[Any]
    async with trio.open_nursery() as nursery:
        args, options = make(nursery)
        try:
            result = outcome.Value(await _called(run, function, args, options))
        except (Exception, SystemExit) as error:  # raised below, outside of any exception group
            result = outcome.Error(error)
    return result.unwrap()


def middleware_on_asyncio(function: F) -> F:
    """Run middleware in the event loop of asyncio; what its `call_next` does stays on Trio."""

    @wraps(function)
    async def run_in_loop(given: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        run = crossing_for(function.__name__)
        context = given.context  # made on this side, if it is not yet

        def make(nursery: trio.Nursery) -> tuple[tuple[Any, ...], dict[str, Any]]:
            async def rest(handed_on: Any) -> Any:
                if isinstance(getattr(handed_on, "context", None), LoopContext):
                    handed_on = evolve(handed_on, context=context)
                call = Call(run, partial(call_next, handed_on), RequestEnded)
                return await call.wait(nursery)

            return (evolve(given, **_in_loop({"context": context}, run, nursery)), rest), {}

        return await _talking(run, function, make)

    return run_in_loop  # type: ignore[return-value]


def manager_on_asyncio(
    make: Callable[..., AbstractAsyncContextManager[T]],
) -> Callable[..., AbstractAsyncContextManager[T]]:
    """Have the context managers that a function makes run in the event loop of asyncio."""

    @wraps(make)
    def opened(**options: Any) -> AbstractAsyncContextManager[T]:
        return opened_in_loop(crossing_for(make.__name__), make, options)

    return opened


@asynccontextmanager
async def opened_in_loop(
    run: Crossing,
    make: Callable[..., AbstractAsyncContextManager[T]],
    options: Mapping[str, Any] = MappingProxyType({}),
) -> AsyncIterator[T]:
    """Open a context manager of asyncio's for the block, in one asyncio task.

    It is left with the exception of the block, but cannot swallow that.

    Raises:
        Exception: Whatever it raises when it is entered or left.
    """
    ready, scope = trio.Event(), trio.CancelScope()
    found: list[T] = []
    failures: list[Exception] = []
    leaving: list[asyncio.Future[Exception | None]] = []
    call: LoopCall[None]

    async def hold() -> None:
        leaving.append(asyncio.get_running_loop().create_future())
        async with make(**_in_loop(options, run, nursery)) as value:
            found.append(value)
            run.post(ready.set)
            try:
                error = await leaving[0]
            except asyncio.CancelledError:
                if call.is_cancelled:
                    raise
                # A loop that shuts down cancels all tasks first. This one may end in good order.
            else:
                if error is not None:
                    raise error

    def leave(error: Exception | None) -> None:
        if not leaving[0].done():
            leaving[0].set_result(error)

    async def work() -> None:
        nonlocal call
        call = LoopCall(run, hold)
        try:
            with scope:
                await call.wait()
        except Exception as error:  # raised below, outside of any exception group
            failures.append(error)
        ready.set()

    passing: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await ready.wait()
        if found:
            scope.shield = True  # cancelled, what is in the block ends first
            try:
                yield found[0]
            except BaseException as error:
                passing = error
            scope.shield = False
            if passing is None or isinstance(passing, Exception):
                run.tell(partial(leave, passing))
            else:
                scope.cancel()
    if passing is not None and (not failures or isinstance(failures[0], LoopEnded)):
        raise passing
    if failures:
        raise failures[0]
