"""So many requests, or calls, and no more."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio
from attrs import Attribute, define, field

from trio_mcp.checks import is_a, is_function
from trio_mcp.public import public_in
from trio_mcp.registry.middleware import McpCall, McpRequest
from trio_mcp.wire.bounds import bound, check_number
from trio_mcp.wire.bucket import TokenBuckets
from trio_mcp.wire.errors import McpError, ToolError

if TYPE_CHECKING:  # few rates are in a store
    from trio_mcp.store.protocol import StoreLike
    from trio_mcp.store.rates import SharedBuckets

REFUSED = -32000

_positive: Any = bound()
_count: Any = bound(whole=True)


def _lets_one_pass(_: object, attribute: Attribute[Any], value: Any) -> None:
    """Refuse what would refuse everything for ever."""
    check_number(attribute.name, value, zero=True)
    if 0 < value < 1:
        raise ValueError(f"{attribute.name} must be 1 or more, or 0 for the default, not {value!r}")


def by_caller(given: McpRequest | McpCall) -> Hashable:
    """Who sends it: by its token if there is one, else by its connection."""
    caller = given.context
    return "" if caller is None else caller.principal or caller.connection_id or ""


@public_in("trio_mcp.middleware")
@define(eq=False)
class RateLimit:
    """Refuses what comes too often (around requests, around calls, and in a client).

    A tool's caller is told in words when to try again; any other gets -32000 with `retryAfter`, in
    seconds, in its `data`. Over HTTP, callers without a token that have no session share one rate:
    for addresses, there is `HttpPolicy(rate=…)`.

    With a store, the rate is one for all processes that share it. It is opened with the registry
    or the connection. A process takes up to a tenth of `burst` (at least 1) at a time and spends it
    by itself, so it seldom asks the store. While the store cannot be used, each process counts for
    itself.

    Args:
        rate: How often in a second, in the long run.
        burst: How often at once, 1 or more; by default (0), the rate, or 1 if that is less.
        by: Says whose rate it is, by anything hashable; by default, each caller has one. What it
            returns `None` for is not counted.
        max_keys: Keys whose rate is remembered, the last ones seen. What is in a store stays there.
        store: What the processes share: a path or URL, as for `open_store`, or a store that is open
            while this is in use. `by` must return text, numbers or tuples of them then.
        name: Which rate in the store it is. Limits of the same name, `rate` and `burst` are one.

    Raises:
        ValueError: A number is out of its range, or a store was given without a name.
        TypeError: Another option is of another type.

    Example:
        >>> def searches(call: McpCall) -> str | None:
        ...     return call.context.principal if call.name == "search" else None
        >>> limit = RateLimit(0.5, burst=10, by=searches)
        >>> registry = Registry("search", call_middleware=[limit])
        >>> shared = RateLimit(5, burst=50, store="redis://localhost:6379/0", name="shop")
    """

    rate: float = field(validator=_positive)
    burst: float = field(default=0.0, kw_only=True, validator=_lets_one_pass)
    by: Callable[[Any], Hashable] = field(default=by_caller, kw_only=True, validator=is_function)
    max_keys: int = field(default=10_000, kw_only=True, validator=_count)
    store: StoreLike | None = field(
        default=None, kw_only=True, repr=False
    )  # it may have a password
    name: str = field(default="", kw_only=True, validator=is_a(str))
    _buckets: TokenBuckets = field(init=False)
    # Each connection may open one, and each thread may have a Trio run of its own.
    _shared: trio.lowlevel.RunVar[tuple[SharedBuckets, ...]] = field(init=False)

    @_shared.default
    def _make_shared(self) -> trio.lowlevel.RunVar[tuple[SharedBuckets, ...]]:
        return trio.lowlevel.RunVar(f"rate {self.name}", default=())

    def __attrs_post_init__(self) -> None:
        """Make sure that a store is one, and that the rate in it has a name."""
        self._buckets = TokenBuckets(self.rate, self._burst, self.max_keys)
        if self.store is None:
            return
        from trio_mcp.store.opening import check_store

        check_store(self.store)
        if not self.name:
            raise ValueError(
                "RateLimit(store=...) needs a name, by which processes know that it is the same "
                'rate: RateLimit(..., name="searches")'
            )

    @property
    def _burst(self) -> float:
        return self.burst or max(1.0, self.rate)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Have the store open. Registries and connections do that with their middleware.

        Raises:
            ValueError: There is no such kind of store.
            StoreError: It cannot be used.
        """
        if self.store is None:
            yield
            return
        from trio_mcp.store.opening import opened
        from trio_mcp.store.rates import SharedBuckets

        async with opened(self.store) as store:
            name = f"RateLimit {self.name}"
            shared = SharedBuckets(self.rate, self._burst, self.max_keys, store, name)
            self._shared.set((*self._shared.get(), shared))
            try:
                yield
            finally:
                self._shared.set(tuple(each for each in self._shared.get() if each is not shared))

    async def __call__(self, given: Any, call_next: Callable[[Any], Any]) -> Any:
        """Hand on what comes in time.

        Raises:
            ToolError: There were too many calls of tools.
            McpError: There were too many other requests (-32000).
        """
        key = self.by(given)
        seconds = 0.0 if key is None else await self._take(key)
        if seconds:
            text = f"Too many requests: try again in {seconds:.1f} s"
            if given.method == "tools/call" and given.context is not None:
                raise ToolError(text)
            raise McpError(REFUSED, text, {"retryAfter": round(seconds, 3)})
        return await call_next(given)

    async def _take(self, key: Hashable) -> float:
        """Take a token, or say in how many seconds there may be one."""
        if self.store is None:
            return self._buckets.of(key).wait(trio.current_time())
        if not self._shared.get():
            raise RuntimeError(
                "the store of this RateLimit is not open: give the RateLimit to a Registry or to "
                "connect, or use it inside `async with limit.lifespan()`"
            )
        shared, text = self._shared.get()[-1], _text_of(key)
        await shared.fill(text)
        return shared.of(text).wait(trio.current_time())


def _text_of(key: Hashable) -> str:
    """Write a key so that all processes write it alike."""
    try:
        return json.dumps(key)
    except TypeError:
        raise TypeError(
            "with a store, the function `by` of a RateLimit must return text, a number or a tuple "
            f"of them, not {type(key).__name__}: other processes have to know it again"
        ) from None
