"""Which store a URL means."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from trio_mcp.store.memory import MAX_MEMORY, MemoryStore
from trio_mcp.store.protocol import Store

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]+):(.*)", re.IGNORECASE | re.DOTALL)


@asynccontextmanager
async def open_store(
    url: str | os.PathLike[str], *, max_bytes: int | None = None
) -> AsyncIterator[Store]:
    """Open a store, while the block lasts.

    Args:
        url: `memory:` for one that is gone at the end of the block; `sqlite:///jobs.db` for a file
            in the working directory, `sqlite:////var/lib/jobs.db` for any other, or simply its
            path. Processes that open the same file share the store.
        max_bytes: What it may grow to. Memory has 256 MiB unless told otherwise, a file has the
            disk.

    Raises:
        ValueError: There is no such kind of store.
        StoreUnusable: The file cannot be used; the message says why.
        StoreUnavailable: The file was locked for too long, or the disk fails.

    Example:
        >>> async with open_store("sqlite:///jobs.db") as store:
        ...     await store.commit(Put("greetings:hello", b"world", ttl=60))
    """
    scheme, rest = _split(os.fspath(url))
    if scheme == "memory":
        yield MemoryStore(max_bytes=MAX_MEMORY if max_bytes is None else max_bytes)
        return
    from trio_mcp.store.sqlite import SQLiteStore  # only here, because sqlite3 takes a while

    async with SQLiteStore(rest, max_bytes=max_bytes).open() as store:
        yield store


def _split(url: str) -> tuple[str, str]:
    found = _SCHEME.fullmatch(url)
    if found is None:
        return "sqlite", url
    scheme, rest = found[1].lower(), found[2]
    if scheme == "memory" and not rest.strip("/"):
        return scheme, ""
    if scheme == "sqlite" and rest.startswith("///") and len(rest) > 3:
        return scheme, rest[3:]
    raise ValueError(
        f"there is no store {url!r}: it is 'memory:', 'sqlite:///path' or the path of a file"
    )
