"""Providers that many people have, one function each, and what is special about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Unpack

from trio_mcp.auth.proxy.identity import Identity, Member, identity_of
from trio_mcp.auth.proxy.options import OAuthProxy, ProxyOptions
from trio_mcp.auth.proxy.provider import Get, Identify, LoginProvider
from trio_mcp.errors import AuthorizationError
from trio_mcp.public import public_in

_OPENID: Final = ("openid", "profile", "email")
_OFFLINE: Final = (*_OPENID, "offline_access")
_GITHUB_API: Final = "https://api.github.com"
_MICROSOFT: Final = "https://login.microsoftonline.com"
_GRAPH_GROUPS: Final = (
    "https://graph.microsoft.com/v1.0/me/transitiveMemberOf/microsoft.graph.group"
    "?$select=id&$top=999"
)
_MANY_TENANTS: Final = ("common", "organizations", "consumers")


def _asked(usual: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*usual, *more)))


def _members_of(options: Mapping[str, Any]) -> str | None:
    """Return the claim by which people are let in, if it is one of those that are known."""
    allow = options.get("allow")
    return allow.claim if isinstance(allow, Member) else None


# -- OpenID Connect --------------------------------------------------------------------------------


def _openid(
    title: str,
    issuer: str,
    client: tuple[str, str],
    scopes: Sequence[str],
    options: ProxyOptions,
    **more: Any,
) -> OAuthProxy:
    id, secret = client
    about = {"title": title, "client_id": id, "client_secret": secret, "scopes": scopes, **more}
    return OAuthProxy(provider=LoginProvider(issuer=issuer, **about), **options)


def _reading(claim: str, *names: str) -> Identify:
    """Take a claim from where a provider has it: a list, if there are several names."""

    async def identify(claims: Mapping[str, Any], get: Get) -> Identity:
        values = [claims.get(name) for name in names]
        return identity_of({**claims, claim: values if len(names) > 1 else values[0]})

    return identify


@public_in("trio_mcp.auth")
def oidc(
    issuer: str,
    *,
    client_id: str,
    client_secret: str,
    title: str = "your account",
    provider_scopes: Sequence[str] = _OPENID,
    parameters: Mapping[str, str] | None = None,
    **options: Unpack[ProxyOptions],
) -> OAuthProxy:
    """Have people log in at any OpenID provider.

    Args:
        issuer: Its identifier, as its metadata has it.
        client_id: The id of this server there.
        client_secret: Its secret there.
        title: What people know the provider as.
        provider_scopes: What is asked for at a login.
        parameters: Further parameters of the authorization request.
        options: Those of `OAuthProxy`.

    Raises:
        ValueError: An option is not usable.

    Example:
        >>> proxy = oidc(
        ...     "https://login.example.com",
        ...     client_id="mcp",
        ...     client_secret="...",
        ...     resource="https://mcp.example.com/mcp",
        ... )
    """
    client, asked = (client_id, client_secret), parameters or {}
    return _openid(title, issuer, client, provider_scopes, options, parameters=asked)


@public_in("trio_mcp.auth")
def google(
    *,
    client_id: str,
    client_secret: str,
    provider_scopes: Sequence[str] = (),
    **options: Unpack[ProxyOptions],
) -> OAuthProxy:
    """Have people log in with Google.

    A refresh token is asked for (`access_type=offline`), which Google gives with a consent only.
    `domain("example.com")` lets in the accounts of a Workspace domain; Google's page then offers
    those alone.

    Args:
        client_id: The id of an OAuth client of the type "Web application".
        client_secret: Its secret.
        provider_scopes: Scopes of Google's APIs, beside those that say who has logged in.
        options: Those of `OAuthProxy`.

    Raises:
        ValueError: An option is not usable.
    """
    parameters = {"access_type": "offline", "prompt": "consent"}
    allow = options.get("allow")
    if isinstance(allow, Member) and allow.claim == "domain":
        parameters["hd"] = next(iter(allow.values)) if len(allow.values) == 1 else "*"
    issuer, client = "https://accounts.google.com", (client_id, client_secret)
    scopes = _asked(_OPENID, provider_scopes)
    # Of `hd` alone Google vouches that the domain is the account's: an address of a domain may
    # belong to a private account.
    more = {"parameters": parameters, "identify": _reading("domain", "hd")}
    return _openid("Google", issuer, client, scopes, options, **more)


@public_in("trio_mcp.auth")
def auth0(
    tenant: str,
    *,
    client_id: str,
    client_secret: str,
    audience: str | None = None,
    provider_scopes: Sequence[str] = (),
    **options: Unpack[ProxyOptions],
) -> OAuthProxy:
    """Have people log in with Auth0.

    Args:
        tenant: The domain of the tenant, such as `example.eu.auth0.com`.
        client_id: The id of a "Regular Web Application".
        client_secret: Its secret.
        audience: The API that the provider's token is for. Without it, that token is opaque.
        provider_scopes: Scopes of that API. A refresh token is asked for in any case.
        options: Those of `OAuthProxy`.

    Raises:
        ValueError: An option is not usable.
    """
    client, scopes = (client_id, client_secret), _asked(_OFFLINE, provider_scopes)
    asked = {} if audience is None else {"audience": audience}
    identify = _reading("organizations", "org_id", "org_name")
    more = {"parameters": asked, "identify": identify}
    return _openid("Auth0", f"https://{tenant}/", client, scopes, options, **more)


@public_in("trio_mcp.auth")
def okta(
    org: str,
    *,
    client_id: str,
    client_secret: str,
    authorization_server: str | None = None,
    provider_scopes: Sequence[str] = (),
    **options: Unpack[ProxyOptions],
) -> OAuthProxy:
    """Have people log in with Okta.

    Args:
        org: The domain of the organization, such as `example.okta.com`.
        client_id: The id of a "Web Application".
        client_secret: Its secret.
        authorization_server: The id of a custom authorization server, such as `default`; without
            it, that of the organization.
        provider_scopes: Further scopes. `group(...)` asks for `groups` by itself.
        options: Those of `OAuthProxy`.

    Raises:
        ValueError: An option is not usable.
    """
    path = "" if authorization_server is None else f"/oauth2/{authorization_server}"
    groups = ["groups"] if _members_of(options) == "groups" else []
    client, scopes = (client_id, client_secret), _asked((*_OFFLINE, *groups), provider_scopes)
    return _openid("Okta", f"https://{org}{path}", client, scopes, options, authenticate="basic")


@public_in("trio_mcp.auth")
def keycloak(
    url: str,
    realm: str,
    *,
    client_id: str,
    client_secret: str,
    provider_scopes: Sequence[str] = (),
    **options: Unpack[ProxyOptions],
) -> OAuthProxy:
    """Have people log in with Keycloak.

    Args:
        url: Its base, such as `https://login.example.com`.
        realm: The realm.
        client_id: The id of a client with "Client authentication".
        client_secret: Its secret.
        provider_scopes: Further scopes. For `group(...)`, give the client a mapper that writes
            the names of groups into the ID token as `groups`.
        options: Those of `OAuthProxy`.

    Raises:
        ValueError: An option is not usable.
    """
    issuer, client = f"{url.rstrip('/')}/realms/{realm}", (client_id, client_secret)
    scopes = _asked(_OPENID, provider_scopes)
    return _openid("Keycloak", issuer, client, scopes, options, authenticate="basic")


@public_in("trio_mcp.auth")
def cognito(
    region: str,
    user_pool: str,
    *,
    client_id: str,
    client_secret: str,
    provider_scopes: Sequence[str] = (),
    **options: Unpack[ProxyOptions],
) -> OAuthProxy:
    """Have people log in with Amazon Cognito.

    Args:
        region: The region, such as `eu-central-1`.
        user_pool: The id of the user pool.
        client_id: The id of an app client with a secret.
        client_secret: Its secret.
        provider_scopes: Further scopes.
        options: Those of `OAuthProxy`. `group(...)` means groups of the pool.

    Raises:
        ValueError: An option is not usable.
    """
    issuer = f"https://cognito-idp.{region}.amazonaws.com/{user_pool}"
    client, scopes = (client_id, client_secret), _asked(_OPENID, provider_scopes)
    more = {"authenticate": "basic", "identify": _reading("groups", "cognito:groups")}
    return _openid("Amazon Cognito", issuer, client, scopes, options, **more)


@public_in("trio_mcp.auth")
def entra(
    tenant: str,
    *,
    client_id: str,
    client_secret: str,
    provider_scopes: Sequence[str] = (),
    **options: Unpack[ProxyOptions],
) -> OAuthProxy:
    """Have people log in with Microsoft Entra ID.

    `group(...)` takes the object ids of groups. Entra leaves groups out of a token that would have
    too many; they are then asked for at Microsoft Graph, for which the application needs the
    permission `GroupMember.Read.All`.

    Args:
        tenant: The id or a domain of the tenant. With `organizations` or `common`, anyone with an
            account at Microsoft can log in: say with `allow` who may come in.
        client_id: The id of the application.
        client_secret: Its secret.
        provider_scopes: Scopes of an API, such as `api://…/read` or `User.Read`; of one API only.
            By default the provider's token is for Microsoft Graph.
        options: Those of `OAuthProxy`.

    Raises:
        ValueError: An option is not usable, or `allow` is missing where anyone could log in.
    """
    if tenant in _MANY_TENANTS and options.get("allow") is None:
        raise ValueError(f"with the tenant {tenant!r} anyone can log in: say who may with allow=")
    asks_groups = _members_of(options) == "groups" and not provider_scopes
    usual = (*_OFFLINE, "GroupMember.Read.All") if asks_groups else _OFFLINE
    issuer, client = f"{_MICROSOFT}/{tenant}/v2.0", (client_id, client_secret)
    more = {
        "metadata_url": f"{issuer}/.well-known/openid-configuration",
        "identify": _identify_entra,
        "any_tenant": True,
    }
    return _openid("Microsoft", issuer, client, _asked(usual, provider_scopes), options, **more)


async def _identify_entra(claims: Mapping[str, Any], get: Get) -> Identity:
    found = dict(claims)
    # `sub` differs from application to application; `oid` names the person within the tenant.
    found["sub"] = f"{claims.get('tid', '')}:{claims.get('oid') or claims.get('sub')}"
    found.setdefault("name", claims.get("preferred_username"))
    elsewhere = claims.get("_claim_names")
    if isinstance(elsewhere, Mapping) and "groups" in elsewhere:
        page = await get(_GRAPH_GROUPS)
        found["groups"] = [member.get("id") for member in page.get("value", ())]
    found.pop("_claim_names", None)
    found.pop("_claim_sources", None)
    # An address in a token of Entra may be anything that the tenant's administrator has written,
    # unless the optional claim says that its domain is the tenant's.
    found["email_verified"] = claims.get("xms_edov") in (True, "1", 1)
    return identity_of(found)


# -- GitHub, which is OAuth 2.0 without OpenID -------------------------------------------------


@public_in("trio_mcp.auth")
def github(
    *,
    client_id: str,
    client_secret: str,
    provider_scopes: Sequence[str] = ("read:user", "user:email"),
    url: str = "https://github.com",
    api_url: str = _GITHUB_API,
    **options: Unpack[ProxyOptions],
) -> OAuthProxy:
    """Have people log in with GitHub.

    `organization("acme")` lets in the members of an organization, and asks for the scope
    `read:org`; the organization may have to approve the application first.

    Args:
        client_id: The id of an OAuth app or a GitHub app.
        client_secret: Its secret.
        provider_scopes: Scopes of GitHub.
        url: Another base, of a GitHub Enterprise Server.
        api_url: The base of its API.
        options: Those of `OAuthProxy`.

    Raises:
        ValueError: An option is not usable.

    Example:
        >>> proxy = github(
        ...     client_id="Iv1.0123",
        ...     client_secret="...",
        ...     resource="https://mcp.example.com/mcp",
        ...     allow=organization("acme"),
        ... )
    """
    asks_orgs = _members_of(options) == "organizations"
    provider = LoginProvider(
        title="GitHub",
        client_id=client_id,
        client_secret=client_secret,
        authorization_endpoint=f"{url}/login/oauth/authorize",
        token_endpoint=f"{url}/login/oauth/access_token",
        scopes=_asked(provider_scopes, ["read:org"] if asks_orgs else []),
        identify=partial(_identify_github, api_url, asks_orgs),
    )
    return OAuthProxy(provider=provider, **options)


async def _identify_github(
    api_url: str, asks_orgs: bool, claims: Mapping[str, Any], get: Get
) -> Identity:
    user = await get(f"{api_url}/user")
    id, login = user.get("id"), user.get("login")
    if not isinstance(id, int) or not isinstance(login, str):
        raise AuthorizationError("GitHub does not say who has logged in")
    found: dict[str, Any] = {"login": login, "sub": str(id), "name": user.get("name") or login}
    with_email = await _verified_email(api_url, get)
    if with_email is not None:
        found |= {"email": with_email, "email_verified": True}
    if asks_orgs:
        orgs = await get(f"{api_url}/user/orgs?per_page=100")
        found["organizations"] = [org.get("login") for org in orgs if isinstance(org, dict)]
    return identity_of(found)


async def _verified_email(api_url: str, get: Get) -> str | None:
    try:
        emails = await get(f"{api_url}/user/emails")
    except AuthorizationError:  # without the scope `user:email`
        return None
    for entry in emails if isinstance(emails, list) else ():
        if isinstance(entry, dict) and entry.get("primary") and entry.get("verified"):
            address = entry.get("email")
            return address if isinstance(address, str) else None
    return None
