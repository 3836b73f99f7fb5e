"""What every store does.

The operations are such that each is a single step in any store: one transaction of a database, one
script of Redis or Valkey, whose keys share a hash tag (the partition). Nothing has to be read and
written back in between, so no two processes can be between two halves of anything.
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
      store's clock. What is out of time is not there, whether or not its room has been given back.
    - **Cancellation**: if an operation is cancelled, nothing was done. One that can no longer be
      stopped goes on to its end instead, which takes seconds at most, and returns what it did; the
      next checkpoint raises `Cancelled`. Operations may return without letting other tasks run.
    - **Failures**: after `StoreUnavailable` nobody knows whether something was written. After any
      other exception nothing was. What was returned is durable, as far as the store is.

    All of them raise `StoreUnavailable` or `StoreUnusable` if the store cannot be used, and
    `ValueError` for what is no key or no number.
    """

    async def commit(self, *changes: Change) -> list[int]:
        """Make all of these changes, or none.

        What they depend on is looked at before any is made.

        Args:
            changes: At most `MAX_CHANGES`, all in the same partition, and at most one of the same
                entry or log. Their values have `MAX_BYTES` together at most.

        Returns:
            The result of each change, in their order; each says what its result is.

        Raises:
            Conflict: What one of them depends on is not so.
            StoreFull: There is no room.
            ValueError: They do not go together, or `Add` has found no number, or one too large.

        Example:
            A worker finishes a job if nobody else has been given it meanwhile:

            >>> await store.commit(
            ...     Check(claimed.key, expect=claimed.version),
            ...     Put("jobs:result-17", b"42", ttl=3600),
            ...     News("jobs:result-17"),
            ... )
        """
        ...

    async def get(self, key: str) -> Entry | None:
        """Return an entry, if it is there."""
        ...

    async def scan(self, folder: str, cursor: str = "", *, most: int = 100) -> Page:
        """Return entries of a folder, in the order of their keys.

        An entry that is there all the time comes exactly once, whatever else comes and goes.

        Args:
            folder: What stands before the last slash of their keys.
            cursor: That of the page before; empty for the first one.
            most: How many entries a page has at most. It has fewer if they are long.
        """
        ...

    async def claim(self, folder: str, lease: float, *, most: int = 1) -> Claimed:
        """Take entries that are due, so that nobody else gets them for a while.

        Each gets a new version, which whoever claimed it has to `expect` from now on: what others
        got before is of no use any more. It is due again when the lease ends, unless it is renewed
        (`Touch` with a `delay`) or deleted. So what a dead process had is claimed by another one.

        Args:
            folder: What stands before the last slash of their keys.
            lease: Seconds until they are due again.
            most: How many at most.
        """
        ...

    async def read(
        self, log: str, after: int = 0, *, most: int = 100, most_bytes: int = READ_BYTES
    ) -> LogPage:
        """Return items of a log.

        Args:
            log: Which. If there is none, it reads as one that is empty.
            after: The position after which to begin.
            most: How many at most.
            most_bytes: Bytes that they have at most, unless the first one has more.
        """
        ...

    def watch(self, *channels: str) -> AbstractAsyncContextManager[Watch]:
        """Hear of news.

        All news that is committed after the block was entered is told to it: at once in general,
        and late rather than never if processes die. It may also be told of news that there is none
        of. So look first, then wait, and look again:

            >>> async with store.watch("jobs:result-17") as news:
            ...     while (entry := await store.get("jobs:result-17")) is None:
            ...         await news.wait()

        Args:
            channels: At least one.
        """
        ...


StoreLike = str | os.PathLike[str] | Store
"""A store that is open, or what `open_store` takes."""
