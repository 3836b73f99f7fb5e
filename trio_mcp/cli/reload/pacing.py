"""Changes of the source, and not too many: a server may write its own source whenever it starts."""

from __future__ import annotations

from math import inf
from typing import Final

import trio
from attrs import define, field

from trio_mcp.backoff import backoff
from trio_mcp.loggers import logger_of

logger = logger_of("trio_mcp.reload")

_SOON: Final = 2.0
"""A change within so many seconds after the last one may be the work of the server itself."""
_FREE: Final = 3
"""So many such changes in a row are passed on at once."""
_FIRST_DELAY: Final = 1.0
_LONGEST_DELAY: Final = 10.0


@define(eq=False)
class PacedChanges(trio.abc.ReceiveChannel[str]):
    """Passes names of changed files on, at longer and longer intervals while there is no end."""

    _changes: trio.abc.ReceiveChannel[str]
    _held: str | None = field(default=None, init=False)
    """Received, and not passed on yet."""
    _in_a_row: int = field(default=0, init=False)
    _last: float = field(default=-inf, init=False)

    async def receive(self) -> str:
        """Wait for a change. Cancelled, none is lost."""
        if self._held is None:
            self._held = await self._changes.receive()
            is_soon = trio.current_time() < self._last + _SOON
            self._in_a_row = self._in_a_row + 1 if is_soon else 0
        if self._in_a_row > _FREE:
            delay = backoff(self._in_a_row - _FREE, _FIRST_DELAY, _LONGEST_DELAY)
            why = "does the server write it, or what it is made of, itself?"
            logger.warning("%s changes again and again (%s); in %.1f s:", self._held, why, delay)
            await trio.sleep(delay)
        name, self._held = self._held, None
        self._last = trio.current_time()
        return name

    async def aclose(self) -> None:
        await self._changes.aclose()
