"""Leases and claims that are renewed while a block runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import trio

from trio_mcp.background import Task
from trio_mcp.store.changes import Conflict, Touch
from trio_mcp.store.errors import LeaseLost, StoreError
from trio_mcp.store.protocol import Store

_RENEWALS: Final = 4
"""Attempts to renew a lease during its time, so that one or two of them may fail."""


@contextmanager
def leased(store: Store, touch: Touch, seconds: float) -> Iterator[Task]:
    """Let the block run no longer than a lease or a claimed entry lasts.

    Args:
        store: Where it is kept.
        touch: What renews it: with a `ttl`, or a `delay` for a claimed entry, of `seconds`.
        seconds: How long the lease is. It has just been obtained.

    Yields:
        What renews it, until cancelled: run it in a nursery, unless the block ends soon.

    Raises:
        LeaseLost: It could not be renewed in time. The block is cancelled before that.

    Example:
        >>> (entry,) = (await store.claim("jobs:queue", 30)).entries
        >>> with leased(store, Touch(entry.key, delay=30, expect=entry.version), 30) as renew:
        ...     async with background_nursery(renew):
        ...         await work(entry)
    """
    finished = False
    with trio.CancelScope(deadline=trio.current_time() + seconds) as block:
        yield partial(_renew, store, touch, seconds, block)
        finished = True
    if not finished:
        raise LeaseLost(f"the lease of {touch.key!r} could not be renewed in time")


async def _renew(store: Store, touch: Touch, seconds: float, block: trio.CancelScope) -> None:
    """Renew repeatedly, and let the block run no longer than the lease."""
    while True:
        await trio.sleep(seconds / _RENEWALS)
        asked = trio.current_time()  # the new lease counts from here at the earliest
        try:
            await store.commit(touch)
        except Conflict:
            block.cancel()
        except StoreError:
            pass  # it may be back in time
        else:
            block.deadline = asked + seconds
