"""What a store in memory has, and how it loses it: by its tables, past its interface."""

from __future__ import annotations

from trio_mcp.store.memory import MemoryStore


def values_of(store: MemoryStore) -> dict[str, bytes]:
    """Return all entries, including what has expired and was not swept yet."""
    return {key: row.value for key, row in store.tables.entries.items()}


def items_of(store: MemoryStore) -> dict[str, list[bytes]]:
    """Return the items of its logs, by their names."""
    return {name: list(log.items) for name, log in store.tables.logs.items()}


def lose_all(store: MemoryStore, but: str = "-") -> None:
    """Have it lose its data, except for keys that begin so."""
    for key in values_of(store):
        if not key.startswith(but):
            store.tables.save(key, None)
    store.tables.logs.clear()
