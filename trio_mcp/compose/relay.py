"""What a server says during a call, on its way to the caller."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import trio

from trio_mcp.loggers import logger_of
from trio_mcp.registry import Context
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.payloads import LoggingLevel

logger = logger_of("trio_mcp.compose")

_MOST: Final = 256
"""Messages that wait for a caller who does not read; then the oldest ones go."""
_MOST_BYTES: Final = 1024 * 1024
"""Bytes of one log message that are passed on."""


def owner_of(context: Context) -> str:
    """Return to whose share a call counts: a principal's, or else an address's or connection's."""
    return context.principal or context.client_address or context.connection_id or ""


class Relay:
    """Passes progress and log messages to a caller, in their order.

    A task for that is started with the first message, as most calls have none.
    """

    __slots__ = ("_idle", "_is_running", "_nursery", "_said", "context")

    def __init__(self, context: Context, nursery: trio.Nursery) -> None:
        self.context = context
        """The caller; another one when the same call is asked for again."""
        self._nursery = nursery
        self._is_running = False
        self._said: deque[Callable[[Context], Awaitable[None]]] | None = None

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._add(lambda context: context.progress(progress, total, message))

    def log(self, level: LoggingLevel, data: Json, source: str | None) -> None:
        if len(encode(data, is_finite=True)) > _MOST_BYTES:
            logger.warning("A log message of more than %d bytes is not passed on", _MOST_BYTES)
            return
        self._add(lambda context: context.log(level, data, logger=source))

    def completed(self, id: str) -> None:
        """Pass on that what the caller was asked to do at a page is done."""
        self._add(lambda context: context.complete_elicitation(id))

    def _add(self, say: Callable[[Context], Awaitable[None]]) -> None:
        if self._said is None:
            self._said = deque(maxlen=_MOST)
            self._idle = trio.lowlevel.ParkingLot()
        self._said.append(say)
        if not self._is_running:
            self._is_running = True
            self._nursery.start_soon(partial(self._pass_on, self._said))

    async def _pass_on(self, said: deque[Callable[[Context], Awaitable[None]]]) -> None:
        try:
            while said:
                try:
                    await said.popleft()(self.context)
                except (TypeError, ValueError) as error:  # what the server says is its own affair
                    logger.debug("A message of a server is not passed on: %s", error)
        finally:
            self._is_running = False
            self._idle.unpark_all()

    async def drained(self) -> None:
        """Wait until everything has been passed on: the result must not overtake it."""
        while self._is_running:
            await self._idle.park()
