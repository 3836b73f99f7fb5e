"""PKCE (RFC 7636), by which only the client that asked for a code can redeem it, and `state`."""

from __future__ import annotations

import secrets
from typing import Final

from attrs import field, frozen

from trio_mcp.auth.digests import digest_of, same

METHOD: Final = "S256"
"""The only method: `plain` proves nothing to an attacker who can read the request."""


def _random() -> str:
    return secrets.token_urlsafe(32)  # 43 characters, the fewest that a verifier may have


@frozen
class Pkce:
    """The secrets of one authorization request."""

    verifier: str = field(factory=_random, repr=False)
    state: str = field(factory=_random, repr=False)

    @property
    def challenge(self) -> str:
        """The digest of the verifier, for the authorization request."""
        return digest_of(self.verifier)

    def is_ours(self, state: str | None) -> bool:
        """Whether a redirect answers this request, in constant time."""
        return same(state, self.state)
