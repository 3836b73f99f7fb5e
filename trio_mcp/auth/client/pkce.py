"""Proof that whoever redeems a code is whoever asked for it (RFC 7636), and `state`."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64encode
from typing import Final

from attrs import field, frozen

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
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return urlsafe_b64encode(digest).rstrip(b"=").decode()

    def is_ours(self, state: str | None) -> bool:
        """Whether a redirect answers this request; the comparison takes constant time."""
        return state is not None and hmac.compare_digest(state.encode(), self.state.encode())
