"""Rates that hold for several processes together, without asking the store about each request.

What is left of a client's rate is in the store. A process takes some tokens at a time and spends
them by itself. The entry has no value: it lives until the rate has filled the bucket again, so its
time to live says what is left, by the store's own clock, and a full bucket has no entry.
"""

from __future__ import annotations

from math import inf
from typing import Final

import trio
from attrs import define, field

from trio_mcp.loggers import logger_of
from trio_mcp.store.changes import ABSENT, Conflict, Put, key_part
from trio_mcp.store.errors import StoreError
from trio_mcp.store.protocol import Store
from trio_mcp.wire.bucket import Buckets, TokenBucket

logger = logger_of("trio_mcp.store")

_PORTIONS: Final = 10
"""Portions of a full bucket. Each process has one at most, so a client gets no more than one above
the rate for each process."""

_PAUSE: Final = 5.0
"""Seconds for which a store that has failed is left alone: each try may take as long."""

_ROUNDING: Final = 1e-6
"""Tokens, or seconds: tokens are counted as time, which is not exact."""


@define(eq=False)
class SharedBucket(TokenBucket):
    """This process's part of a client's rate: a `TokenBucket` that has to be filled before use.

    Args:
        rate: As for `TokenBucket`, of all processes together.
        burst: Likewise.
        key: The entry in the store that says what is left.
    """

    key: str
    _held: float = field(default=0.0, init=False)  # below 0: owed
    _dropped_at: float = field(default=inf, init=False)
    _size: int = field(default=1, init=False)  # of the next portion
    _refused_until: float = field(default=-inf, init=False)
    _full_at: float = field(default=-inf, init=False)  # as far as we know: not before
    _version: int = field(default=ABSENT, init=False)
    _others_take: bool = field(default=False, init=False)
    _alone: TokenBucket | None = field(default=None, init=False)  # while the store is away
    filling: trio.Lock = field(factory=trio.Lock, init=False)  # held by the task that fills it

    # -- without the store --------------------------------------------------------------------

    def wait(self, now: float) -> float:
        """Take a token of this process, or return in how many seconds there may be one."""
        if self._held >= 1.0:
            self._held -= 1.0
            return 0.0
        return max(self._refused_until - now, _ROUNDING)

    def put_back(self) -> None:
        self._held += 1.0

    def charge(self, now: float) -> None:
        """Take a token whether there is one or not; `fill` pays what is owed."""
        self._held = max(-self.burst, self._held - 1.0)

    def fill_alone(self) -> None:
        """Fill the bucket by this process's own count, while the store is away."""
        now = trio.current_time()
        if self._alone is None:
            self._alone = TokenBucket(self.rate, self.burst)
        while self._held < 0.0:
            self._alone.charge(now)
            self._held += 1.0
        if self._held < 1.0:
            seconds = self._alone.wait(now)
            self._held += 0.0 if seconds else 1.0
            self._refused_until = now + seconds

    # -- with it ------------------------------------------------------------------------------

    def needs_nothing(self) -> bool:
        """Whether it is known, without the store, if there is a token."""
        now = trio.current_time()
        return now < (self._dropped_at if self._held >= 1.0 else self._refused_until)

    async def fill(self, store: Store) -> None:
        """Take a token from the store, if other processes leave one.

        Raises:
            StoreError: The store cannot be used.
        """
        self._note_use()
        if self._others_take:  # so what we know of it is old
            await self._look(store)
        while True:
            try:
                await self._take(store)
                return
            except Conflict:  # another process was quicker, or the time to live is over
                await self._look(store)

    def _note_use(self) -> None:
        """Take larger portions of a rate that is used, and single tokens of any other."""
        if trio.current_time() >= self._dropped_at:  # it would be full again without us
            self._held, self._size = min(0.0, self._held), 1
        elif self._dropped_at < inf:
            self._size = min(2 * self._size, max(1, int(self.burst) // _PORTIONS))

    async def _look(self, store: Store) -> None:
        entry = await store.get(self.key)
        version = ABSENT if entry is None else entry.version
        self._others_take = version != self._version
        self._version = version
        self._full_at = trio.current_time() + (0.0 if entry is None else entry.ttl)

    async def _take(self, store: Store) -> None:
        """Take a portion, or as much as is left, and pay what is owed.

        Raises:
            Conflict: Another process has taken of it since we looked.
        """
        now = trio.current_time()
        owed = max(0.0, -self._held)
        used = max(0.0, self._full_at - now) * self.rate
        if used == 0.0:
            self._version = ABSENT
        taken = min(self._size, int(self.burst - used - owed + _ROUNDING))
        if taken < 1:
            taken, owed = 0, min(owed, max(0.0, 2 * self.burst - used))
        if taken + owed > 0:
            ttl = (used + taken + owed) / self.rate
            (self._version,) = await store.commit(Put(self.key, b"", ttl=ttl, expect=self._version))
            now = trio.current_time()  # later than the store has counted from: never too much
            self._full_at = now + ttl
        # What was charged meanwhile is owed still.
        self._held += taken + owed
        self._dropped_at = now + self.burst / self.rate
        if not taken:
            self._refused_until = self._full_at - (self.burst - 1.0) / self.rate


class SharedBuckets(Buckets[str, SharedBucket]):
    """A bucket for each client, which all processes share.

    Args:
        rate: As for `TokenBucket`.
        burst: Likewise.
        limit: Clients to remember in this process.
        store: The store that the processes share.
        name: Tells the rates in one store apart.
    """

    def __init__(self, rate: float, burst: float, limit: int, store: Store, name: str) -> None:
        def make(client: str) -> SharedBucket:
            text = "\0".join((name, str(rate), str(burst), client))
            return SharedBucket(rate, burst, f"rate-{key_part(text)}:left")

        super().__init__(make, limit)
        self._store = store
        self._away_until = -inf

    async def fill(self, client: str) -> None:
        """Fill a bucket; while the store cannot be used, by the count of this process alone."""
        bucket = self.of(client)
        if bucket.needs_nothing():
            return
        async with bucket.filling:
            if bucket.needs_nothing():
                return
            if trio.current_time() >= self._away_until:
                try:
                    await bucket.fill(self._store)
                    return
                except StoreError as error:
                    logger.warning("Each process counts requests for itself now: %s", error)
                    self._away_until = trio.current_time() + _PAUSE
            bucket.fill_alone()
