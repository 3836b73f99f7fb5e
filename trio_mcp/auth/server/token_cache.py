"""Tokens that were looked at before, by their hash, with what came of it."""

from __future__ import annotations

import hashlib
from typing import TypeVar

import trio
from attrs import frozen

from trio_mcp.auth.authorization import Authorization
from trio_mcp.auth.server.refusals import TokenRefused

T = TypeVar("T")


@frozen
class _Until:
    """An outcome that has to be found out again at some time, by Trio's clock."""

    outcome: Authorization | str
    time: float


class TokenCache:
    """Remembers tokens for some time; when there are too many, those that came last.

    Those that are refused have room of their own: who guesses pushes out nobody.

    Args:
        most: How many there may be of either kind.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        # Most are good until they expire, which they know themselves: of ten thousand, each byte
        # counts.
        self._good: dict[bytes, Authorization | _Until] = {}
        self._refused: dict[bytes, _Until] = {}
        self.version = 0
        """Changes whenever all is forgotten."""

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._good) + len(self._refused)

    def find(self, token: str) -> Authorization | None:
        """Return what a token is good for; `None` if that has to be found out.

        Raises:
            TokenRefused: It is good for nothing.
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
        """Remember what came of a token, until some time by Trio's clock."""
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
        if len(kept) > self._most:
            del kept[next(iter(kept))]

    def clear(self) -> None:
        """Forget all: a key is gone, perhaps because it is not to be trusted any more."""
        self._good.clear()
        self._refused.clear()
        self.version += 1


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()  # which tells nobody who reads our memory
