"""Tokens that were looked at before, by their hash, with what came of it."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

import trio
from attrs import frozen

from trio_mcp.auth.authorization import Authorization
from trio_mcp.auth.server.refusals import TokenRefused


@frozen
class _Entry:
    outcome: Authorization | str
    """What the token is good for, or the rule that it breaks."""
    until: float
    """When that has to be found out again, by Trio's clock."""


class TokenCache:
    """Remembers tokens for some time; when there are too many, those that were used last.

    Args:
        most: How many there may be.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self.version = 0
        """Changes whenever all is forgotten."""

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._entries)

    def find(self, token: str) -> Authorization | None:
        """Return what a token is good for; `None` if that has to be found out.

        Raises:
            TokenRefused: It is good for nothing.
        """
        digest = _digest(token)
        entry = self._entries.get(digest)
        if entry is None:
            return None
        if trio.current_time() >= entry.until:
            del self._entries[digest]
            return None
        self._entries.move_to_end(digest)
        if isinstance(entry.outcome, str):
            raise TokenRefused(entry.outcome)
        return entry.outcome

    def put(self, token: str, outcome: Authorization | str, until: float) -> None:
        """Remember what came of a token, until some time by Trio's clock."""
        self._entries[_digest(token)] = _Entry(outcome, until)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        """Forget all: a key is gone, perhaps because it is not to be trusted any more."""
        self._entries.clear()
        self.version += 1


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()  # which tells nobody who reads our memory
