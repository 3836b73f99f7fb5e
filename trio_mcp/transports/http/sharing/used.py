"""What is good once, whichever instance it reaches: DPoP proofs and sealed states."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Final

from attrs import frozen

from trio_mcp.store.changes import ABSENT, Add, Conflict, Put
from trio_mcp.store.errors import StoreError
from trio_mcp.store.protocol import Store
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError
from trio_mcp.wire.jsonrpc import Json

if TYPE_CHECKING:  # most requests bring no state
    from trio_mcp.registry.sealing import CheckedState, Sealer

logger = logging.getLogger("trio_mcp.http")

_CLOCKS_DIFFER: Final = 60.0
"""Seconds for which a use is remembered longer, as another instance's clock may be behind ours."""


@frozen(eq=False)
class UsedOnce:
    """Remembers in the store what was used (a `ReplayStore`).

    What one owner has used is in one partition, with its number: each use is one commit, and
    no owner fills the store alone.
    """

    _store: Store
    _kind: str
    """What it is that is used, in a word."""
    _limit: int
    """How many uses of one owner are remembered within the window; others are refused."""
    _window: float
    """The longest time for which anything is good, in seconds."""

    async def add(self, owner: str, id: str, seconds: float) -> bool:
        """Remember a use for some seconds, unless it is known already, or there were too many.

        Raises:
            StoreError: It is not known whether it is new.
        """
        partition = f"{self._kind}-{digest_of(owner)}"
        try:
            await self._store.commit(
                Put(
                    f"{partition}:{digest_of(id)}", b"", ttl=seconds + _CLOCKS_DIFFER, expect=ABSENT
                ),
                Add(f"{partition}:count", ttl=self._window, limit=self._limit),
            )
        except Conflict:
            return False
        return True


_MOST_STATES: Final = 100_000
"""Of one principal, or of all who have none, in the time for which a state is good."""


class SharedStates:
    """The sealed states that were used at any instance (a `StateRecord`)."""

    def __init__(self, store: Store, ttl: float) -> None:
        self._used = UsedOnce(store, "states", _MOST_STATES, ttl)

    def open(self, sealer: Sealer, state: str, binding: Json) -> CheckedState:
        return sealer.check(state, binding)

    async def consume(self, principal: str | None, state: CheckedState) -> None:
        """Note that a state is used.

        Raises:
            StateRefused: It was used before, or too many were.
            McpError: The store cannot be used.
        """
        try:
            if not await self._used.add(principal or "", state.id, state.seconds):
                from trio_mcp.registry.sealing import StateRefused

                raise StateRefused("replayed", "it was used before, or too many were")
        except StoreError as error:
            logger.warning("%s", error)
            why = "The server cannot look up now whether this was answered before; send it again"
            raise McpError(INTERNAL_ERROR, why) from None


def digest_of(text: str) -> str:
    """Return a part of a key that stands for any text."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
