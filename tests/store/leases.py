"""Leases of names, as programs that share a store may have them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import trio

from trio_mcp.background import background_nursery
from trio_mcp.store.changes import ABSENT, Check, Conflict, Delete, Put, Touch
from trio_mcp.store.errors import StoreError
from trio_mcp.store.leases import Lease
from trio_mcp.store.protocol import Store


@asynccontextmanager
async def heartbeat(store: Store, touch: Touch, seconds: float) -> AsyncIterator[None]:
    """Renew a lease or a claimed entry while the block lasts."""
    with Lease(store, touch, seconds) as renewed:
        async with background_nursery(renewed.renew):
            yield


@asynccontextmanager
async def lease(
    store: Store, key: str, seconds: float, *, value: bytes = b""
) -> AsyncIterator[Check]:
    """Hold a lease of a name while the block lasts. Raise `Conflict` if it is held already."""
    (version,) = await store.commit(Put(key, value, ttl=seconds, expect=ABSENT))
    try:
        async with heartbeat(store, Touch(key, ttl=seconds, expect=version), seconds):
            yield Check(key, expect=version)
    finally:
        with trio.move_on_after(1, shield=True), suppress(Conflict, StoreError):
            await store.commit(Delete(key, expect=version))
