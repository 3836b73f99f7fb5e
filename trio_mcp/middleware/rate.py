"""So many requests, or calls, and no more."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import trio
from attrs import define, field, validators

from trio_mcp.registry.middleware import McpCall, McpRequest
from trio_mcp.wire.bucket import TokenBuckets
from trio_mcp.wire.errors import McpError, ToolError

REFUSED = -32000


def by_caller(given: McpRequest | McpCall) -> Hashable:
    """Who sends it: by its token if there is one, else by its connection."""
    caller = given.context
    return "" if caller is None else caller.principal or caller.connection_id or ""


@define(eq=False)
class RateLimit:
    """Refuses what comes too often (around requests, around calls, and in a client).

    A tool's caller is told in words when to try again; any other gets -32000 with `retryAfter`, in
    seconds, in its `data`. Over HTTP, callers without a token that have no session share one rate:
    for addresses, there is `HttpPolicy(rate=…)`.

    Args:
        rate: How often in a second, in the long run.
        burst: How often at once; the rate, or 1 if that is less.
        by: Says whose rate it is, by anything hashable; by default, each caller has one. What it
            returns `None` for is not counted.
        max_keys: Keys whose rate is remembered, the last ones seen.

    Example:
        >>> def searches(call: McpCall) -> str | None:
        ...     return call.context.principal if call.name == "search" else None
        >>> limit = RateLimit(0.5, burst=10, by=searches)
        >>> registry = Registry("search", call_middleware=[limit])
    """

    rate: float = field(validator=validators.gt(0))
    burst: float = field(default=0.0, kw_only=True, validator=validators.ge(0))
    by: Callable[[Any], Hashable] = field(default=by_caller, kw_only=True)
    max_keys: int = field(default=10_000, kw_only=True, validator=validators.ge(1))
    _buckets: TokenBuckets = field(init=False)

    @_buckets.default
    def _make_buckets(self) -> TokenBuckets:
        return TokenBuckets(self.rate, self.burst or max(1.0, self.rate), self.max_keys)

    async def __call__(self, given: Any, call_next: Callable[[Any], Any]) -> Any:
        """Hand on what comes in time.

        Raises:
            ToolError: There were too many calls of tools.
            McpError: There were too many other requests (-32000).
        """
        key = self.by(given)
        seconds = 0.0 if key is None else self._buckets.of(key).wait(trio.current_time())
        if seconds:
            text = f"Too many requests: try again in {seconds:.1f} s"
            if given.method == "tools/call" and given.context is not None:
                raise ToolError(text)
            raise McpError(REFUSED, text, {"retryAfter": round(seconds, 3)})
        return await call_next(given)
