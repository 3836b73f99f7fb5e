"""Why a request is not let in: one class for each of the answers that there are."""

from __future__ import annotations


class TokenRefused(Exception):
    """An access token is not valid (401).

    Args:
        rule: The rule that it breaks, for the log: in our words, with nothing of the token in it.
    """

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule


class ProofRefused(TokenRefused):
    """A DPoP proof is not valid, or there is none (401).

    Args:
        rule: The rule that it breaks.
        nonce_needed: Whether all that is missing is a fresh nonce.
    """

    def __init__(self, rule: str, *, nonce_needed: bool = False) -> None:
        super().__init__(rule)
        self.nonce_needed = nonce_needed


class IssuerUnavailable(Exception):
    """An authorization server does not answer, so its tokens cannot be checked now (503)."""
