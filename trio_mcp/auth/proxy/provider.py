"""A provider of logins as the proxy knows it: its endpoints, and its habits, as data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from attrs import Attribute, field, frozen, validators

from trio_mcp.auth.proxy.identity import Identity
from trio_mcp.auth.scopes import is_scope
from trio_mcp.auth.urls import parsed
from trio_mcp.public import public_in

Get = Callable[[str], Awaitable[Any]]
"""Gets a JSON document of the provider's API with the access token of who has logged in."""
Identify = Callable[[Mapping[str, Any], Get], Awaitable[Identity]]
"""Takes the claims of the ID token (none where there is no such token) and a `Get`."""


def _is_url(_: object, attribute: Attribute[Any], value: str | None) -> None:
    if value is not None:
        parsed(value, attribute.name)


def _are_scopes(_: object, attribute: Attribute[Any], values: Sequence[str]) -> None:
    if isinstance(values, str) or not all(map(is_scope, values)):
        raise ValueError(f"{attribute.name} must be a list of scopes, such as ['openid']")


_text: Any = validators.and_(validators.instance_of(str), validators.min_len(1))


@public_in("trio_mcp.auth")
@frozen(kw_only=True)
class LoginProvider:
    """A provider at which people log in: OpenID Connect, or plain OAuth 2.0.

    The functions `github`, `google`, `entra` and so on make one. Make your own for a provider that
    has no function: with an `issuer`, all endpoints are discovered (OpenID Connect Discovery);
    without, name the endpoints, and a function that says who has logged in.

    Args:
        title: What people know it as.
        client_id: The id of this server there.
        client_secret: Its secret there.
        issuer: The identifier of an OpenID provider.
        metadata_url: Where its metadata is, if that does not follow from the issuer.
        authorization_endpoint: Where people log in.
        token_endpoint: Where codes are redeemed.
        revocation_endpoint: Where tokens are revoked, if it has that.
        scopes: What is asked for at a login.
        parameters: Further parameters of the authorization request.
        authenticate: How this server shows who it is: `basic` or `post`.
        identify: Says who has logged in. By default the claims of the ID token do.
        any_tenant: Its metadata may name another issuer, with `{tenantid}` in place of the tenant
            that an ID token names.
    """

    title: str = field(validator=_text)
    client_id: str = field(validator=_text)
    client_secret: str = field(repr=False, validator=_text)
    issuer: str | None = field(default=None, validator=_is_url)
    metadata_url: str | None = field(default=None, validator=_is_url)
    authorization_endpoint: str | None = field(default=None, validator=_is_url)
    token_endpoint: str | None = field(default=None, validator=_is_url)
    revocation_endpoint: str | None = field(default=None, validator=_is_url)
    scopes: Sequence[str] = field(default=("openid", "profile", "email"), validator=_are_scopes)
    parameters: Mapping[str, str] = field(factory=dict)
    authenticate: Literal["basic", "post"] = "post"
    identify: Identify | None = field(default=None, repr=False)
    any_tenant: bool = False

    def __attrs_post_init__(self) -> None:
        """Refuse a provider without what a login takes."""
        if self.issuer is not None:
            return
        if not (self.authorization_endpoint and self.token_endpoint and self.identify):
            raise ValueError(
                "a LoginProvider needs an issuer, or else authorization_endpoint, token_endpoint "
                "and identify"
            )
