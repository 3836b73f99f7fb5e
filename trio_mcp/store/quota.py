"""How many things of a kind an owner has in a store, whichever processes they are made by.

The partition of an owner has:

| what | kind | for |
|---|---|---|
| `:all/<id>` | entry | a thing, for as long as it is kept; due by its last use |
| `:count` | entry | how many there are: none that has ended, but some that have expired |

The count is made again, by looking, in each time in which an unused thing would expire. So what
has expired is counted for no longer, and what is used all the time is not forgotten.
"""

from __future__ import annotations

from contextlib import suppress
from math import inf
from typing import Final

import trio
from attrs import evolve, frozen

from trio_mcp.store.changes import ABSENT, Add, Conflict, Delete, Put
from trio_mcp.store.protocol import Store

_A_MOMENT: Final = 0.05
"""Seconds for which a thing counts as used when it begins."""

_MOST: Final = 20
"""Things that end to make room for one: the rest when another one begins."""

_AT_ONCE: Final = 500
"""Things that are looked at before other tasks have their turn."""


@frozen
class Quota:
    """The things of one kind that one owner has: sessions, states."""

    _store: Store
    _kind: str
    """What they are, in a word that is part of a key."""
    _owner: str
    """A part of a key."""
    _limit: float
    """How many there may be."""
    _keep: float
    """Seconds for which an unused one is kept."""

    @property
    def _folder(self) -> str:
        return f"{self._kind}-{self._owner}:all"

    @property
    def _count(self) -> str:
        return f"{self._kind}-{self._owner}:count"

    def sign(self, id: str, delay: float = 0) -> Put:
        """Make the change that shows that a thing is used now."""
        return Put(f"{self._folder}/{id}", b"", ttl=self._keep, delay=delay)

    async def add(self, id: str) -> list[str]:
        """Count a thing that begins. Return others, which have to end if there are too many.

        Those are the ones that were not used for the longest time. `remove` counts them no longer.
        """
        if self._limit == inf:
            return []
        sign = self.sign(id, _A_MOMENT)  # so that it is not claimed itself
        counted = Add(self._count, ttl=self._keep)
        try:
            _, count = await self._store.commit(evolve(sign, expect=ABSENT), counted)
        except Conflict:  # two tasks have begun it at the same time
            return []
        if count <= 1:
            count = await self._look()
            await self._store.commit(Put(self._count, b"%d" % count, ttl=self._keep))
        if count <= self._limit:
            return []
        most = min(count - int(self._limit), _MOST)
        claimed = await self._store.claim(self._folder, self._keep, limit=most)
        return [entry.key.rpartition("/")[2] for entry in claimed.entries]

    async def _look(self) -> int:
        """Count what there is, up to one more than there may be."""
        count, cursor = 0, ""
        while count <= self._limit:
            page = await self._store.scan(self._folder, cursor, limit=_AT_ONCE)
            count += len(page.entries)
            if page.cursor is None:
                break
            cursor = page.cursor
            await trio.lowlevel.checkpoint()  # which a store in memory has none of
        return count

    async def remove(self, id: str) -> None:
        """Count a thing no longer, because it has ended."""
        key, less = f"{self._folder}/{id}", Add(self._count, -1, ttl=self._keep)
        while self._limit < inf and (entry := await self._store.get(key)) is not None:
            with suppress(Conflict):  # it was used, or removed, meanwhile
                await self._store.commit(Delete(key, expect=entry.version), less)
                return
