"""Revoke tokens at the authorization server that gave them (RFC 7009)."""

from __future__ import annotations

from attrs import evolve

from trio_mcp.auth.client.discovery import server_metadata
from trio_mcp.auth.client.stores import Login
from trio_mcp.auth.client.token_endpoint import TokenEndpoint
from trio_mcp.auth.fetching import Fetching
from trio_mcp.auth.urls import origin


async def revoke(login: Login, fetching: Fetching) -> bool:
    """Revoke the token of a login, and return whether there were a token and an endpoint for that.

    Raises:
        AuthorizationError: The authorization server refused, or cannot be reached.
    """
    token = login.token
    if token is None:
        return False
    is_legacy = login.issuer == origin(login.resource)
    server = await server_metadata(fetching, login.issuer, near=login.resource, is_legacy=is_legacy)
    if server.revocation_endpoint is None:
        return False
    endpoint = TokenEndpoint(
        metadata=evolve(server, token_endpoint=server.revocation_endpoint),
        fetching=fetching,
        near=login.resource,
    )
    # With a refresh token, the access tokens that it gave end as well (section 2.1).
    kind = "access_token" if token.refresh_token is None else "refresh_token"
    await endpoint.ask({"token": getattr(token, kind), "token_type_hint": kind}, login.client)
    return True
