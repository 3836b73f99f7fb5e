"""A lifespan that fails is somebody's own code, and is told as such: what, and where.

Registries open their lifespan deep inside of a transport, where its failures look like those of
the transport. So they are named at their source, before anything is served.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from trio_mcp.cli.failures import Failure, located

if TYPE_CHECKING:
    from trio_mcp.registry import Registry


class LifespanFailed(Failure):
    """The server's lifespan raised something, when it was opened or closed."""


def name_failures(registry: Registry) -> None:
    """Have the failures of a registry's lifespan raised as `LifespanFailed`."""
    opened = registry._lifespan
    if opened is None:
        return

    @asynccontextmanager
    async def named(registry: Registry) -> AsyncIterator[Any]:
        passing: BaseException | None = None
        try:
            async with opened(registry) as state:
                try:
                    yield state
                except BaseException as error:  # it only passes through
                    passing = error
                    raise
        except Exception as error:
            if error is passing:
                raise
            raise LifespanFailed(located("the server's lifespan failed", error)) from error

    registry._lifespan = named
