"""What a store in memory has, and how it loses it: by its database, past its interface."""

from __future__ import annotations

from trio_mcp.store.memory import MemoryStore


def values_of(store: MemoryStore) -> dict[str, bytes]:
    """Return all entries, including what has expired and was not swept yet."""
    return dict(store.connection.execute("SELECT key, value FROM entries"))


def items_of(store: MemoryStore) -> int:
    """Return how many items its logs have."""
    (count,) = store.connection.execute("SELECT count(*) FROM items").fetchone()
    return int(count)


def lose_all(store: MemoryStore, but: str = "-") -> None:
    """Have it lose its data, except for keys that begin so."""
    store.connection.execute("DELETE FROM entries WHERE key NOT GLOB ? || '*'", (but,))
    store.connection.execute("DELETE FROM items")
    store.connection.execute("DELETE FROM logs")
