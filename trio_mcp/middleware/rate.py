"""A limit for the rate of requests, or of calls."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import Attribute, define, field

from trio_mcp.checks import is_a, is_function
from trio_mcp.loggers import logger_of
from trio_mcp.public import public_in
from trio_mcp.registry.middleware import Around, McpCall, McpRequest, is_around
from trio_mcp.store.shared import shared_store
from trio_mcp.wire.bounds import COUNT, POSITIVE, check_number
from trio_mcp.wire.bucket import TokenBuckets
from trio_mcp.wire.errors import BUSY, McpError, ToolError
from trio_mcp.wire.methods import CALL_TOOL

if TYPE_CHECKING:  # few rates are in a store
    from trio_mcp.store.protocol import StoreLike
    from trio_mcp.store.rates import SharedBuckets

logger = logger_of("trio_mcp")

_NOT_SHARED: Final = (
    "RateLimit(%g) counts in each process for itself: give it a name, by which the instances of "
    "the server know that it is the same rate"
)


def _lets_one_pass(_: object, attribute: Attribute[Any], value: Any) -> None:
    """Refuse a `burst` that would let nothing pass, ever."""
    check_number(attribute.name, value, zero=True)
    if 0 < value < 1:
        raise ValueError(f"{attribute.name} must be 1 or more, or 0 for the default, not {value!r}")


def by_caller(given: McpRequest | McpCall) -> Hashable:
    """Return who sends it: by its token, else its connection or session, else its address."""
    caller = given.context
    if caller is None:
        return ""
    if caller.principal is not None:
        return "principal", caller.principal
    if caller.connection_id is not None:
        return "connection", caller.connection_id
    return "address", caller.client_address


@public_in("trio_mcp.middleware")
@define(eq=False)
class RateLimit:
    """Refuses requests beyond a rate (around requests, around calls, and in a client).

    A tool's caller reads when to try again; any other gets -32000 with `retryAfter`, in
    seconds, in its `data`. Over HTTP, callers without a token that have no session count for their
    address.

    With a store, the rate is one for all processes that share it. With a name alone, it is in the
    store that the instances of the server share, if they do. The store is opened with the registry
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
        name: Which rate in a store it is. Limits of the same name, `rate` and `burst` are one.
        around: In a registry, `requests` or `calls`.

    Raises:
        ValueError: A number is out of its range, or a store was given without a name.
        TypeError: Another option is of another type.

    Example:
        >>> def searches(call: McpCall) -> str | None:
        ...     return call.context.principal if call.name == "search" else None
        >>> limit = RateLimit(0.5, burst=10, by=searches, around="calls")
        >>> registry = Registry("search", middleware=[limit])
        >>> shared = RateLimit(5, burst=50, store="redis://localhost:6379/0", name="shop")
    """

    rate: float = field(validator=POSITIVE)
    burst: float = field(default=0.0, kw_only=True, validator=_lets_one_pass)
    by: Callable[[Any], Hashable] = field(default=by_caller, kw_only=True, validator=is_function)
    max_keys: int = field(default=10_000, kw_only=True, validator=COUNT)
    # Not in the repr: it may have a password.
    store: StoreLike | None = field(default=None, kw_only=True, repr=False)
    name: str = field(default="", kw_only=True, validator=is_a(str))
    around: Around = field(default="requests", kw_only=True, validator=is_around)
    # Each connection may open the store, and each thread may have a Trio run of its own.
    _open: trio.lowlevel.RunVar[tuple[TokenBuckets | SharedBuckets, ...]] = field(init=False)
    _bounds: tuple[float, float, int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._bounds = self.rate, self.burst or max(1.0, self.rate), self.max_keys
        if self.store is None:
            self._open = trio.lowlevel.RunVar("rates", default=(TokenBuckets(*self._bounds),))
            return
        from trio_mcp.store.opening import check_store

        check_store(self.store)
        if not self.name:
            raise ValueError(
                "RateLimit(store=...) needs a name, by which processes know that it is the same "
                'rate: RateLimit(..., name="searches")'
            )
        self._open = trio.lowlevel.RunVar(self.name, default=())

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Open the store. Registries and connections do that with their middleware.

        Raises:
            ValueError: There is no such kind of store.
            StoreError: It cannot be used.
        """
        common = shared_store()
        if self.store is None and common is not None and not self.name:
            logger.warning(_NOT_SHARED, self.rate)
        store_or_url = self.store or (common if self.name else None)
        if store_or_url is None:
            yield
            return
        from trio_mcp.store.opening import opened
        from trio_mcp.store.rates import SharedBuckets

        async with opened(store_or_url) as store:
            buckets = SharedBuckets(*self._bounds, store, f"RateLimit {self.name}")
            self._open.set((*self._open.get(), buckets))
            try:
                yield
            finally:
                self._open.set(tuple(other for other in self._open.get() if other is not buckets))

    async def __call__(self, given: Any, call_next: Callable[[Any], Any]) -> Any:
        """Pass on what is within the rate.

        Raises:
            ToolError: There were too many calls of tools.
            McpError: There were too many other requests (-32000).
        """
        key = self.by(given)
        seconds = 0.0 if key is None else await self._take(key)
        if seconds:
            text = f"Too many requests: try again in {seconds:.1f} s"
            if given.method == CALL_TOOL.name and given.context is not None:
                raise ToolError(text)
            raise McpError(BUSY, text, {"retryAfter": round(seconds, 3)})
        return await call_next(given)

    async def _take(self, key: Any) -> float:
        """Take a token, or say in how many seconds there may be one."""
        if not self._open.get():
            raise RuntimeError(
                "the store of this RateLimit is not open: give the RateLimit to a Registry or to "
                "connect, or use it inside `async with limit.lifespan()`"
            )
        buckets = self._open.get()[-1]
        key = key if isinstance(buckets, TokenBuckets) else _text_of(key)
        await buckets.fill(key)
        return buckets.of(key).wait(trio.current_time())


def _text_of(key: Hashable) -> str:
    """Write a key the same way in all processes."""
    try:
        return json.dumps(key)
    except TypeError:
        raise TypeError(
            "with a store, the function `by` of a RateLimit must return text, a number or a tuple "
            f"of them, not {type(key).__name__}: other processes have to know it again"
        ) from None
