"""What is good once: remembered in this process, or in a store for all that share it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Final

import trio
from attrs import define, field, frozen

from trio_mcp.store.changes import ABSENT, Add, Conflict, Put, key_part
from trio_mcp.store.protocol import Store

_WINDOWS: Final = 8
"""Windows into which the time is divided for which anything is good."""

_CLOCKS_DIFFER: Final = 60.0
"""Seconds for which a use is remembered longer, as another process's clock may be behind ours."""


@define(eq=False)
class _Window:
    """The uses of a short time, which are forgotten together."""

    ends: float
    until: float = 0.0
    used: set[str] = field(factory=set)
    counts: Counter[str] = field(factory=Counter)


class ReplayRecord:
    """Remembers in this process what was used.

    It is bounded in time, since all of it expires, and in size: when it is full of what is still
    good, further uses are refused.

    Args:
        limit: Uses to remember.
        share: How many of them one owner may have, so that none fills it alone. One without a name
            is the only one there is, and may have all.
        clock: Tells the time, in seconds.
    """

    def __init__(
        self, limit: int, share: int, clock: Callable[[], float] = trio.current_time
    ) -> None:
        self._limit = limit
        self._share = share
        self._clock = clock
        # Forgotten window by window: one by one, a hundred thousand would take long.
        self.windows: deque[_Window] = deque()
        self._longest = 0.0

    def __len__(self) -> int:
        return sum(len(window.used) for window in self.windows)

    async def add(self, owner: str, id: str, seconds: float) -> bool:
        """Remember a use for some seconds, unless it is known. This is not a checkpoint."""
        now = self._clock()
        self._longest = max(self._longest, seconds)
        while self.windows and self.windows[0].until <= now:
            self.windows.popleft()
        use = key_part(f"{owner} {id}")  # however long the id is
        if any(use in window.used for window in self.windows) or len(self) >= self._limit:
            return False
        if owner and sum(window.counts[owner] for window in self.windows) >= self._share:
            return False
        if not self.windows or self.windows[-1].ends <= now:
            self.windows.append(_Window(now + self._longest / _WINDOWS))
        window = self.windows[-1]
        window.used.add(use)
        window.counts[owner] += 1
        window.until = max(window.until, now + seconds)
        return True


@frozen(eq=False)
class UsedOnce:
    """Remembers in a store what was used.

    What one owner has used is in one partition, with its number: each use is one commit, and
    no owner fills the store alone.
    """

    _store: Store
    _kind: str
    """What it is that is used, in a word."""
    _share: int
    """How many uses of one owner are remembered within the window; others are refused."""
    _window: float
    """The longest time for which anything is good, in seconds."""

    async def add(self, owner: str, id: str, seconds: float) -> bool:
        """Remember a use for some seconds, unless it is known already, or there were too many.

        Raises:
            StoreError: It is not known whether it is new.
        """
        partition = f"{self._kind}-{key_part(owner)}"
        use = f"{partition}:{key_part(id)}"
        try:
            await self._store.commit(
                Put(use, b"", ttl=seconds + _CLOCKS_DIFFER, expect=ABSENT),
                Add(f"{partition}:count", ttl=self._window, limit=self._share),
            )
        except Conflict:
            return False
        return True
