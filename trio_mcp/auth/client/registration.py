"""The client id at an authorization server: given, from a metadata document, or registered.

In this order (revision 2026-07-28, "Client Registration"). An id is for one issuer only; a metadata
document alone may be shown to all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from attrs import evolve

from trio_mcp.auth.client.token_endpoint import preferred_method, refused
from trio_mcp.auth.documents import ClientRegistration, DocumentError, ServerMetadata, read
from trio_mcp.auth.fetching import Fetching
from trio_mcp.auth.urls import origin
from trio_mcp.errors import AuthorizationError

_JSON: Final = {"Accept": "application/json", "Content-Type": "application/json"}


def check_document_url(url: str) -> None:
    """Raise `ValueError` for what cannot be the URL of a client's metadata document."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.path in ("", "/"):
        raise ValueError("client_metadata_url: it must be https://, with a path")
    if parts.fragment or parts.username is not None or parts.password is not None:
        raise ValueError("client_metadata_url: it must have no fragment, user or password")


async def register(
    fetching: Fetching,
    server: ServerMetadata,
    redirect_uri: str,
    name: str,
    near: str,
    scopes: Sequence[str],
) -> ClientRegistration:
    """Register with an authorization server (RFC 7591), as a program on a person's machine.

    Without scopes, the authorization server decides which ones we may ask for.

    Raises:
        AuthorizationError: It refuses, or does not register clients.
    """
    url = server.registration_endpoint
    if url is None:
        why = f"{origin(server.issuer)} does not register clients by itself"
        raise AuthorizationError(f"{why}: register one there, and give its client_id")
    supported = server.token_endpoint_auth_methods_supported or ("none",)
    method = "none" if "none" in supported else preferred_method(supported)
    wanted = {
        "client_name": name,
        "redirect_uris": [redirect_uri],
        "application_type": "native",  # which may be sent back to loopback
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        **({"scope": " ".join(scopes)} if scopes else {}),
    }
    fetched = await fetching.post(url, json.dumps(wanted).encode(), _JSON, near=near)
    if fetched.status not in (200, 201):
        raise refused(url, fetched)
    try:
        client = read(ClientRegistration, fetched.document, f"the registration at {origin(url)}")
    except DocumentError as error:
        raise AuthorizationError(str(error)) from None
    return evolve(client, redirect_uris=(redirect_uri,))
