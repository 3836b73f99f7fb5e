"""What is good once, whichever instance it reaches: DPoP proofs and sealed states."""

from __future__ import annotations

import hashlib
import logging
from typing import Final

from trio_mcp.store.changes import ABSENT, Add, Conflict, Put
from trio_mcp.store.errors import StoreError
from trio_mcp.store.protocol import Store
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError

logger = logging.getLogger("trio_mcp.http")

_CLOCKS_DIFFER: Final = 60.0
"""Seconds for which a use is remembered longer, as another instance's clock may be behind ours."""


class UsedOnce:
    """Remembers in the store what was used (a `ReplayStore`).

    What one owner has used is in one partition, with its number: each use is one commit, and
    nobody fills the store alone.

    Args:
        store: What the instances share.
        kind: What it is that is used, in a word.
        most: How many uses of one owner are remembered within the window; others are refused.
        window: The longest time for which anything is good, in seconds.
    """

    def __init__(self, store: Store, kind: str, most: int, window: float) -> None:
        self._store = store
        self._kind = kind
        self._most = most
        self._window = window

    async def add(self, owner: str, id: str, seconds: float) -> bool:
        """Remember a use for some seconds, unless it is known already, or there were too many.

        Raises:
            StoreError: Nobody knows whether it is new.
        """
        partition = f"{self._kind}-{_digest(owner)}"
        try:
            await self._store.commit(
                Put(f"{partition}:{_digest(id)}", b"", ttl=seconds + _CLOCKS_DIFFER, expect=ABSENT),
                Add(f"{partition}:count", ttl=self._window, most=self._most),
            )
        except Conflict:
            return False
        return True


_MOST_STATES: Final = 100_000
"""Of one principal, or of all who have none, in the time for which a state is good."""


class UsedStates:
    """Notes that a sealed state is used (`Server.use_state`).

    Args:
        store: What the instances share.
        ttl: Seconds for which a state is good.
    """

    def __init__(self, store: Store, ttl: float) -> None:
        self._used = UsedOnce(store, "states", _MOST_STATES, ttl)

    async def __call__(self, principal: str | None, id: str, seconds: float) -> bool:
        """Note it; whether it was new.

        Raises:
            McpError: The store cannot be used, so nobody knows.
        """
        try:
            return await self._used.add(principal or "", id, seconds)
        except StoreError as error:
            logger.warning("%s", error)
            why = "The server cannot look up now whether this was answered before; send it again"
            raise McpError(INTERNAL_ERROR, why) from None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
