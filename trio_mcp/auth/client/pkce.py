"""Proof that whoever redeems a code is whoever asked for it (RFC 7636), and `state`."""

from __future__ import annotations

import secrets
from typing import Final

from attrs import field, frozen

from trio_mcp.auth.digests import digest_of, same

METHOD: Final = "S256"
"""The only method: `plain` proves nothing to one who can read the request."""


def _random() -> str:
    return secrets.token_urlsafe(32)  # 43 characters, the fewest that a verifier may have


@frozen
class Pkce:
    """The secrets of one authorization request, made anew for each."""

    verifier: str = field(factory=_random, repr=False)
    state: str = field(factory=_random, repr=False)

    @property
    def challenge(self) -> str:
        """What the authorization request shows of the verifier."""
        return digest_of(self.verifier)

    def is_ours(self, state: str | None) -> bool:
        """Whether a redirect answers this request; the comparison takes constant time."""
        return same(state, self.state)
