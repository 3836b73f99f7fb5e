"""Following the lists of a server, however often they change, and however its stream ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from trio_mcp.client.client import Client
from trio_mcp.errors import ClientError, ProtocolError, ResponseTooLarge
from trio_mcp.loggers import logger_of
from trio_mcp.registry.changes import KINDS, Change, Kind, ListChanged
from trio_mcp.wire.errors import McpError

logger = logger_of("trio_mcp.compose")

_SHORTEST: Final = 0.05
_LONGEST: Final = 30.0
"""Seconds between two looks, at most: a server that announces changes in a loop gets that."""


class Throttle:
    """Delays repeated work, more and more, up to a bound."""

    def __init__(self) -> None:
        self._pause = _SHORTEST
        self._last = trio.current_time()

    async def wait(self) -> None:
        """Wait: a moment at first, twice as long each time that there was no calm in between."""
        now = trio.current_time()
        calm = now - self._last > 2 * self._pause
        self._pause = _SHORTEST if calm else min(2 * self._pause, _LONGEST)
        await trio.sleep(self._pause)
        self._last = trio.current_time()


async def follow_lists(
    client: Client,
    refresh: Callable[[Kind], Awaitable[object]],
    on_failure: Callable[[Exception], object],
    on_change: Callable[[Change], object] = lambda change: None,
) -> None:
    """Follow the changes of a server's lists, until cancelled.

    Args:
        client: The server.
        refresh: Called with each list that has changed, or may have before the subscription.
            Meanwhile equal changes become one.
        on_failure: Called when the server cannot be followed; that is tried again later.
        on_change: Called with each change, after that.
    """
    kinds = [kind for kind in KINDS if kind in client.capabilities]
    if not kinds:
        return
    throttle = Throttle()
    while True:
        try:
            async with client.subscribe(lists=kinds) as changes:
                for kind in kinds:
                    await _try(refresh, kind)
                async for change in changes:
                    if isinstance(change, ListChanged):
                        await _try(refresh, change.kind)
                    on_change(change)
                    await throttle.wait()
        except McpError as error:
            logger.debug("A server does not tell of changes, for now: %s", error)
        except ClientError as error:
            on_failure(error)
        await throttle.wait()


async def _try(refresh: Callable[[Kind], Awaitable[object]], kind: Kind) -> None:
    """Refresh a list. If the server refuses, it may do better the next time."""
    try:
        await refresh(kind)
    except (McpError, ProtocolError, ResponseTooLarge) as error:
        logger.warning("The %s of a server cannot be listed: %s", kind, error)
