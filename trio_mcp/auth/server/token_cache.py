"""Outcomes of tokens that were checked before, by the hash of the token."""

from __future__ import annotations

from hashlib import sha256
from math import inf
from typing import Any, Final

import trio

from trio_mcp.auth.authorization import Authorization
from trio_mcp.auth.server.credentials import TokenRefused

_UNKNOWN: Final = (None, -inf)


class TokenCache:
    """Remembers the outcomes of tokens; when there are too many, the latest.

    Refused tokens have as much room of their own, so that guesses push out no good ones. It belongs
    to one run of Trio.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._now = trio.lowlevel.current_clock().current_time
        # Outcomes, and until when they hold.
        self._good: dict[bytes, tuple[Authorization, float]] = {}
        self._refused: dict[bytes, tuple[str, float]] = {}
        self.version = 0
        """Changes whenever the cache is cleared."""

    def __len__(self) -> int:
        return len(self._good) + len(self._refused)

    def good(self, digest: bytes) -> Authorization | None:
        """Return what the token of a digest allows; `None` if it is not known, or was refused."""
        known = self._good.get(digest)
        return None if known is None or self._now() >= known[1] else known[0]

    def find(self, token: str) -> Authorization | None:
        """Return what a token allows; `None` if that is not known.

        Raises:
            TokenRefused: It was refused before.
        """
        digest = token_digest(token.encode())
        outcome, until = self._good.get(digest) or self._refused.get(digest) or _UNKNOWN
        if self._now() >= until:
            return None
        if isinstance(outcome, str):
            raise TokenRefused(outcome)
        return outcome

    def put(self, token: str, outcome: Authorization | str, until: float) -> None:
        """Remember what a token allows, or why it is refused, until some time by Trio's clock."""
        kept: dict[bytes, Any] = self._refused if isinstance(outcome, str) else self._good
        digest = token_digest(token.encode())
        kept.pop(digest, None)
        kept[digest] = outcome, until
        if len(kept) > self._limit:
            del kept[next(iter(kept))]

    def clear(self) -> None:
        """Forget all, as when a key is gone, perhaps because it is no longer trusted."""
        self._good.clear()
        self._refused.clear()
        self.version += 1


def token_digest(token: bytes) -> bytes:
    """Return the SHA-256 of a token, which the cache keeps in its place."""
    return sha256(token).digest()
