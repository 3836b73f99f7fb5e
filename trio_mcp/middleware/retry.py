"""Trying again what failed, where that does no harm."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any, Final

import trio
from attrs import define, field

from trio_mcp.backoff import backoff
from trio_mcp.checks import are_names
from trio_mcp.errors import CannotReach, ConnectionLost, RateLimited
from trio_mcp.loggers import logger_of
from trio_mcp.public import public_in
from trio_mcp.registry.middleware import Around, is_around
from trio_mcp.wire.bounds import AT_LEAST_ZERO, bound, is_number
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.methods import CALL_TOOL, METHODS

_count: Any = bound(whole=True, finite=True)

logger = logger_of("trio_mcp.retry")

PASSING: Final[tuple[type[Exception], ...]] = (
    OSError,  # connections that break, and time-outs
    trio.TooSlowError,
    CannotReach,
    ConnectionLost,
    RateLimited,
)
"""Failures that may have passed a moment later."""


@public_in("trio_mcp.middleware")
@define(eq=False)
class Retry:
    """Tries again what failed (around calls, around requests, and in a client).

    Only what does no harm twice: lists, resources, prompts, completion, and tools that say
    so in their annotations (`readOnlyHint` or `idempotentHint`). Around requests of a server, a
    tool's failures are results already, so there it belongs around calls. It waits longer each
    time, by a random factor between a half and one, and as long as `retryAfter` says; it gives up
    at once if the time limit would pass meanwhile. What is cancelled is not tried again.

    Args:
        attempts: How often to try at most, the first time included.
        delay: Seconds to wait before the second time.
        max_delay: Seconds to wait at most.
        on: The exceptions after which it tries again: by default, those of broken connections and
            passed time limits.
        tools: Tools to try again whatever their annotations say.
        around: In a registry, `calls` or `requests`.

    Example:
        >>> registry = Registry("weather", middleware=[Retry(attempts=5)])
    """

    attempts: int = field(default=3, kw_only=True, validator=_count)
    delay: float = field(default=0.1, kw_only=True, validator=AT_LEAST_ZERO)
    max_delay: float = field(default=5.0, kw_only=True, validator=AT_LEAST_ZERO)
    on: tuple[type[Exception], ...] = field(default=PASSING, kw_only=True, converter=tuple)
    tools: Collection[str] = field(default=(), kw_only=True, validator=are_names)
    around: Around = field(default="calls", kw_only=True, validator=is_around)
    _random: Callable[[], float] = field(default=random.random, kw_only=True, repr=False)

    async def __call__(self, given: Any, call_next: Callable[[Any], Any]) -> Any:
        """Pass it on until it succeeds, or must not be tried again.

        Raises:
            Exception: What the last attempt raised.
        """
        if not self._may_repeat(given):
            return await call_next(given)
        for number in range(1, self.attempts):
            try:
                return await call_next(given)
            except Exception as error:
                pause = self._pause(number, error)
                if pause is None:
                    raise
                if trio.current_time() + pause >= trio.current_effective_deadline():
                    raise
                kind = type(error).__name__
            message = "%s %s failed with %s, and is tried again in %.1f s"
            logger.info(message, given.method, _name_of(given), kind, pause)
            await trio.sleep(pause)
        return await call_next(given)

    def _may_repeat(self, given: Any) -> bool:
        if given.method != CALL_TOOL.name:
            row = METHODS.get(given.method)
            return row is not None and row.repeatable
        if given.target in self.tools:
            return True
        annotations = getattr(given.description, "annotations", None)
        return annotations is not None and bool(
            annotations.read_only_hint or annotations.idempotent_hint
        )

    def _pause(self, number: int, error: Exception) -> float | None:
        """Return the seconds to wait; `None` if it is not worth another attempt."""
        least = _retry_after(error)
        if least is None and not isinstance(error, self.on):
            return None
        return max(least or 0.0, backoff(number, self.delay, self.max_delay, self._random))


def _retry_after(error: Exception) -> float | None:
    after: Any = getattr(error, "retry_after", None)
    if isinstance(error, McpError) and isinstance(error.data, dict):
        after = error.data.get("retryAfter")
    return max(0.0, after) if is_number(after) else None


def _name_of(given: Any) -> str:
    """Return the name if it is known: any client may have chosen another."""
    return getattr(given.description, "name", "") or ""
