"""What tests of stores have in common."""

from __future__ import annotations

from trio_mcp.store.protocol import Store

MEGABYTE = 1024 * 1024


async def value_of(store: Store, key: str) -> bytes | None:
    entry = await store.get(key)
    return None if entry is None else entry.value
