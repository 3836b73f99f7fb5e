"""A registry whose handlers are written for asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import trio

from trio_mcp.aio.beside import loop_beside_trio
from trio_mcp.aio.handlers import (
    crossing_for,
    manager_on_asyncio,
    middleware_on_asyncio,
    on_asyncio,
    opened_in_loop,
)
from trio_mcp.aio.portal import Portal
from trio_mcp.registry import Registry as TrioRegistry
from trio_mcp.registry.catalogue import Catalogue
from trio_mcp.registry.functions import awaited, is_async
from trio_mcp.registry.lifespan import Opened
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits


class _Catalogue(Catalogue):
    """One whose handlers have an event loop while it is open: where there is none, one is made."""

    @asynccontextmanager
    async def opened(self, limits: Limits | None = None) -> AsyncIterator[Opened]:
        async with loop_beside_trio(), super().opened(limits) as found:
            yield found

    @asynccontextmanager
    async def lifespan(self, limits: Limits) -> AsyncIterator[Any]:
        async with loop_beside_trio(), super().lifespan(limits) as state:
            yield state


class Registry(TrioRegistry):
    """A registry whose `async def` functions run in the event loop of asyncio.

    It takes what `trio_mcp.Registry` takes. Handlers, the lifespan and middleware that is an
    `async def` function are written for asyncio; plain `def` handlers run in worker threads, as
    always. Serve it by `http_app`, `serve` or
    `connect` of `trio_mcp.aio`, and they run in your event loop. Whatever else serves it (the
    command line, `trio.run(serve, registry)`, another registry that it is mounted in) gives them a
    loop in a thread of its own, for as long as the registry is open.

    Example:
        >>> registry = Registry("clock")
        >>> @registry.tool
        ... async def wait(seconds: float) -> str:
        ...     await asyncio.sleep(seconds)
        ...     return "done"
    """

    _catalogue_type = _Catalogue

    if not TYPE_CHECKING:  # which sees the arguments that there are

        @wraps(TrioRegistry.__init__)
        def __init__(self, *args: Any, **options: Any) -> None:
            if callable(options.get("lifespan")):
                options["lifespan"] = partial(_lifespan_in_loop, options["lifespan"])
            if isinstance(options.get("middleware"), list | tuple):
                options["middleware"] = [_middleware_in_loop(one) for one in options["middleware"]]
            super().__init__(*args, **options)

    def _prepared(self, function: Callable[..., Any]) -> Callable[..., Any]:
        function = awaited(function, asyncio.to_thread)
        return on_asyncio(function) if is_async(function) else function

    def _prepared_dependency(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if not inspect.isasyncgenfunction(inspect.unwrap(function)):
            return self._prepared(function)
        if inspect.isasyncgenfunction(function):
            function = asynccontextmanager(function)
        return manager_on_asyncio(function)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        limits: Limits | None = None,
    ) -> Any:
        """Run a tool directly, as `trio_mcp.Registry.call` does."""
        call = partial(super().call, name, arguments, limits=limits)
        if trio.lowlevel.in_trio_run():
            return await call()
        portal: Portal[None, None] = Portal(nullcontext, lambda nothing: nothing)
        async with portal:
            return await portal.call(call)

    def running(self, *, limits: Limits | None = None) -> AbstractAsyncContextManager[Any]:
        """Open the lifespan for a block, as `trio_mcp.Registry.running` does."""
        if trio.lowlevel.in_trio_run():
            return super().running(limits=limits)
        portal: Portal[Any, Any] = Portal(
            partial(super().running, limits=limits), lambda state: state
        )
        return portal


def _middleware_in_loop(middleware: Any) -> Any:
    is_function = inspect.iscoroutinefunction(middleware)  # those of the library are objects
    return middleware_on_asyncio(middleware) if is_function else middleware


def _lifespan_in_loop(
    lifespan: Callable[[TrioRegistry], AbstractAsyncContextManager[Any]], registry: TrioRegistry
) -> AbstractAsyncContextManager[Any]:
    run = crossing_for(f"the lifespan of {registry.name}")
    return opened_in_loop(run, partial(lifespan, registry))
