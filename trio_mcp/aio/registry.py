"""A registry whose handlers are written for asyncio."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import trio

from trio_mcp.aio.handlers import current_trio_run, on_asyncio, opened_in_loop
from trio_mcp.aio.portal import Portal
from trio_mcp.registry import Registry as TrioRegistry
from trio_mcp.registry.catalogue import Catalogue
from trio_mcp.registry.lifespan import Opened
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits


class _Catalogue(Catalogue):
    def opened(self, limits: Limits | None = None) -> AbstractAsyncContextManager[Opened]:  # type: ignore[override]
        """Open the lifespan; refuse where there is no asyncio."""
        current_trio_run(f"registry {self.name!r}")
        return super().opened(limits)


class Registry(TrioRegistry):
    """A registry whose `async def` functions run in the event loop of asyncio.

    It takes what `trio_mcp.Registry` takes. Handlers and the lifespan are written for asyncio;
    plain `def` handlers run in worker threads, as always. Serve it by `http_app`, `serve` or
    `connect` of `trio_mcp.aio`.

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
            super().__init__(*args, **options)

    def _prepared(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return on_asyncio(function) if inspect.iscoroutinefunction(function) else function

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


def _lifespan_in_loop(
    lifespan: Callable[[TrioRegistry], AbstractAsyncContextManager[Any]], registry: TrioRegistry
) -> AbstractAsyncContextManager[Any]:
    run = current_trio_run(f"the lifespan of {registry.name}")
    return opened_in_loop(run, partial(lifespan, registry))
