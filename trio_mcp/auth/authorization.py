"""What a request was authorized by: the outcome of looking at its access token."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import inf
from typing import Any

import trio
from attrs import evolve, field, frozen

from trio_mcp.public import public


@public
@frozen(kw_only=True)
class Authorization:
    """Who calls, and what they may do, by the access token that the request came with.

    The token itself is not here: it is for this server alone and must not be passed on to others
    (2026-07-28, "Access Token Privilege Restriction").

    Example:
        >>> alice = Authorization(subject="alice", scopes=frozenset({"files:read"}))
        >>> alice.principal, "files:write" in alice.scopes
        ('alice', False)
    """

    subject: str | None = None
    """Who it was issued for: a person, or the client itself. Unique within the issuer only."""

    client_id: str | None = None
    """The OAuth client that it was issued to."""

    scopes: frozenset[str] = frozenset()
    """What it is good for, with what that implies."""

    issuer: str | None = None
    """The authorization server; `None` for tokens that the author lists or checks."""

    expires_at: float | None = None
    """When it expires, in seconds since 1970; `None` if it does not."""

    claims: Mapping[str, Any] = field(factory=dict, repr=False)
    """All that the authorization server says of it."""

    key_thumbprint: str | None = None
    """The key that whoever uses it has to prove to have (DPoP, RFC 9449); `None` if none."""

    deadline: float = field(default=inf, repr=False, eq=False)
    """When what it opened ends, by Trio's clock."""

    principal: str = field(init=False, repr=False)
    """Names the owner of what is begun with it. Another token for the same subject, client and
    issuer has the same one."""

    def __attrs_post_init__(self) -> None:
        """Name the owner so that no other parts make the same name."""
        name = self.subject or ""
        if self.issuer is not None or self.client_id is not None:
            name = json.dumps([self.issuer, self.subject, self.client_id])
        object.__setattr__(self, "principal", name)


def with_deadline(found: Authorization, now: float) -> Authorization | None:
    """Have what a token opens end when it expires.

    Args:
        found: What it allows.
        now: Seconds since 1970, without what clocks may differ by.

    Returns:
        The same with a deadline, if the token expires at all; `None` if it has.
    """
    if found.expires_at is None:
        return found
    left = found.expires_at - now
    return evolve(found, deadline=trio.current_time() + left) if left > 0 else None
