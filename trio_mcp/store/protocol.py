"""The interface of a store.

Each operation is a single step in any store: one transaction of a database, one script of Redis or
Valkey, whose keys share a hash tag (the partition). Nothing has to be read and written back in
between, so no two processes can be between two halves of anything.
"""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from trio_mcp.store.changes import READ_BYTES, Change, Claimed, Entry, LogPage, Page
from trio_mcp.store.watching import Watch


class Store(Protocol):
    """Entries, logs and news, which several tasks, processes or machines share.

    - **Time** is the store's own. All times are given in seconds from now, and are counted by the
      store's clock. What has expired is never returned, even while it still takes up room.
    - **Cancellation**: if an operation is cancelled, nothing was done. One that can no longer be
      stopped goes on to its end instead, which takes seconds at most, and returns what it did; the
      next checkpoint raises `Cancelled`. Operations may return without letting other tasks run.
    - **Failures**: after `StoreUnavailable` it is unknown whether something was written. After any
      other exception nothing was. What was returned is durable, as far as the store is.

    All operations raise `StoreUnavailable` or `StoreUnusable` if the store cannot be used, and
    `ValueError` for an invalid key or number.
    """

    async def commit(self, *changes: Change) -> list[int]:
        """Make all of these changes, or none.

        All conditions are checked before any change is made.

        Args:
            changes: At most `MAX_CHANGES`, all in the same partition, and at most one of the same
                entry or log. Their values have at most `MAX_BYTES` together.

        Returns:
            The result of each change, in order. What it is stands at each kind of change.

        Raises:
            Conflict: The condition of a change does not hold.
            StoreFull: There is no room.
            ValueError: They do not go together, or `Add` has found no number, or one too large.

        Example:
            Finish a job, unless another worker has claimed it meanwhile:

            >>> await store.commit(
            ...     Check(claimed.key, expect=claimed.version),
            ...     Put("jobs:result-17", b"42", ttl=3600),
            ...     News("jobs:result-17"),
            ... )
        """
        ...

    async def get(self, key: str) -> Entry | None:
        """Return an entry, or None if there is none."""
        ...

    async def scan(self, folder: str, cursor: str = "", *, limit: int = 100) -> Page:
        """Return a page of the entries of a folder, in the order of their keys.

        An entry that exists throughout is returned exactly once, whatever is added or removed.

        Args:
            folder: What stands before the last slash of their keys.
            cursor: That of the page before; empty for the first one.
            limit: Entries of a page at most. It has fewer if they are long.
        """
        ...

    async def claim(self, folder: str, lease: float, *, limit: int = 1) -> Claimed:
        """Claim entries that are due, so that no other process gets them until the lease ends.

        Each gets a new version, which its claimant has to `expect` from now on: earlier ones are
        no longer valid. It is due again when the lease ends, unless it is renewed (`Touch` with a
        `delay`) or deleted. So what a dead process had is claimed by another one.

        Args:
            folder: What stands before the last slash of their keys.
            lease: Seconds until they are due again.
            limit: Entries to claim at most.
        """
        ...

    async def read(
        self, log: str, after: int = 0, *, limit: int = 100, max_bytes: int = READ_BYTES
    ) -> LogPage:
        """Return items of a log, which is empty if it does not exist.

        Args:
            log: Its name.
            after: The position after which to begin.
            limit: Items to return at most.
            max_bytes: Bytes that they have at most, unless the first one has more.
        """
        ...

    def watch(self, *channels: str) -> AbstractAsyncContextManager[Watch]:
        """Watch channels for news, for the length of the block.

        All news that is committed after the block was entered arrives: at once in general, and
        late rather than never if processes die. A watch may also wake without any. So look first,
        then wait, and look again:

            >>> async with store.watch("jobs:result-17") as news:
            ...     while (entry := await store.get("jobs:result-17")) is None:
            ...         await news.wait()

        Args:
            channels: At least one.
        """
        ...


StoreLike = str | os.PathLike[str] | Store
"""An open store, or what `open_store` takes."""
