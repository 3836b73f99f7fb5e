"""Leases that are renewed while a block runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

import trio

from trio_mcp.background import background_task
from trio_mcp.store.changes import ABSENT, Check, Conflict, Delete, Put, Touch
from trio_mcp.store.errors import LeaseLost, StoreError
from trio_mcp.store.protocol import Store

_RENEWALS: Final = 4
"""Attempts to renew a lease during its time, so that one or two of them may fail."""

_RELEASE: Final = 1.0
"""Seconds that releasing a lease may take. Otherwise it expires by itself."""


@asynccontextmanager
async def lease(
    store: Store, key: str, seconds: float, *, value: bytes = b""
) -> AsyncIterator[Check]:
    """Hold a lease of a name while the block lasts.

    Args:
        store: Where the lease is kept.
        key: An entry that exists as long as the lease is held.
        seconds: How long it outlives a process that dies. The clocks of the machines have to run
            equally fast, but need not agree.
        value: The value of that entry.

    Yields:
        The condition for each commit that only the holder may make. Its `expect` is a fencing
        token: it grows with each holder, so other systems can use it in the same way.

    Raises:
        Conflict: The lease is held already.
        LeaseLost: It could not be renewed in time. The block is cancelled before that.
    """
    (version,) = await store.commit(Put(key, value, ttl=seconds, expect=ABSENT))
    try:
        async with heartbeat(store, Touch(key, ttl=seconds, expect=version), seconds):
            yield Check(key, expect=version)
    finally:
        # Shielded, as no other process gets the lease until it is released or expires; and bounded,
        # as the store may be gone.
        with trio.move_on_after(_RELEASE, shield=True), suppress(Conflict, StoreError):
            await store.commit(Delete(key, expect=version))


@asynccontextmanager
async def heartbeat(store: Store, touch: Touch, seconds: float) -> AsyncIterator[None]:
    """Renew a lease or a claimed entry while the block lasts.

    Args:
        store: Where it is kept.
        touch: What renews it: with a `ttl`, or a `delay` for a claimed entry, of `seconds`.
        seconds: How long the lease is. It has just been obtained.

    Raises:
        LeaseLost: It could not be renewed in time. The block is cancelled before that.

    Example:
        >>> (entry,) = (await store.claim("jobs:queue", 30)).entries
        >>> async with heartbeat(store, Touch(entry.key, delay=30, expect=entry.version), 30):
        ...     await work(entry)
    """
    finished = False
    with trio.CancelScope() as block:
        async with background_task(partial(_renew, store, touch, seconds, block)):
            yield
            finished = True
    if not finished:
        raise LeaseLost(f"the lease of {touch.key!r} could not be renewed in time")


async def _renew(store: Store, touch: Touch, seconds: float, block: trio.CancelScope) -> None:
    """Renew repeatedly, and let the block run no longer than the lease."""
    block.deadline = trio.current_time() + seconds
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
