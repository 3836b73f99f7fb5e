"""The part of `trio-mcp serve` that is over HTTP."""

from __future__ import annotations

import logging
from functools import partial
from importlib.util import find_spec

import trio
from attrs import field, frozen

from trio_mcp.cli.failures import OK, Failure
from trio_mcp.registry import Registry
from trio_mcp.server.signals import stop_at_signals
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
    async with trio.open_nursery() as nursery:
        try:
            handle = await nursery.start(listen)
        except OSError as error:
            where = f"{exposure.host}:{exposure.port}"
            raise Failure(f"cannot listen on {where}: {error.strerror or error}") from None
        logger.info("Serving %s at %s", registry.name, handle.url)
        await stop_at_signals(handle)
