"""Leases and claims that are renewed while a block runs."""

from __future__ import annotations

from types import TracebackType
from typing import Final

import trio
from attrs import define, field

from trio_mcp.store.changes import Conflict, Touch
from trio_mcp.store.errors import LeaseLost, StoreError
from trio_mcp.store.protocol import Store

_RENEWALS: Final = 4
"""Attempts to renew a lease during its time, so that one or two of them may fail."""


@define(eq=False)
class Lease:
    """Lets a block run no longer than a lease or a claimed entry lasts.

    Args:
        store: Where it is kept.
        touch: What renews it: with a `ttl`, or a `delay` for a claimed entry, of `seconds`.
        seconds: How long it lasts. It has just been obtained.

    Raises:
        LeaseLost: It could not be renewed in time. The block is cancelled before that.

    Example:
        >>> (entry,) = (await store.claim("jobs:queue", 30)).entries
        >>> with Lease(store, Touch(entry.key, delay=30, expect=entry.version), 30) as lease:
        ...     async with background_nursery(lease.renew):
        ...         await work(entry)
    """

    _store: Store = field(repr=False)
    _touch: Touch
    _seconds: float
    ended: bool = field(default=False, init=False)
    """Whether `end` was called."""
    _block: trio.CancelScope = field(init=False)

    @_block.default
    def _as_long_as_it_lasts(self) -> trio.CancelScope:
        return trio.CancelScope(deadline=trio.current_time() + self._seconds)

    def __enter__(self) -> Lease:
        self._block.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        goes_on = self._block.__exit__(kind, error, traceback)
        if self._block.cancelled_caught and not self.ended:
            lost = f"the lease of {self._touch.key!r} could not be renewed in time"
            raise LeaseLost(lost) from None
        return goes_on

    def end(self) -> None:
        """Cancel the block, without `LeaseLost`."""
        self.ended = True
        self._block.cancel()

    async def renew(self) -> None:
        """Renew it until cancelled: run this in a nursery, unless the block ends soon."""
        while True:
            await trio.sleep(self._seconds / _RENEWALS)
            asked = trio.current_time()  # the new lease counts from here at the earliest
            try:
                await self._store.commit(self._touch)
            except Conflict:
                self._block.cancel()
            except StoreError:
                pass  # it may be back in time
            else:
                self._block.deadline = asked + self._seconds
