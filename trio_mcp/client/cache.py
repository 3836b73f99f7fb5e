"""Results that the server allows to be kept, until their time is over or there is news of a change.

A result is kept under its method and parameters (2026-07-28, "Caching"). What is private stays with
the connection that asked for it; what is public is for all connections that share the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import trio
from attrs import define, field, frozen

from trio_mcp.public import public
from trio_mcp.registry.changes import Change, ListChanged
from trio_mcp.wire import codec
from trio_mcp.wire.bounds import is_number
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.kept import KeptValues
from trio_mcp.wire.methods import LISTS, READ_RESOURCE
from trio_mcp.wire.weight import is_heavier

_READ: Final = READ_RESOURCE.name
_Key = tuple[object, str, bytes]
_EVERYBODY: Final = None
_MOST_VALUES: Final = 1_000_000
_MOST_NEWS: Final = 64 * 1024
_PER_CHANGE: Final = 64
"""Bytes of changes that are kept, and bytes of one besides its URI."""


@define(eq=False)
class _Kept:
    body: bytes
    """As JSON: callers may change what they get."""
    method: str
    uri: str | None
    """The resource that it is of."""
    looked: int
    """The last change that it is known to have survived."""
    until: float
    """When its time is over, by Trio's clock."""

    def is_changed_by(self, change: Change) -> bool:
        if isinstance(change, ListChanged):
            kind, _ = LISTS.get(self.method, ("", ""))
            return kind == change.kind
        return bool(self.uri) and concerns(change.uri, self.uri or "")


@public
class ResponseCache:
    """Keeps lists and resources for as long as the server says.

    Each connection has one of its own. Connections to the same server may share one
    (`connect(cache=...)`): then they share what the server calls public, and its bound.

    Args:
        max_bytes: Bytes that it keeps at most; what was not used for the longest time goes first.

    Example:
        >>> ResponseCache(max_bytes=0).max_bytes  # keeps nothing
        0
    """

    def __init__(self, max_bytes: int = 16 * 1024 * 1024) -> None:
        if max_bytes < 0:
            raise ValueError(f"max_bytes must be 0 or more, not {max_bytes!r}")
        self.max_bytes: Final = max_bytes
        self.changes = 0
        """How often there was news: what was asked for before may be out of date."""
        self._kept: KeptValues[_Key, _Kept] = KeptValues(max_bytes)
        self._changed_at: dict[Change, int] = {}
        self._news_size = 0

    def find(self, key: _Key) -> dict[str, Json] | None:
        """Return a result that is fresh; `None` if there is none."""
        kept = self._kept.find(key, trio.current_time())
        if kept is None:
            return None
        if kept.looked < self.changes:
            changed = [
                change for change, number in self._changed_at.items() if number > kept.looked
            ]
            if any(map(kept.is_changed_by, changed)):
                self._kept.drop(key)
                return None
            kept.looked = self.changes
        result: dict[str, Json] = codec.loads(kept.body)
        result["ttlMs"] = round((kept.until - trio.current_time()) * 1000)  # what is left of it
        return result

    def put(self, key: _Key, body: bytes, until: float, uri: str | None) -> None:
        """Keep a result in place of an older one, unless it takes long to read it again."""
        if not is_heavier(body, _MOST_VALUES):
            self._kept.put(key, _Kept(body, key[1], uri, self.changes, until), len(body), until)

    def forget(self, change: Change) -> None:
        """Forget what a change has made out of date.

        Which results that are is found out when they are asked for: to go through all of them with
        each of thousands of changes, which come in one piece, would hold up the event loop.
        """
        self.changes += 1
        if change not in self._changed_at:
            self._news_size += _PER_CHANGE + len(getattr(change, "uri", ""))
        self._changed_at[change] = self.changes
        if self._news_size > _MOST_NEWS:
            self._kept.clear()
            self._changed_at.clear()
            self._news_size = 0

    def leave(self, owner: object) -> None:
        """Forget what is private to a connection that has ended."""
        for key, _ in self._kept:
            if key[0] is owner:
                self._kept.drop(key)


def concerns(changed: str, uri: str) -> bool:
    """Whether a change of one URI may be one of another: a resource may change by its parts."""
    return changed == uri or changed.startswith(uri) or uri.startswith(changed)


@frozen(eq=False)
class ConnectionCache:
    """What one connection sees of a cache."""

    _cache: ResponseCache = field(factory=ResponseCache)

    @property
    def changes(self) -> int:
        return self._cache.changes

    def find(self, method: str, params: dict[str, Json]) -> dict[str, Json] | None:
        """Find a result that may be used without asking the server."""
        key = _encoded(params)
        mine = self._cache.find((self, method, key))
        return mine if mine is not None else self._cache.find((_EVERYBODY, method, key))

    def put(
        self, method: str, params: dict[str, Json], result: dict[str, Json], changes: int
    ) -> None:
        """Keep a result, if the server allows it and `changes` is what it was before."""
        ttl = ttl_of(result)
        if not ttl:
            return
        if changes != self.changes:
            return
        owner = _EVERYBODY if result.get("cacheScope") == "public" else self
        uri = params.get("uri") if method == _READ else None
        until = trio.current_time() + ttl / 1000
        try:
            body = codec.dumps(result)
        except TypeError:  # an integer beyond 64 bits, which would not come out as it went in
            return
        self._cache.put((owner, method, _encoded(params)), body, until, uri)

    def forget(self, change: Change) -> None:
        self._cache.forget(change)

    def close(self) -> None:
        self._cache.leave(self)


def ttl_of(result: Mapping[str, Json]) -> float:
    """Return the milliseconds for which a result may be kept."""
    ttl: Any = result.get("ttlMs")
    return ttl if is_number(ttl) and ttl > 0 else 0


def _encoded(params: dict[str, Json]) -> bytes:
    return codec.dumps(params, option=codec.SORTED)
