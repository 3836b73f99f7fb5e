"""The part of `trio-mcp serve` that is over HTTP."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator
from functools import partial
from importlib.util import find_spec

import trio
from attrs import field, frozen

from trio_mcp.cli.failures import OK, Failure
from trio_mcp.registry import Registry
from trio_mcp.server.lifecycle import ServerHandle, ServerState
from trio_mcp.wire.limits import Limits

logger = logging.getLogger("trio_mcp.http")


@frozen
class Exposure:
    """Where a server listens, and for whom."""

    host: str
    port: int
    path: str
    hosts: tuple[str, ...]
    origins: tuple[str, ...]
    token: str | None = field(repr=False)


def run_http(registry: Registry, exposure: Exposure, limits: Limits) -> int:
    """Serve over HTTP until SIGINT or SIGTERM; return the exit status.

    Raises:
        Failure: It cannot listen there, or a package is missing.
    """
    if find_spec("httptools") is None:
        raise Failure("HTTP needs more packages: pip install 'trio-mcp[cli,http]'")
    trio.run(partial(_serve, registry, exposure, limits))
    return OK


async def _serve(registry: Registry, exposure: Exposure, limits: Limits) -> None:
    from trio_mcp import HttpPolicy, serve_http

    policy = HttpPolicy(
        allowed_hosts=[*HttpPolicy().allowed_hosts, *exposure.hosts],
        allowed_origins=exposure.origins,
        tokens={exposure.token: "token"} if exposure.token else {},
    )
    listen = partial(
        serve_http,
        registry,
        exposure.host,
        exposure.port,
        path=exposure.path,
        policy=policy,
        limits=limits,
    )
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            try:
                handle = await nursery.start(listen)
            except OSError as error:
                where = f"{exposure.host}:{exposure.port}"
                raise Failure(f"cannot listen on {where}: {error.strerror or error}") from None
            logger.info("Serving %s at %s", registry.name, handle.url)
            nursery.start_soon(_stop_at_signals, signals, handle, nursery.cancel_scope)


async def _stop_at_signals(
    signals: AsyncIterator[int], handle: ServerHandle, scope: trio.CancelScope
) -> None:
    """Stop gracefully at the first signal, and at once at the second one."""
    await anext(signals)
    handle.stop()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_at_signal, signals, scope)
        await handle.wait_for(ServerState.STOPPED)
        nursery.cancel_scope.cancel()


async def _cancel_at_signal(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    await anext(signals)
    scope.cancel()
