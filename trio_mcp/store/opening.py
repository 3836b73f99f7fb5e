"""Open the store that a URL names."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from trio_mcp.extras import needing
from trio_mcp.store.protocol import Store, StoreLike
from trio_mcp.wire.bounds import check_number

_REDIS: Final = {"redis", "rediss", "redis+unix", "redis+cluster", "rediss+cluster"}
_MEANT: Final = {
    **dict.fromkeys((*_REDIS, "valkey"), "redis://localhost:6379/0"),
    "memory": "memory:",
    "sqlite": "sqlite:///store.db",
}
"""What those mean who give the name of a kind of store."""
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]+):(.*)", re.IGNORECASE | re.DOTALL)


@asynccontextmanager
async def open_store(
    url: str | os.PathLike[str], *, max_bytes: int | None = None
) -> AsyncIterator[Store]:
    """Open a store for the length of the block.

    Args:
        url: `memory:` for one that ends with the block; `sqlite:///jobs.db` for a file
            in the working directory, `sqlite:////var/lib/jobs.db` for any other, or simply its
            path. Processes that open the same file share the store. `redis://host:6379/0` for
            Redis or Valkey, which machines share (the extra `redis`): `rediss://…` with TLS,
            `redis+unix:///path` on a Unix socket, `redis+cluster://host:6379` a cluster. User and
            password stand before the host, and `?prefix=name` before all of its keys.
        max_bytes: What it may grow to: by default 256 MiB in memory, and the whole disk in a file.
            Redis has a setting of its own (`maxmemory`).

    Raises:
        ValueError: There is no such kind of store, or `max_bytes` is not a number of bytes.
        TypeError: It is neither a URL nor a path.
        ImportError: The extra for Redis is missing.
        StoreUnusable: The file or the server cannot be used; the message says why.
        StoreUnavailable: The file was locked for too long, the disk fails, or the server cannot be
            reached.

    Example:
        >>> async with open_store("sqlite:///jobs.db") as store:
        ...     await store.commit(Put("greetings:hello", b"world", ttl=60))
    """
    if not isinstance(url, str | os.PathLike):
        raise TypeError(f"url must be a URL or a path, not {type(url).__name__}")
    if max_bytes is not None:
        check_number("max_bytes", max_bytes, whole=True)
    scheme, rest = _split(url) if isinstance(url, str) else ("sqlite", os.fspath(url))
    if scheme == "memory":
        from trio_mcp.store.memory import MAX_MEMORY, MemoryStore

        yield MemoryStore(max_bytes=MAX_MEMORY if max_bytes is None else max_bytes)
        return
    if scheme in _REDIS:
        if max_bytes is not None:
            raise ValueError("max_bytes is not for Redis: set its maxmemory instead")
        with needing("a store in Redis", "redis"):
            from trio_mcp.store.redis import RedisStore
        async with RedisStore(os.fspath(url)).open() as redis:
            yield redis
        return
    from trio_mcp.store.sqlite import SQLiteStore

    async with SQLiteStore(rest, max_bytes=max_bytes).open() as store:
        yield store


@asynccontextmanager
async def opened(store: StoreLike) -> AsyncIterator[Store]:
    """Open a store for the block (`open_store`), unless it is open."""
    if isinstance(store, str | os.PathLike):
        async with open_store(store) as opened_store:
            yield opened_store
    else:
        yield store


def check_store(store: StoreLike) -> None:
    """Refuse what is not a store, before it is opened.

    Raises:
        TypeError: It is neither a URL, nor a path, nor an open store.
        ValueError: There is no such kind of store.
    """
    if isinstance(store, str):
        _split(store)
    if not (isinstance(store, str | os.PathLike) or hasattr(store, "commit")):
        raise TypeError(f"store must be a URL, a path or an open store, not {type(store).__name__}")


def _split(url: str) -> tuple[str, str]:
    meant = _MEANT.get(url.strip().lower())
    if meant is not None:
        raise ValueError(
            f"the store {url!r} would be a file of that name; write {meant!r}, or './{url}' for "
            "the file"
        )
    found = _SCHEME.fullmatch(url)
    if found is None and url.strip():
        return "sqlite", url
    if found is None:
        raise ValueError("the store has no name: give its URL, or the path of a file")
    scheme, rest = found[1].lower(), found[2]
    if scheme == "memory" and not rest.strip("/"):
        return scheme, ""
    if scheme in _REDIS and rest.startswith("//"):
        _check_address(url)
        return scheme, rest
    if scheme == "sqlite" and rest.startswith("///") and len(rest) > 3:
        return scheme, rest[3:]
    place = url.rpartition("@")[2]  # no password in a message
    raise ValueError(
        f"there is no store {place!r}: it is 'memory:', 'sqlite:///path', the path of a file, or "
        "'redis://host:6379/0'"
    )


def _check_address(url: str) -> None:
    try:
        _ = urlsplit(url).port
    except ValueError:  # whose text may show a part of a password
        raise ValueError(
            "the URL of the store has a host or a port that cannot be; it is written like "
            "'redis://host:6379/0'"
        ) from None
