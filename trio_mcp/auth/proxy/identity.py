"""Who has logged in, as a provider says it, and who of them may come in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from attrs import field, frozen

from trio_mcp.errors import AuthorizationError
from trio_mcp.public import public_in


@public_in("trio_mcp.auth")
@frozen(kw_only=True)
class Identity:
    """A person who has logged in at a provider.

    Args:
        subject: Names the person at the provider, for good: never a name that can be given away.
        name: What to call the person.
        email: An address that the provider has verified; `None` if there is none.
        claims: What else the provider says, such as `domain`, `organizations` or `groups`.
    """

    subject: str
    name: str | None = None
    email: str | None = None
    claims: Mapping[str, Any] = field(factory=dict, repr=False)


Allow = Callable[[Identity], bool | Awaitable[bool]]
"""Decides who may come in. May be async."""


@public_in("trio_mcp.auth")
@frozen
class Member:
    """Lets in the people for whom a claim has one of some values. Made by `domain` and its like."""

    claim: str
    values: frozenset[str]

    def __call__(self, identity: Identity) -> bool:
        found = identity.claims.get(self.claim)
        listed = found if isinstance(found, list | tuple) else [found]
        return any(isinstance(value, str) and value.casefold() in self.values for value in listed)


def _member(claim: str, values: tuple[str, ...]) -> Member:
    if not values or not all(isinstance(value, str) and value for value in values):
        raise ValueError(f"{claim}: name at least one, each as a text")
    return Member(claim, frozenset(value.casefold() for value in values))


@public_in("trio_mcp.auth")
def domain(*names: str) -> Member:
    """Let in people of these domains, such as `"example.com"`.

    It is the domain of the account where the provider has such (Google's `hd`), or else that of a
    verified email address.
    """
    return _member("domain", names)


@public_in("trio_mcp.auth")
def organization(*names: str) -> Member:
    """Let in members of these organizations: by login at GitHub, by id at Auth0."""
    return _member("organizations", names)


@public_in("trio_mcp.auth")
def group(*names: str) -> Member:
    """Let in members of these groups: by id at Entra, by name at Okta and Keycloak."""
    return _member("groups", names)


def identity_of(claims: Mapping[str, Any]) -> Identity:
    """Make an identity of the claims of an ID token (OpenID Connect Core, section 5.1).

    Raises:
        AuthorizationError: They name no subject.
    """
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject:
        raise AuthorizationError("the provider does not say who has logged in")
    email = claims.get("email") if claims.get("email_verified") in (True, "true") else None
    name = claims.get("name") or claims.get("preferred_username")
    found = dict(claims)
    if "domain" not in found and isinstance(email, str):
        found["domain"] = email.rpartition("@")[2].lower()
    return Identity(
        subject=subject,
        name=name if isinstance(name, str) else None,
        email=email if isinstance(email, str) else None,
        claims=found,
    )
