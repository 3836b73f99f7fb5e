"""Slots for the tasks that run at once in a process, of which no owner has all."""

from __future__ import annotations

from typing import Final

import trio
from attrs import define, field

_TURNS: Final = 3
"""Turns of the scheduler in which a new task may get a slot: quick ones end in one of them."""


@define(eq=False)
class Slots:
    """The slots, and who has how many of them.

    An owner without a name is the only one there is, and may have all.
    """

    total: int
    _free: trio.Semaphore = field(init=False)
    _shares: dict[str, trio.Semaphore] = field(factory=dict, init=False)
    """What owners may still have, of those who have some or wait for one."""

    @_free.default
    def _all_of_them(self) -> trio.Semaphore:
        return trio.Semaphore(self.total, max_value=self.total)

    @property
    def share(self) -> int:
        """How many slots one owner may have."""
        return max(1, self.total * 3 // 4)

    def take(self, owner: str = "") -> bool:
        """Take a slot if one is free, and the owner may have it."""
        if not _taken(self._free):
            return False
        if self.assign(owner):
            return True
        self._free.release()
        return False

    async def take_soon(self, owner: str) -> bool:
        """Take a slot now or within a few turns of the scheduler, which costs less than to queue.

        If cancelled, no slot is taken.
        """
        for _ in range(_TURNS):
            if self.take(owner):
                return True
            await trio.lowlevel.checkpoint()
        return self.take(owner)

    def assign(self, owner: str) -> bool:
        """Give an owner a slot that is taken already, unless they have as many as they may."""
        return not owner or _taken(self._share_of(owner))

    async def wait(self, owner: str = "") -> None:
        """Take a slot as soon as there is one that the owner may have."""
        if owner:
            await self._share_of(owner).acquire()
        try:
            await self._free.acquire()
        except BaseException:
            self._give_share_back(owner)
            raise

    def release(self, owner: str = "") -> None:
        """Give a slot back."""
        self._free.release()
        self._give_share_back(owner)

    def _share_of(self, owner: str) -> trio.Semaphore:
        if owner not in self._shares:
            self._shares[owner] = trio.Semaphore(self.share, max_value=self.share)
        return self._shares[owner]

    def _give_share_back(self, owner: str) -> None:
        if owner:
            share = self._shares[owner]
            share.release()
            if share.value == share.max_value:
                del self._shares[owner]


def _taken(semaphore: trio.Semaphore) -> bool:
    try:
        semaphore.acquire_nowait()
    except trio.WouldBlock:
        return False
    return True
