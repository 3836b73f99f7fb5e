"""Access tokens as a client has them (RFC 6749, section 5.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import Attribute, field, frozen, validators

from trio_mcp.auth.documents import DocumentError
from trio_mcp.public import public_in
from trio_mcp.wire.bounds import is_number

_SENDABLE: Final = re.compile(r"[\x21-\x7e]+")
"""What can be sent in a header without changing it."""
MOST_CHARS: Final = 65536
"""Characters of a token: a header could not carry more."""
SOON: Final = 30.0
"""Seconds before its end at which a token is renewed."""
_LATEST: Final = 250_000_000_000
"""In the year 9892. Soon after it, there are no dates."""
_LONGEST_LIFE: Final = 10 * 365 * 86400


def _is_sendable(_: object, attribute: Attribute[Any], value: object) -> None:
    sendable = isinstance(value, str) and len(value) <= MOST_CHARS and _SENDABLE.fullmatch(value)
    if not sendable:
        raise ValueError(f"{attribute.name} cannot be sent")


def _is_moment(_: object, attribute: Attribute[Any], value: Any) -> None:
    if not (is_number(value) and 0 <= value < _LATEST):
        raise ValueError(f"{attribute.name} is not a time")


@public_in("trio_mcp.auth")
@frozen(kw_only=True)
class Token:
    """An access token, and what is known about it.

    Attributes:
        access_token: The token.
        scheme: How it is sent: `Bearer` or `DPoP`.
        expires_at: When it expires, in seconds since 1970, if the server has said.
        refresh_token: What it can be renewed with.
        scopes: The scopes that it has.

    Raises:
        ValueError: It cannot be sent in a header, or a time is none.
    """

    access_token: str = field(repr=False, validator=_is_sendable)
    scheme: str = field(default="Bearer", validator=validators.in_(("Bearer", "DPoP")))
    expires_at: float | None = field(default=None, validator=validators.optional(_is_moment))
    refresh_token: str | None = field(
        default=None, repr=False, validator=validators.optional(_is_sendable)
    )
    scopes: tuple[str, ...] = ()

    def is_good(self, now: float) -> bool:
        """Whether it holds for at least half a minute after `now`."""
        return self.expires_at is None or now < self.expires_at - SOON


_SCHEMES: Final = {"bearer": "Bearer", "dpop": "DPoP"}


def read_token(
    document: Any, now: float, *, asked: tuple[str, ...], before: Token | None = None
) -> Token:
    """Make a token of an authorization server's response.

    The scopes that were asked for hold if it names none, and the refresh token from before stays
    if there is no new one.

    Raises:
        DocumentError: It is not a token that can be used. The message repeats nothing of it.
    """
    if not isinstance(document, Mapping):
        raise DocumentError("the authorization server's answer is not a JSON object")
    if document.get("access_token") is None:
        raise DocumentError("the authorization server's answer has no access_token")
    kind = document.get("token_type")
    scheme = _SCHEMES.get(kind.lower()) if isinstance(kind, str) else None
    if scheme is None:
        raise DocumentError("the authorization server gave a token that is neither Bearer nor DPoP")
    scope = document.get("scope")
    if scope is not None and not isinstance(scope, str):
        raise DocumentError("the authorization server's answer has a scope that is not text")
    life, refresh = document.get("expires_in"), document.get("refresh_token")
    if refresh is None and before is not None:
        refresh = before.refresh_token
    try:
        return Token(
            access_token=document["access_token"],
            scheme=scheme,
            expires_at=None if life is None else now + _seconds(life),
            refresh_token=refresh,
            scopes=tuple(dict.fromkeys(scope.split())) if scope is not None else asked,
        )
    except ValueError as error:
        raise DocumentError(f"the authorization server's {error}") from None


def _seconds(value: Any) -> float:
    """Read a duration, which some servers send as a text."""
    try:
        seconds = float(value) if not isinstance(value, bool) else -1.0
    except (TypeError, ValueError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ValueError("expires_in is no time")
    return min(seconds, _LONGEST_LIFE)
