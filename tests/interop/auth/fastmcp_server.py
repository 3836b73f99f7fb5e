"""A protected server made with FastMCP, over HTTP.

Usage: fastmcp_server.py WAY ISSUER SECRET. The way is `jwt` or `introspection` of what the issuer
gives; `proxy`, which gives tokens of its own to whom the issuer lets in; or `memory`: then it is its
own authorization server. It says on stderr which port it has.
"""

import socket
import sys
from typing import Any
from urllib.parse import quote_plus

import httpx2
import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth import RemoteAuthProvider
from fastmcp.server.auth.auth import ClientRegistrationOptions
from fastmcp.server.auth.oidc_proxy import OIDCProxy
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from fastmcp.server.auth.providers.introspection import IntrospectionTokenVerifier
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.server.dependencies import get_access_token

SCOPES = ["mcp"]


def auth_for(way: str, issuer: str, secret: str, origin: str) -> Any:
    """Who may come."""
    if way == "memory":
        options = ClientRegistrationOptions(enabled=True, valid_scopes=SCOPES)
        return InMemoryOAuthProvider(
            base_url=origin, required_scopes=SCOPES, client_registration_options=options
        )
    if way == "proxy":
        return proxy(issuer, origin)
    verifier: Any
    if way == "jwt":
        verifier = JWTVerifier(
            jwks_uri=f"{issuer}/jwks",
            issuer=issuer,
            audience=f"{origin}/mcp",
            algorithm="ES256",
            required_scopes=SCOPES,
        )
    else:
        verifier = IntrospectionTokenVerifier(
            introspection_url=f"{issuer}/token/introspection",
            client_id="verifier",
            client_secret=quote_plus(secret),  # which it does not do itself
            audience=f"{origin}/mcp",
            required_scopes=SCOPES,
        )
    return RemoteAuthProvider(verifier, [issuer], base_url=origin)  # type: ignore[list-item]


def proxy(issuer: str, origin: str) -> OIDCProxy:
    """One client of the issuer's, for all of ours."""
    wanted = {"redirect_uris": [f"{origin}/auth/callback"], "client_name": "fast"}
    answer = httpx2.post(f"{issuer}/reg", json=wanted, trust_env=False, timeout=120)
    known = answer.raise_for_status().json()
    return OIDCProxy(
        config_url=f"{issuer}/.well-known/openid-configuration",
        client_id=known["client_id"],
        client_secret=known["client_secret"],
        audience=f"{origin}/mcp",
        algorithm="ES256",
        required_scopes=SCOPES,
        base_url=origin,
    )


def whoami() -> dict[str, Any]:
    """Say who calls."""
    token = get_access_token()
    assert token is not None
    return {
        "subject": token.claims.get("sub"),
        "client_id": token.client_id,
        "scopes": token.scopes,
    }


def main(way: str, issuer: str = "", secret: str = "") -> None:
    """Serve."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = FastMCP("fast", auth=auth_for(way, issuer, secret, f"http://127.0.0.1:{port}"))
    server.tool(whoami)
    print(f"port {port}!", file=sys.stderr, flush=True)
    config = uvicorn.Config(server.http_app(), log_level="critical", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


main(*sys.argv[1:])
