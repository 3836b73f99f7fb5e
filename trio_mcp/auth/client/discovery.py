"""Find the authorization server for a server that wants a token."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from attrs import frozen

from trio_mcp.auth.challenges import Challenge
from trio_mcp.auth.documents import (
    DocumentError,
    ResourceMetadata,
    ServerMetadata,
    check_issuer,
    read,
)
from trio_mcp.auth.fetching import Fetched, Fetching
from trio_mcp.auth.urls import (
    BadUrl,
    canonical,
    check_endpoint,
    covers,
    origin,
    parsed,
    resource_metadata_urls,
    server_metadata_urls,
)
from trio_mcp.errors import AuthorizationError
from trio_mcp.wire.headers import VERSION_HEADER
from trio_mcp.wire.revisions import NEWEST

_VERSION: Final = {VERSION_HEADER: NEWEST.name}
"""For servers that are their own authorization servers (2025-03-26, "Server Metadata Discovery
Headers")."""
_ITS_METADATA: Final = "the server's metadata"


@frozen(kw_only=True)
class Discovered:
    """Where to get a token for a resource."""

    resource: str
    server: ServerMetadata
    scopes: tuple[str, ...] | None = None
    """The scopes that the resource needs, if it names any."""
    wants_dpop: bool = False
    """Whether it accepts only tokens that are bound to a key."""


async def discover(
    fetching: Fetching, url: str, challenge: Challenge, issuer: str | None
) -> Discovered:
    """Find the authorization server of a server (revision 2026-07-28, "Discovery").

    If it names several, it is the `issuer` that is wanted, or else the first.

    Raises:
        AuthorizationError: There is none, or it must not be used.
    """
    try:
        parsed(url, "the server's URL")
        about = await _resource_metadata(fetching, url, challenge.resource_metadata)
        if about is None:
            itself = _chosen([origin(url)], issuer)
            server = await server_metadata(fetching, itself, near=url, is_legacy=True)
            return Discovered(resource=canonical(url), server=server)
        parsed(about.resource, f"the resource in {_ITS_METADATA}")
        if not covers(about.resource, url):  # its tokens would be stolen
            where = origin(about.resource)
            raise DocumentError(f"{_ITS_METADATA} is about another resource, at {where}: refused")
        chosen = _chosen(about.authorization_servers, issuer)
        server = await server_metadata(fetching, chosen, near=url)
    except (BadUrl, DocumentError) as error:
        raise AuthorizationError(str(error)) from None
    return Discovered(
        resource=about.resource,
        server=server,
        scopes=about.scopes_supported,
        wants_dpop=about.dpop_bound_access_tokens_required or challenge.scheme == "dpop",
    )


def _chosen(issuers: Sequence[str], wanted: str | None) -> str:
    if not issuers:
        raise AuthorizationError("the server's metadata names no authorization server")
    if wanted is None:
        return issuers[0]
    if wanted not in issuers:
        parsed(issuers[0], "the authorization server")
        close = [issuer for issuer in issuers if issuer.rstrip("/") == wanted.rstrip("/")]
        if close:
            why = "they differ by a slash at the end: write it as the server does"
            raise AuthorizationError(f"the issuer is {close[0]}, not {wanted}; {why}")
        raise AuthorizationError(elsewhere(wanted, issuers[0]))
    return wanted


def elsewhere(wanted: str, named: str) -> str:
    """Say that a server names another authorization server than it should."""
    why = f"the server's tokens come from {origin(named)}, not from the issuer {wanted}"
    return f"{why}: what was given for the one is no good for the other"


async def _resource_metadata(
    fetching: Fetching, url: str, named: str | None
) -> ResourceMetadata | None:
    """Fetch the resource's metadata; return `None` if it is in none of the places."""
    if named is not None:
        fetched = await fetching.get(named, near=url)
        if fetched.status != HTTPStatus.OK:
            why = f"{origin(named)} answered {fetched.status} for the metadata that it points to"
            raise AuthorizationError(why)
        return read(ResourceMetadata, fetched.document, _ITS_METADATA)
    for place in resource_metadata_urls(url):
        fetched = await fetching.get(place, near=url)
        if _is_there(fetched, place):
            return read(ResourceMetadata, fetched.document, _ITS_METADATA)
    return None


async def server_metadata(
    fetching: Fetching, issuer: str, *, near: str, is_legacy: bool = False
) -> ServerMetadata:
    """Fetch the metadata of an issuer, to which the server `near` sends us.

    A server of 2025-03-26 may be one `is_legacy`, whose endpoints are known without.

    Raises:
        AuthorizationError: There is none, or it must not be used.
    """
    try:
        parsed(issuer, "the authorization server")
        for place in server_metadata_urls(issuer):
            fetched = await fetching.get(place, near=near, headers=_VERSION)
            if _is_there(fetched, place):
                what = f"the metadata of {origin(issuer)}"
                metadata = read(ServerMetadata, fetched.document, what)
                check_issuer(metadata, issuer)
                _check_endpoints(metadata, issuer)
                return metadata
    except (BadUrl, DocumentError) as error:
        raise AuthorizationError(str(error)) from None
    if is_legacy:
        root = origin(issuer)
        return ServerMetadata(  # what 2025-03-26 fixes
            issuer=root,
            authorization_endpoint=f"{root}/authorize",
            token_endpoint=f"{root}/token",
            registration_endpoint=f"{root}/register",
            code_challenge_methods_supported=("S256",),
        )
    raise AuthorizationError(f"{origin(issuer)} has no metadata of an authorization server")


def _is_there(fetched: Fetched, url: str) -> bool:
    """Whether a document was found. A server that fails may have it all the same."""
    if fetched.status == HTTPStatus.OK:
        return True
    if 400 <= fetched.status < 500:
        return False
    raise AuthorizationError(f"{origin(url)} answered {fetched.status} for its metadata")


def _check_endpoints(metadata: ServerMetadata, issuer: str) -> None:
    for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint"):
        endpoint: str | None = getattr(metadata, name)
        if endpoint is not None:
            check_endpoint(endpoint, issuer, f"the {name} of {origin(issuer)}")
