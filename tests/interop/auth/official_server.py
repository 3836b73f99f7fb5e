"""A protected server made with the official Python SDK, over HTTP on uvicorn.

Usage: official_server.py WAY [ISSUER SECRET]. By `introspection`, the issuer is asked about tokens.
Otherwise the server is its own authorization server, for everybody (`own`), or for those of an
enterprise whose identity provider the issuer is (`enterprise`). It says on stderr which port it has.
"""

import secrets
import socket
import sys
import time
from typing import Any
from urllib.parse import quote_plus

import httpx2
import uvicorn
from joserfc import jwt
from joserfc.jwk import KeySet
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    IdentityAssertionParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    TokenError,
    TokenVerifier,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import (
    JWT_BEARER_GRANT_TYPE,
    OAuthClientInformationFull,
    OAuthToken,
)

TIME_LIMIT = 120  # seconds, for a server that hangs


class Introspection(TokenVerifier):
    """Asks the authorization server about a token."""

    def __init__(self, issuer: str, secret: str) -> None:
        self._endpoint = f"{issuer}/token/introspection"
        self._auth = httpx2.BasicAuth("verifier", quote_plus(secret))

    async def verify_token(self, token: str) -> AccessToken | None:
        async with httpx2.AsyncClient(
            timeout=TIME_LIMIT, trust_env=False, auth=self._auth
        ) as client:
            answer = await client.post(self._endpoint, data={"token": token})
        found = answer.json()
        if not found.get("active"):
            return None
        return AccessToken(
            token=token,
            client_id=found["client_id"],
            scopes=found.get("scope", "").split(),
            expires_at=found["exp"],
            resource=found["aud"],
            subject=found.get("sub"),
        )


class Everybody(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Registers everybody, and asks no person; takes the word of an identity provider, if any."""

    def __init__(self, issuer: str, provider: str, secret: str) -> None:
        self._issuer = issuer
        self._provider = provider
        known = OAuthClientInformationFull(
            client_id="desk",
            client_secret=secret,
            redirect_uris=None,
            grant_types=[JWT_BEARER_GRANT_TYPE],
            token_endpoint_auth_method="client_secret_basic",
        )
        self._clients = {"desk": known} if provider else {}
        self._codes: dict[str, AuthorizationCode] = {}
        self._refresh: dict[str, RefreshToken] = {}
        self._access: dict[str, AccessToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self._clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(32),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject="alice",
        )
        self._codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self._codes[authorization_code.code]
        return self._issue(authorization_code, authorization_code.scopes)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self._refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self._refresh[refresh_token.token]
        return self._issue(refresh_token, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self._access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self._access.pop(token.token, None)

    async def exchange_identity_assertion(
        self, client: OAuthClientInformationFull, params: IdentityAssertionParams
    ) -> OAuthToken:
        async with httpx2.AsyncClient(timeout=TIME_LIMIT, trust_env=False) as http:
            keys = KeySet.import_key_set((await http.get(f"{self._provider}/jwks")).json())
        found = jwt.decode(params.assertion, keys, ["ES256"])
        wanted = {"iss": self._provider, "aud": self._issuer, "client_id": client.client_id}
        if found.header["typ"] != "oauth-id-jag+jwt" or not wanted.items() <= found.claims.items():
            raise TokenError("invalid_grant", "it is not for us")
        access = AccessToken(
            token=secrets.token_urlsafe(32),
            client_id=client.client_id,
            scopes=found.claims["scope"].split(),
            expires_at=int(time.time()) + 600,
            resource=found.claims["resource"],
            subject=found.claims["sub"],
        )
        self._access[access.token] = access
        scope = found.claims["scope"]
        return OAuthToken(access_token=access.token, expires_in=600, scope=scope)

    def _issue(self, given: AuthorizationCode | RefreshToken, scopes: list[str]) -> OAuthToken:
        shared: dict[str, Any] = {
            "client_id": given.client_id,
            "scopes": scopes,
            "resource": given.resource,
            "subject": given.subject,
        }
        access = AccessToken(
            token=secrets.token_urlsafe(32), expires_at=int(time.time()) + 600, **shared
        )
        refresh = RefreshToken(token=secrets.token_urlsafe(32), **shared)
        self._access[access.token] = access
        self._refresh[refresh.token] = refresh
        return OAuthToken(
            access_token=access.token,
            expires_in=600,
            scope=" ".join(scopes),
            refresh_token=refresh.token,
        )


async def whoami() -> dict[str, Any]:
    """Say who calls."""
    token = get_access_token()
    assert token is not None
    return {"subject": token.subject, "client_id": token.client_id, "scopes": token.scopes}


def main(way: str, issuer: str = "", secret: str = "") -> None:
    """Serve."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    origin = f"http://127.0.0.1:{port}"
    if way == "introspection":
        who: dict[str, Any] = {"token_verifier": Introspection(issuer, secret)}
    else:
        who = {"auth_server_provider": Everybody(origin, issuer, secret)}
        issuer = origin
    scopes = ["mcp"]
    server = MCPServer(
        "official",
        log_level="CRITICAL",
        auth=AuthSettings(  # of texts: `AnyHttpUrl` adds a slash, which makes another issuer
            issuer_url=issuer,
            resource_server_url=f"{origin}/mcp",
            required_scopes=scopes,
            validate_token_resource=True,
            identity_assertion_enabled=way == "enterprise",
            client_registration_options=ClientRegistrationOptions(
                enabled=True, valid_scopes=scopes, default_scopes=scopes
            ),
        ),
        **who,
    )
    server.tool()(whoami)
    print(f"port {port}!", file=sys.stderr, flush=True)
    config = uvicorn.Config(
        server.streamable_http_app(), log_level="critical", timeout_graceful_shutdown=1
    )
    uvicorn.Server(config).run(sockets=[listener])


main(*sys.argv[1:])
