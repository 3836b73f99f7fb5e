"""What a request presents to be let in, and the exceptions for why it is not."""

from __future__ import annotations

from collections.abc import Callable, Collection

from attrs import define

Header = tuple[bytes, bytes]


@define
class Credentials:
    """The parts of a request that decide whether it is let in."""

    method: str
    urls: Callable[[], Collection[str]]
    """Makes its URL, in the forms in which the client may know it."""
    query: str
    authorization: str | None
    proof: str | None


class Denied(Exception):
    """A request that is not let in.

    Args:
        status: The status code.
        message: What to do about it, for the caller.
        headers: Those of the response.
        is_guess: Whether it came with a token or a proof that may be made up.
    """

    def __init__(
        self, status: int, message: str, headers: list[Header], *, is_guess: bool = False
    ) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message
        self.headers = headers
        self.is_guess = is_guess


class TokenRefused(Exception):
    """An access token is not valid (401).

    Args:
        rule: The rule that it breaks, for the log: in our words, with nothing of the token in it.
    """

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule


class ProofRefused(TokenRefused):
    """A DPoP proof is missing or not valid (401).

    Args:
        rule: The rule that it breaks.
        nonce_needed: Whether all that is missing is a fresh nonce.
    """

    def __init__(self, rule: str, *, nonce_needed: bool = False) -> None:
        super().__init__(rule)
        self.nonce_needed = nonce_needed


class IssuerUnavailable(Exception):
    """An authorization server does not answer, so its tokens cannot be checked now (503)."""
