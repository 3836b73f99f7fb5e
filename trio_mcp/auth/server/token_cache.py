"""Outcomes of tokens that were checked before, by the hash of the token."""

from __future__ import annotations

import hashlib
from typing import TypeVar

import trio
from attrs import frozen

from trio_mcp.auth.authorization import Authorization
from trio_mcp.auth.server.credentials import TokenRefused

T = TypeVar("T")


@frozen
class _Until:
    """An outcome that holds until some time, by Trio's clock."""

    outcome: Authorization | str
    time: float


class TokenCache:
    """Remembers the outcomes of tokens; when there are too many, the latest.

    Refused tokens have room of their own, so that guesses push out no good ones.

    Args:
        limit: Tokens of either kind to remember.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Most hold until their token expires, so `_Until` is spared: of ten thousand, each byte
        # counts.
        self._good: dict[bytes, Authorization | _Until] = {}
        self._refused: dict[bytes, _Until] = {}
        self.version = 0
        """Changes whenever the cache is cleared."""

    def __len__(self) -> int:
        return len(self._good) + len(self._refused)

    def find(self, token: str) -> Authorization | None:
        """Return what a token allows; `None` if that is not known.

        Raises:
            TokenRefused: It was refused before.
        """
        digest = _digest(token)
        found = self._good.get(digest) or self._refused.get(digest)
        if isinstance(found, Authorization):
            return found if trio.current_time() < found.deadline else None
        if found is None or trio.current_time() >= found.time:
            return None
        if isinstance(found.outcome, str):
            raise TokenRefused(found.outcome)
        return found.outcome

    def put(self, token: str, outcome: Authorization | str, until: float) -> None:
        """Remember what a token allows, or why it is refused, until some time by Trio's clock."""
        digest = _digest(token)
        if isinstance(outcome, str):
            self._keep(self._refused, digest, _Until(outcome, until))
        elif until == outcome.deadline:
            self._keep(self._good, digest, outcome)
        else:
            self._keep(self._good, digest, _Until(outcome, until))

    def _keep(self, kept: dict[bytes, T], digest: bytes, outcome: T) -> None:
        kept.pop(digest, None)
        kept[digest] = outcome
        if len(kept) > self._limit:
            del kept[next(iter(kept))]

    def clear(self) -> None:
        """Forget all, as when a key is gone, perhaps because it is no longer trusted."""
        self._good.clear()
        self._refused.clear()
        self.version += 1


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()  # our memory has no tokens to steal
