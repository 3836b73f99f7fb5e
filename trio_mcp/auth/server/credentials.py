"""What a request presents to be let in, and the exceptions for why it is not."""

from __future__ import annotations

from collections.abc import Callable, Collection

from attrs import define, field

Header = tuple[bytes, bytes]


@define
class Credentials:
    """The parts of a request that decide whether it is let in."""

    method: str
    urls: Callable[[], Collection[str]]
    """Makes its URL, in the forms in which the client may know it."""
    query: str = field(repr=False)
    authorization: str | None = field(repr=False)
    proof: str | None = field(repr=False)


@define(eq=False)
class Denied(Exception):
    """A request that is not let in."""

    status: int
    message: str
    """What to do about it, for the caller."""
    headers: list[Header] = field(repr=False)
    is_guess: bool = field(default=False, kw_only=True)
    """Whether it came with a token or a proof that may be made up."""


@define(eq=False)
class TokenRefused(Exception):
    """An access token is not valid (401)."""

    rule: str
    """The rule that it breaks, for the log: in our words, with nothing of the token in it."""


@define(eq=False)
class ProofRefused(TokenRefused):
    """A DPoP proof is missing or not valid (401)."""

    nonce_needed: bool = field(default=False, kw_only=True)
    """Whether all that is missing is a fresh nonce."""


class IssuerUnavailable(Exception):
    """An authorization server does not answer, so its tokens cannot be checked now (503)."""
