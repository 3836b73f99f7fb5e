"""What the access token of a request allows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import inf
from typing import Any

import trio
from attrs import evolve, field, frozen

from trio_mcp.public import public_in


@public_in("trio_mcp.auth")
@frozen(kw_only=True)
class Authorization:
    """Who calls, and what they may do, by the access token of the request.

    The token itself is not here: it is for this server alone and must not be passed on to others
    (2026-07-28, "Access Token Privilege Restriction").

    Example:
        >>> alice = Authorization(subject="alice", scopes=frozenset({"files:read"}))
        >>> alice.principal, "files:write" in alice.scopes
        ('alice', False)
    """

    subject: str | None = None
    """Whom it was issued for: a person, or the client itself. Unique within the issuer only."""

    client_id: str | None = None
    """The OAuth client that it was issued to."""

    scopes: frozenset[str] = frozenset()
    """The scopes that it has, and those that they imply."""

    issuer: str | None = None
    """The authorization server; `None` for tokens that the author lists or checks."""

    expires_at: float | None = None
    """When it expires, in seconds since 1970; `None` if it does not."""

    claims: Mapping[str, Any] = field(factory=dict, repr=False)
    """All that the authorization server says about it."""

    key_thumbprint: str | None = None
    """The key that its user has to prove to have (DPoP, RFC 9449); `None` if there is none."""

    deadline: float = field(default=inf, repr=False, eq=False)
    """When sessions and streams that it opened end, by Trio's clock."""

    login: str | None = field(default=None, repr=False, eq=False)
    """Names the login of the caller at a provider (see `OAuthProxy`); `None` if there is none."""

    principal: str = field(init=False, repr=False)
    """Names the owner of what is begun with it. Tokens for the same subject, client and issuer
    have the same one."""

    @property
    def name(self) -> str | None:
        """What to call the caller; `None` if the authorization server does not say."""
        return self._text("name")

    @property
    def email(self) -> str | None:
        """The caller's address, as the authorization server has it; `None` if it does not say.

        From an `OAuthProxy`, it is one that the provider has verified.
        """
        return self._text("email")

    def _text(self, claim: str) -> str | None:
        value = self.claims.get(claim)
        return value if isinstance(value, str) else None

    def __attrs_post_init__(self) -> None:
        name = self.subject or ""
        if self.issuer is not None or self.client_id is not None:
            name = json.dumps([self.issuer, self.subject, self.client_id])
        object.__setattr__(self, "principal", name)


def with_deadline(found: Authorization, now: float) -> Authorization | None:
    """Add the deadline by which what a token opens has to end; return `None` if it has expired.

    `now` is in seconds since 1970, less the leeway for clocks.
    """
    if found.expires_at is None:
        return found
    left = found.expires_at - now
    return evolve(found, deadline=trio.current_time() + left) if left > 0 else None
