"""Slots for the tasks that run at once in a process, of which no owner has all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
        """Take a slot as soon as there is one that the owner may have.

        If cancelled, no slot is taken.
        """
        if not self.assign(owner):  # so others of the owner have some, and the share is given back
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


@define(eq=False)
class HeldSlot:
    """A slot that a run has taken, and lends out while all it does is wait."""

    _slots: Slots
    _owner: str
    _is_held: bool = field(default=True, init=False)
    _waiting: int = field(default=0, init=False)
    """Blocks in which it is lent out."""
    _retaking: trio.Lock = field(factory=trio.Lock, init=False)

    def release(self) -> None:
        """Give it back, unless that was done."""
        if self._is_held:
            self._is_held = False
            self._slots.release(self._owner)

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """Lend it out for a block, and wait until there is one again if the block does not fail."""
        self.release()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
        if not self._waiting:
            await self._retake()

    async def _retake(self) -> None:
        async with self._retaking:  # all blocks that end together wait for the same one
            if not self._is_held:
                await self._slots.wait(self._owner)
                self._is_held = True
                if self._waiting:  # since then, so it is lent out again
                    self.release()


def _taken(semaphore: trio.Semaphore) -> bool:
    try:
        semaphore.acquire_nowait()
    except trio.WouldBlock:
        return False
    return True
