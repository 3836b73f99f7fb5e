"""How many sessions an owner has in the store, whichever instances serve them.

The partition of an owner has:

| what | kind | for |
|---|---|---|
| `:all/<id>` | entry | a session, for as long as it is in the store; due by its last use |
| `:count` | entry | how many there are: none that has ended, but some that have expired |

The count is made again, by looking, in each time in which an unused session would expire. So what
has expired is counted for no longer, and what is used all the time is not forgotten.
"""

from __future__ import annotations

from math import inf
from typing import Final

from attrs import frozen

from trio_mcp.store.changes import Add, Delete, Put
from trio_mcp.store.protocol import Store

_A_MOMENT: Final = 0.05
"""Seconds for which a session counts as used when it begins."""

_MOST: Final = 20
"""Sessions that end to make room for one: the rest when another one begins."""


@frozen
class OwnSessions:
    """The sessions of one owner."""

    _store: Store
    _owner: str
    """A part of a key."""
    _limit: float
    """How many there may be."""
    _keep: float
    """Seconds for which an unused one is kept."""

    @property
    def _folder(self) -> str:
        return f"sessions-{self._owner}:all"

    @property
    def _count(self) -> str:
        return f"sessions-{self._owner}:count"

    def sign(self, id: str, delay: float = 0) -> Put:
        """Make the change that shows that a session is used now."""
        return Put(f"{self._folder}/{id}", b"", ttl=self._keep, delay=delay)

    async def add(self, id: str) -> list[str]:
        """Count a session that begins. Return others, which have to end if there are too many.

        Those are the ones that were not used for the longest time.
        """
        if self._limit == inf:
            return []
        sign = self.sign(id, _A_MOMENT)  # so that it is not claimed itself
        _, count = await self._store.commit(sign, Add(self._count, ttl=self._keep))
        if count <= 1:
            page = await self._store.scan(self._folder, limit=int(self._limit) + 1)
            count = len(page.entries)
            await self._store.commit(Put(self._count, b"%d" % count, ttl=self._keep))
        if count <= self._limit:
            return []
        most = min(count - int(self._limit), _MOST)
        claimed = await self._store.claim(self._folder, self._keep, limit=most)
        surplus = [entry.key.rpartition("/")[2] for entry in claimed.entries]
        for other in surplus:
            await self.remove(other)
        return surplus

    async def remove(self, id: str) -> None:
        """Count a session no longer, because it has ended."""
        if self._limit < inf:
            gone = Delete(f"{self._folder}/{id}"), Add(self._count, -1, ttl=self._keep)
            await self._store.commit(*gone)
