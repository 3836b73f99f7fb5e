"""The pages and endpoints of the proxy, by which clients and people log in.

client ─▶ /authorize ─▶ consent ─▶ provider ─▶ /auth/callback ─▶ client ─▶ /token
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from attrs import evolve

from trio_mcp.auth.digests import digest_of
from trio_mcp.auth.fetching import Fetching
from trio_mcp.auth.proxy.browser import BrowserLogins
from trio_mcp.auth.proxy.clients import METHODS, Clients, ProxyClient
from trio_mcp.auth.proxy.grants import Grants
from trio_mcp.auth.proxy.keys import SigningKeys
from trio_mcp.auth.proxy.pages import error_page
from trio_mcp.auth.proxy.provider_tokens import ProviderTokenKeeper
from trio_mcp.auth.proxy.seal import Seal
from trio_mcp.auth.proxy.settings import ABOUT, ProxySettings
from trio_mcp.auth.proxy.tokens import ProxyTokens
from trio_mcp.auth.proxy.upstream import Upstream
from trio_mcp.auth.proxy.web import (
    BACK,
    UNAVAILABLE,
    Header,
    OAuthError,
    Page,
    PageError,
    WebRequest,
    WebResponse,
    json_response,
)
from trio_mcp.auth.server.resource import OpenedAuth
from trio_mcp.auth.server.single_flight import SingleFlight
from trio_mcp.background import background_nursery
from trio_mcp.loggers import logger_of
from trio_mcp.store.errors import StoreError
from trio_mcp.store.protocol import Store
from trio_mcp.wire import codec

logger = logger_of("trio_mcp.auth")

_LATER: Final = f"Logins cannot be served now. Wait a moment. {BACK}"


@asynccontextmanager
async def serving_logins(
    how: ProxySettings, store: Store, title: str, scopes: Callable[[], frozenset[str]]
) -> AsyncIterator[OpenedAuth]:
    """Serve logins for the length of the block.

    Args:
        how: The settings.
        store: Keeps logins and keys.
        title: What people know this server as.
        scopes: Returns the scopes that this server knows.
    """
    partition = f"oauth-{digest_of(how.resource)}"  # several servers may share a store
    grants = Grants(store, partition, how.secrets, how.login_ttl)
    sealed = Seal(how.secrets, "signing keys")
    keys = SigningKeys(store, f"{partition}:keys", sealed, how.token_ttl)
    fetching = how.fetching or Fetching(timeout=10.0)
    async with fetching.opened() as fetcher, background_nursery() as nursery:
        upstream = Upstream(how.provider, how.callback_url, fetcher, SingleFlight(nursery))
        seal = Seal(how.secrets, "clients")
        fetches: SingleFlight[ProxyClient | Exception] = SingleFlight(nursery)
        clients = Clients(seal, fetcher, how.issuer, how.redirect_hosts, fetches)
        renewals: SingleFlight[bool | Exception] = SingleFlight(nursery)
        keeper = ProviderTokenKeeper(grants, upstream, renewals)
        logins = BrowserLogins(how, store, title, scopes, upstream, clients, grants)
        tokens = ProxyTokens(how, clients, grants, keys, upstream, keeper)

        async def metadata() -> dict[str, Any]:
            return _metadata(how, scopes())

        async def register(request: WebRequest) -> WebResponse:
            try:
                document = codec.loads(request.body)
            except ValueError:
                raise OAuthError("invalid_client_metadata", "Send a JSON object.") from None
            return json_response(clients.register(document), 201)

        about = [path for path in how.page_paths if path.startswith(ABOUT)]
        pages = {
            **dict.fromkeys(about, _reading(metadata)),
            "/.well-known/jwks.json": _reading(keys.public),
            "/register": _posting(register),
            "/token": _posting(tokens.token),
            "/revoke": _posting(tokens.revoke),
            "/authorize": _showing(logins.authorize, "GET", "POST"),
            "/consent": _showing(logins.consent, "POST"),
            how.callback_path: _showing(logins.callback, "GET"),
        }
        ways = {how.issuer: keeper.token_of}
        yield OpenedAuth(pages, tokens.verify, ways, logins.counts)


def _metadata(how: ProxySettings, scopes: frozenset[str]) -> dict[str, Any]:
    issuer = how.issuer
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "registration_endpoint": f"{issuer}/register",
        "revocation_endpoint": f"{issuer}/revoke",
        "jwks_uri": f"{issuer}/.well-known/jwks.json",
        "scopes_supported": sorted(scopes),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": list(METHODS),
        "revocation_endpoint_auth_methods_supported": list(METHODS),
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
    }


# -- what all pages have in common ------------------------------------------------------------

_ANY_PAGE: Final[tuple[Header, ...]] = ((b"access-control-allow-origin", b"*"),)
_BASIC: Final[Header] = (b"www-authenticate", b'Basic realm="token"')


def _reading(page: Callable[[], Any]) -> Page:
    async def serve(request: WebRequest) -> WebResponse:
        if request.method == "OPTIONS":
            return _preflight("GET")
        if request.method not in ("GET", "HEAD"):
            return _not_allowed("GET, HEAD")
        try:
            return json_response(await page(), headers=_ANY_PAGE)
        except StoreError as error:
            return _unavailable(error)

    return serve


def _posting(endpoint: Callable[[WebRequest], Any]) -> Page:
    async def serve(request: WebRequest) -> WebResponse:
        if request.method == "OPTIONS":
            return _preflight("POST")
        if request.method != "POST":
            return _not_allowed("POST")
        try:
            response: WebResponse = await endpoint(request)
        except OAuthError as error:
            more = [_BASIC] if error.status == 401 else []
            response = json_response(error.members, error.status, more)
        except StoreError as error:
            response = _unavailable(error)
        return evolve(response, headers=(*response.headers, *_ANY_PAGE))

    return serve


def _showing(page: Callable[[WebRequest], Any], *methods: str) -> Page:
    async def serve(request: WebRequest) -> WebResponse:
        if request.method not in methods:
            return _not_allowed(", ".join(methods))
        try:
            response: WebResponse = await page(request)
        except OAuthError as error:
            response = error_page(error.status, "This request is not valid", error.description)
        except PageError as error:
            response = error_page(error.status, error.title, error.advice)
        except StoreError as error:
            logger.warning("%s", error)
            response = error_page(503, "Not available", _LATER)
        return response

    return serve


def _unavailable(error: StoreError) -> WebResponse:
    logger.warning("%s", error)
    said = {"error": "temporarily_unavailable", "error_description": UNAVAILABLE}
    return json_response(said, 503, [(b"retry-after", b"5")])


def _preflight(method: str) -> WebResponse:
    allowed = (
        (b"access-control-allow-methods", f"{method}, OPTIONS".encode()),
        (b"access-control-allow-headers", b"authorization, content-type, mcp-protocol-version"),
        (b"access-control-max-age", b"86400"),
    )
    return WebResponse(204, headers=(*_ANY_PAGE, *allowed))


def _not_allowed(methods: str) -> WebResponse:
    return WebResponse(405, headers=((b"allow", methods.encode()),))
