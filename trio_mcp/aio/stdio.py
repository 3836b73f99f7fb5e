"""Serving a registry on stdin and stdout, from a program on asyncio."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

from trio_mcp.aio.portal import Portal
from trio_mcp.registry import Registry
from trio_mcp.server.lifecycle import Lifecycle, stopping_at_signals
from trio_mcp.transports.stdio.serve import serve_process
from trio_mcp.wire.limits import Limits


async def serve(
    registry: Registry, *, limits: Limits | None = None, outlive_parent: bool = False
) -> None:
    """Serve a registry on stdin and stdout until the client disconnects, from asyncio.

    It does what `trio_mcp.serve` does. Handlers of a `trio_mcp.aio.Registry`, and those with
    `on_asyncio`, run in the event loop; the others under Trio, in a thread beside it.

    Args:
        registry: What to serve.
        limits: The bounds of messages and calls.
        outlive_parent: Whether to go on when the process that has started this one has ended.

    Raises:
        RuntimeError: Stdin and stdout are being served already.
        Exception: Whatever the registry's lifespan raises.

    If cancelled, it cancels its calls, writes what has been answered and restores the descriptors.

    Example:
        >>> registry = Registry("empty")
        >>> if __name__ == "__main__":
        ...     asyncio.run(serve(registry))
    """
    portal: Portal[None, None] = Portal(nullcontext, lambda nothing: nothing)
    async with portal:
        lifecycle = Lifecycle()
        with stopping_at_signals(lifecycle, portal.run.post):
            await portal.call(partial(serve_process, registry, limits, lifecycle, outlive_parent))
