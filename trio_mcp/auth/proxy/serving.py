"""The pages and endpoints of the proxy, by which clients and people log in.

    client ─▶ /authorize ─▶ consent ─▶ provider ─▶ /auth/callback ─▶ client ─▶ /token

Up to the callback, nothing is kept: a login that is under way travels through the browser, sealed,
and bound to that browser by a cookie. So it may begin at one instance and go on at another, or
after a restart, and no number of begun logins fills anything.
"""

from __future__ import annotations

import base64
import binascii
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final
from urllib.parse import unquote_plus

import trio
from attrs import asdict, define, evolve, field, frozen

from trio_mcp.auth.authorization import Authorization
from trio_mcp.auth.digests import digest_of, same
from trio_mcp.auth.fetching import Fetching
from trio_mcp.auth.proxy.clients import METHODS, Clients, ProxyClient, is_client, portless
from trio_mcp.auth.proxy.grants import Grant, Grants, Lost, ProviderTokens
from trio_mcp.auth.proxy.identity import Identity
from trio_mcp.auth.proxy.keys import SigningKeys
from trio_mcp.auth.proxy.pages import consent_page, error_page
from trio_mcp.auth.proxy.provider_tokens import ProviderTokenKeeper
from trio_mcp.auth.proxy.seal import Seal
from trio_mcp.auth.proxy.settings import ABOUT, ProxySettings
from trio_mcp.auth.proxy.upstream import Upstream, is_allowed
from trio_mcp.auth.proxy.web import (
    Header,
    OAuthError,
    Page,
    PageError,
    WebRequest,
    WebResponse,
    json_response,
    redirect,
)
from trio_mcp.auth.scopes import is_scope, scope_text
from trio_mcp.auth.server.credentials import IssuerUnavailable, TokenRefused
from trio_mcp.auth.server.resource import OpenedAuth
from trio_mcp.auth.server.single_flight import SingleFlight
from trio_mcp.auth.urls import canonical
from trio_mcp.background import background_nursery
from trio_mcp.errors import AuthorizationError
from trio_mcp.loggers import logger_of
from trio_mcp.store.changes import Conflict
from trio_mcp.store.errors import StoreError
from trio_mcp.store.protocol import Store
from trio_mcp.store.used import UsedOnce
from trio_mcp.wire import codec

logger = logger_of("trio_mcp.auth")

LOGIN_TIME: Final = 600.0
"""Seconds for which a login may be under way."""
CONSENT_TTL: Final = 30 * 86_400.0
"""Seconds for which a browser need not be asked about a client again."""
_MAX_CONSENTS: Final = 16
MAX_RETURNS: Final = 1000
"""So often browsers of one address come back from the provider in the time of a login."""
_MAX_TRIES: Final = 5
_LONGEST_STATE: Final = 2048
_CHECKED_FOR: Final = 60.0
"""Seconds for which a token that was verified is not looked up again."""

_BACK: Final = "Go back to the application, and try to connect again."
_RETURNED: Final = (
    f"It was tried before, or many were from your network: then wait for some minutes. {_BACK}"
)
_UNAVAILABLE: Final = "Logins cannot be served now. Try again in a moment."
_LATER: Final = f"Logins cannot be served now. Wait a moment. {_BACK}"


@frozen(kw_only=True, repr=False)
class _Login:
    """A login that is under way, as it travels."""

    browser: str
    client: str
    redirect: str
    state: str | None
    challenge: str
    scopes: list[str]
    verifier: str
    nonce: str


@define(eq=False, repr=False, slots=False)
class ProxyServer:
    """Serves the logins of one server."""

    _how: ProxySettings
    _store: Store = field(repr=False)
    """Keeps logins and keys."""
    _title: str
    """What people know this server as."""
    _scopes: Callable[[], frozenset[str]]
    """Returns the scopes that this server knows."""
    _upstream: Upstream
    _clients: Clients
    _nursery: trio.Nursery
    """Runs what several calls wait for."""
    counts: Counter[str] = field(factory=Counter, init=False)
    """How many logins got how far."""

    def __attrs_post_init__(self) -> None:
        how, store = self._how, self._store
        # Apart, so that nothing that waits for a consent passes for a login that has it.
        self._asked = Seal(how.secrets, "logins without consent")
        self._logins = Seal(how.secrets, "logins")
        self._cookies = Seal(how.secrets, "browsers")
        # Several servers may share a store.
        partition = f"oauth-{digest_of(how.resource)}"
        self._grants = Grants(store, partition, how.secrets, how.login_ttl)
        keys_seal = Seal(how.secrets, "signing keys")
        self._keys = SigningKeys(store, f"{partition}:keys", keys_seal, how.token_ttl)
        self._returned = UsedOnce(
            store, f"returned-{digest_of(how.resource)}", MAX_RETURNS, LOGIN_TIME
        )
        renewals: SingleFlight[bool | Exception] = SingleFlight(self._nursery)
        self.keeper = ProviderTokenKeeper(self._grants, self._upstream, renewals)
        is_secure = how.issuer.startswith("https:")
        self._cookie = "__Host-trio-mcp" if is_secure else "trio-mcp"
        self._cookie_flags = "; Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if is_secure else "")

    def pages(self) -> dict[str, Page]:
        """Return what is served, by path."""
        metadata = self._reading(self._metadata)
        return {
            **{path: metadata for path in self._how.page_paths if path.startswith(ABOUT)},
            "/.well-known/jwks.json": self._reading(self._keys.public),
            "/register": self._posting(self._register),
            "/token": self._posting(self._token),
            "/revoke": self._posting(self._revoke),
            "/authorize": self._showing(self._authorize, "GET", "POST"),
            "/consent": self._showing(self._consent, "POST"),
            self._how.callback_path: self._showing(self._callback, "GET"),
        }

    # -- what all of them have in common --------------------------------------------------

    def _reading(self, page: Callable[[], Any]) -> Page:
        async def serve(request: WebRequest) -> WebResponse:
            if request.method == "OPTIONS":
                return _preflight("GET")
            if request.method not in ("GET", "HEAD"):
                return _not_allowed("GET, HEAD")
            try:
                return json_response(await page(), headers=_ANY_PAGE)
            except StoreError as error:
                return self._unavailable(error)

        return serve

    def _posting(self, endpoint: Callable[[WebRequest], Any]) -> Page:
        async def serve(request: WebRequest) -> WebResponse:
            if request.method == "OPTIONS":
                return _preflight("POST")
            if request.method != "POST":
                return _not_allowed("POST")
            try:
                response: WebResponse = await endpoint(request)
            except OAuthError as error:
                more = [_BASIC] if error.status == 401 else []
                response = json_response(_error_of(error), error.status, more)
            except StoreError as error:
                response = self._unavailable(error)
            return evolve(response, headers=(*response.headers, *_ANY_PAGE))

        return serve

    def _showing(self, page: Callable[[WebRequest], Any], *methods: str) -> Page:
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

    def _unavailable(self, error: StoreError) -> WebResponse:
        logger.warning("%s", error)
        said = {"error": "temporarily_unavailable", "error_description": _UNAVAILABLE}
        return json_response(said, 503, [(b"retry-after", b"5")])

    # -- documents ------------------------------------------------------------------------

    async def _metadata(self) -> dict[str, Any]:
        issuer = self._how.issuer
        return {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "registration_endpoint": f"{issuer}/register",
            "revocation_endpoint": f"{issuer}/revoke",
            "jwks_uri": f"{issuer}/.well-known/jwks.json",
            "scopes_supported": sorted(self._scopes()),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": list(METHODS),
            "revocation_endpoint_auth_methods_supported": list(METHODS),
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": True,
        }

    # -- clients --------------------------------------------------------------------------

    async def _register(self, request: WebRequest) -> WebResponse:
        try:
            document = codec.loads(request.body)
        except ValueError:
            raise OAuthError("invalid_client_metadata", "Send a JSON object.") from None
        answer = self._clients.register(document)
        return json_response(answer, 201)

    def _authenticated(self, request: WebRequest, form: Mapping[str, str]) -> ProxyClient:
        """Return the client that sends a request.

        Raises:
            OAuthError: It does not show that it is a client (`invalid_client`).
        """
        id, secret = form.get("client_id"), form.get("client_secret")
        kind, _, value = request.header(b"authorization").partition(" ")
        if kind.lower() == "basic":
            shown_id, shown_secret = _basic(value)
            if (id is not None and id != shown_id) or secret is not None:
                raise OAuthError("invalid_request", "Show in one way only which client you are.")
            id, secret = shown_id, shown_secret
        client = self._clients.known(id)
        if client is None or not is_client(client, secret):
            raise OAuthError("invalid_client", "Register again; this client is not known.", 401)
        return client

    # -- the way of a browser -------------------------------------------------------------

    async def _authorize(self, request: WebRequest) -> WebResponse:
        parameters = request.parameters()
        client = await self._client(parameters.get("client_id"), request.address)
        target = client.redirect_for(parameters.get("redirect_uri"))
        if target is None:
            raise PageError(
                400,
                "Wrong redirect URI",
                "The application asks for an answer at an address that it is not registered with. "
                + _BACK,
            )
        browser, consents = self._browser(request)
        try:
            login = self._new_login(parameters, client, target, browser)
        except OAuthError as error:
            return self._answer(target, parameters.get("state"), _error_of(error))
        cookie = self._set_cookie(browser, consents)
        asks_again = "consent" in parameters.get("prompt", "").split()
        if _consent(login.client, target) in consents and not asks_again:
            return await self._to_provider(login, [cookie])
        return consent_page(
            client,
            redirect=target,
            server=self._title,
            provider=self._how.provider.title,
            scopes=login.scopes,
            login=self._asked.seal(asdict(login)),
            headers=[cookie],
        )

    async def _client(self, id: str | None, address: str) -> ProxyClient:
        try:
            client = await self._clients.find(id, address)
        except AuthorizationError as error:
            logger.info("A client cannot be looked up: %s", error)
            raise PageError(
                400,
                "The application cannot be looked up",
                "Its description is not available, or says something else. " + _BACK,
            ) from None
        if client is None:
            raise PageError(
                400,
                "The application is not registered",
                "Its registration may have expired. Remove this server from the application and "
                "add it again.",
            )
        return client

    def _new_login(
        self, parameters: Mapping[str, str], client: ProxyClient, target: str, browser: str
    ) -> _Login:
        if parameters.get("response_type") != "code":
            raise OAuthError("unsupported_response_type", "Only response_type=code is served.")
        if "request" in parameters or "request_uri" in parameters:
            raise OAuthError("request_not_supported", "Send the parameters themselves.")
        challenge = parameters.get("code_challenge", "")
        if parameters.get("code_challenge_method") != "S256" or len(challenge) != 43:
            raise OAuthError("invalid_request", "PKCE with S256 is needed.")
        self._check_resource(parameters)
        state = parameters.get("state")
        if state is not None and len(state) > _LONGEST_STATE:
            raise OAuthError("invalid_request", "The state is too long.")
        return _Login(
            browser=digest_of(browser),
            client=digest_of(client.id),
            redirect=target,
            state=state,
            challenge=challenge,
            scopes=self._asked_scopes(parameters.get("scope")),
            verifier=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(16),
        )

    def _check_resource(self, parameters: Mapping[str, str]) -> None:
        resource = parameters.get("resource")
        if resource is None:
            return
        try:
            is_ours = canonical(resource) == canonical(self._how.resource)
        except ValueError:
            is_ours = False
        if not is_ours and resource.rstrip("/") != self._how.issuer:
            raise OAuthError("invalid_target", "There are no tokens for that resource here.")

    def _asked_scopes(self, text: str | None) -> list[str]:
        """Return the scopes of a request; those that every request needs if it names none."""
        known = self._scopes()
        if text is None:
            return sorted(known)
        asked = dict.fromkeys(text.split())
        if not all(map(is_scope, asked)):
            raise OAuthError("invalid_scope", "The scopes are not well formed.")
        return [scope for scope in asked if scope in known]

    async def _consent(self, request: WebRequest) -> WebResponse:
        form = request.parameters()
        browser, consents = self._browser(request)
        login = self._opened_login(self._asked, form.get("ticket"), browser)
        if form.get("answer") != "allow":
            return self._denied(login, "The person did not consent.")
        consents = [*consents, _consent(login.client, login.redirect)][-_MAX_CONSENTS:]
        return await self._to_provider(login, [self._set_cookie(browser, consents)])

    async def _to_provider(self, login: _Login, headers: list[Header]) -> WebResponse:
        try:
            endpoints = await self._upstream.endpoints()
        except AuthorizationError as error:
            raise self._provider_failed(error) from None
        self.counts["begun"] += 1
        parameters = self._upstream.authorization_parameters(
            self._logins.seal(asdict(login)), digest_of(login.verifier), login.nonce
        )
        return redirect(endpoints.authorization, parameters, headers)

    async def _callback(self, request: WebRequest) -> WebResponse:
        parameters = request.parameters()
        browser, _ = self._browser(request)
        login = self._opened_login(self._logins, parameters.get("state"), browser)
        code = parameters.get("code")
        if "error" in parameters or code is None:
            return self._denied(login, "The login was not completed at the provider.")
        # A code can be made up, and each is asked for at the provider.
        if not await self._returned.add(request.address, parameters["state"], LOGIN_TIME):
            raise PageError(400, "This login cannot be completed", _RETURNED)
        try:
            identity, tokens = await self._upstream.redeem(
                code, login.verifier, login.nonce, parameters.get("iss")
            )
        except AuthorizationError as error:
            raise self._provider_failed(error) from None
        scopes = await self._let_in(identity, login.scopes)
        if scopes is None:
            return self._denied(login, f"Your account may not use {_ascii(self._title)}.")
        code = await self._grants.begin(self._new_grant(login, scopes, identity, tokens))
        self.counts["completed"] += 1
        return self._answer(login.redirect, login.state, {"code": code})

    async def _let_in(self, identity: Identity, asked: list[str]) -> list[str] | None:
        """Ask the author's functions for the scopes of a person; `None` if they may not come in."""
        how = self._how
        try:
            if not await is_allowed(how.allow, identity):
                return None
            granted = how.grant_scopes(identity) if how.grant_scopes is not None else asked
            return [scope for scope in asked if scope in frozenset(granted)]
        except Exception:
            logger.exception("A login has failed in allow or grant_scopes")
            raise PageError(500, "Something went wrong", _UNAVAILABLE) from None

    def _denied(self, login: _Login, why: str) -> WebResponse:
        self.counts["refused"] += 1
        logger.info("A login is refused: %s", why)
        answer = {"error": "access_denied", "error_description": why}
        return self._answer(login.redirect, login.state, answer)

    def _new_grant(
        self, login: _Login, scopes: list[str], identity: Identity, tokens: ProviderTokens
    ) -> Grant:
        now = time.time()
        return Grant(
            id=self._grants.new_id(identity.subject),
            subject=identity.subject,
            name=identity.name,
            email=identity.email,
            claims=_bounded(identity.claims),
            client=login.client,
            scopes=tuple(scopes),
            redirect=login.redirect,
            challenge=login.challenge,
            began=now,
            used=now,
            tokens=tokens,
        )

    def _provider_failed(self, error: AuthorizationError) -> PageError:
        self.counts["failed"] += 1
        logger.warning("A login at %s has failed: %s", self._how.provider.title, error)
        return PageError(
            502,
            f"{self._how.provider.title} did not log you in",
            "It refused, or did not answer as expected. " + _BACK,
        )

    def _opened_login(self, seal: Seal, sealed: str | None, browser: str) -> _Login:
        found = seal.open(sealed or "", LOGIN_TIME)
        if found is None:
            raise PageError(400, "This login has expired", _BACK)
        login = _Login(**found)
        if not same(digest_of(browser), login.browser):
            raise PageError(
                400,
                "This login was begun in another browser",
                "If you did not begin it, close this page: it may be an attempt to get into your "
                "account. Otherwise allow cookies, and try again in one browser.",
            )
        return login

    def _answer(self, target: str, state: str | None, answer: dict[str, str]) -> WebResponse:
        """Send the browser back to the client."""
        if state is not None:
            answer = {**answer, "state": state}
        return redirect(target, {**answer, "iss": self._how.issuer})

    # -- cookies --------------------------------------------------------------------------

    def _browser(self, request: WebRequest) -> tuple[str, list[str]]:
        """Return what names a browser, and the clients that its user has consented to."""
        found = self._cookies.open(request.cookie(self._cookie), CONSENT_TTL)
        return (found["b"], found["c"]) if found else (secrets.token_urlsafe(16), [])

    def _set_cookie(self, browser: str, consents: list[str]) -> Header:
        value = self._cookies.seal({"b": browser, "c": consents})
        age = int(CONSENT_TTL)
        text = f"{self._cookie}={value}; Max-Age={age}{self._cookie_flags}"
        return b"set-cookie", text.encode()

    # -- tokens ---------------------------------------------------------------------------

    async def _token(self, request: WebRequest) -> WebResponse:
        form = request.parameters()
        client = self._authenticated(request, form)
        self._check_resource(form)
        kinds = {"authorization_code": self._redeemed, "refresh_token": self._refreshed}
        find = kinds.get(form.get("grant_type", ""))
        if find is None:
            why = "grant_type is authorization_code or refresh_token."
            raise OAuthError("unsupported_grant_type", why)
        for _ in range(_MAX_TRIES):
            with suppress(Conflict):  # the same was sent at the same time, and has gone first
                return await self._give(*await find(form, client), client, form.get("scope"))
        why = "The same was sent many times at once; try again."
        raise OAuthError("temporarily_unavailable", why, 503)

    async def _give(
        self, grant: Grant, version: int | None, client: ProxyClient, asked: str | None
    ) -> WebResponse:
        """Give out tokens of a login, which advances if there is a version."""
        scopes = self._narrowed(grant, asked)
        # First, since it may fail: a code that was used could not be sent again.
        access = await self._access_token(grant, client, scopes)
        if version is not None:
            grant = await self._grants.advance(grant, version)
        return json_response(
            {
                "access_token": access,
                "token_type": "Bearer",
                "expires_in": int(self._how.token_ttl),
                "refresh_token": self._grants.token("refresh", grant.id, grant.generation),
                "scope": " ".join(scopes),
            }
        )

    async def _redeemed(
        self, form: Mapping[str, str], client: ProxyClient
    ) -> tuple[Grant, int | None]:
        try:
            id, _ = self._grants.read("code", form.get("code", ""))
            grant, version = await self._grants.get(id)
        except Lost:
            raise _invalid_grant("The code is not valid, or has expired.") from None
        if grant.generation > 0:  # it may have been stolen
            logger.warning("A code was used twice: the login that it was for ends")
            await self._ended(grant)
            raise _invalid_grant("The code was used before.")
        target = form.get("redirect_uri", grant.redirect)
        is_proved = same(digest_of(form.get("code_verifier", "")), grant.challenge)
        is_its = same(digest_of(client.id), grant.client)
        if not (is_its and is_proved and target == grant.redirect):
            raise _invalid_grant("The code was not issued for this client and request.")
        return grant, version

    async def _refreshed(
        self, form: Mapping[str, str], client: ProxyClient
    ) -> tuple[Grant, int | None]:
        """Return a login to go on with, and its version if it has to advance."""
        try:
            id, generation = self._grants.read("refresh", form.get("refresh_token", ""))
            grant, version = await self._grants.get(id)
        except Lost:
            raise _invalid_grant("The refresh token is not valid any more; log in again.") from None
        if not same(digest_of(client.id), grant.client):
            raise _invalid_grant("The refresh token belongs to another client.")
        if generation == grant.generation:
            return await self._still_allowed(grant, version)
        if self._grants.is_graced(grant, generation):
            return grant, None  # the client has lost the answer: it gets the same again
        logger.warning("A refresh token was used again: the login that it was for ends")
        await self._ended(grant)
        raise _invalid_grant("The refresh token was used before; log in again.")

    async def _still_allowed(self, grant: Grant, version: int) -> tuple[Grant, int]:
        """Renew the provider's token if it is time: a login ends here when it ends there."""
        try:
            return await self.keeper.fresh(grant, version)
        except Lost:
            raise _invalid_grant("The login has ended at the provider; log in again.") from None
        except AuthorizationError as error:
            logger.warning("A login cannot be renewed at the provider: %s", error)
            why = "The provider cannot be reached; try again."
            raise OAuthError("temporarily_unavailable", why, 503) from None

    def _narrowed(self, grant: Grant, text: str | None) -> tuple[str, ...]:
        if text is None:
            return grant.scopes
        asked = text.split()
        if not set(asked) <= set(grant.scopes):
            raise OAuthError("invalid_scope", "Scopes beyond those of the login need a new login.")
        return tuple(asked)

    async def _access_token(
        self, grant: Grant, client: ProxyClient, scopes: tuple[str, ...]
    ) -> str:
        now = int(time.time())
        claims = {
            "iss": self._how.issuer,
            "aud": self._how.resource,
            "sub": grant.subject,
            "client_id": client.id,
            "scope": scope_text(scopes),
            "iat": now,
            "exp": now + int(self._how.token_ttl),
            "jti": secrets.token_urlsafe(12),
            "login": grant.id,
        }
        return await self._keys.sign(claims)

    async def _revoke(self, request: WebRequest) -> WebResponse:
        form = request.parameters()
        client = self._authenticated(request, form)
        grant = await self._grant_of(form.get("token", ""))
        if grant is not None and same(digest_of(client.id), grant.client):
            await self._ended(grant)
        return WebResponse(200)

    async def _grant_of(self, token: str) -> Grant | None:
        """Return the login that a refresh token or an access token is of."""
        try:
            id, _ = self._grants.read("refresh", token)
        except Lost:
            try:
                id = str((await self._keys.verify(token)).get("login"))
            except TokenRefused:
                return None
        try:
            return (await self._grants.get(id))[0]
        except Lost:
            return None

    async def _ended(self, grant: Grant) -> None:
        await self._grants.end(grant.id)
        try:
            await self._upstream.revoke(grant.tokens)
        except AuthorizationError as error:
            logger.info("A login has ended here, but not at the provider: %s", error)

    # -- verifying ------------------------------------------------------------------------

    async def verify(self, token: str) -> tuple[Authorization, float]:
        """Return what an access token allows, and for how many seconds that may be remembered.

        Raises:
            TokenRefused: It is not valid, or its login has ended.
            IssuerUnavailable: The store of logins does not answer.
        """
        try:
            claims = await self._keys.verify(token)
            if claims.get("iss") != self._how.issuer or claims.get("aud") != self._how.resource:
                raise TokenRefused("it is for another server")
            grant, _ = await self._grants.get(str(claims.get("login")))
        except Lost:
            raise TokenRefused("its login has ended") from None
        except StoreError:
            raise IssuerUnavailable("the store of logins") from None
        authorization = Authorization(
            subject=grant.subject,
            client_id=claims["client_id"],
            scopes=frozenset(claims["scope"].split()),
            issuer=self._how.issuer,
            expires_at=claims["exp"],
            claims=_claims_of(grant),
            login=grant.id,
        )
        return authorization, _CHECKED_FOR


_ANY_PAGE: Final[tuple[Header, ...]] = ((b"access-control-allow-origin", b"*"),)
_BASIC: Final[Header] = (b"www-authenticate", b'Basic realm="token"')
_MAX_CLAIMS: Final = 16 * 1024
"""Bytes of a person's claims that are kept."""


def _preflight(method: str) -> WebResponse:
    allowed = (
        (b"access-control-allow-methods", f"{method}, OPTIONS".encode()),
        (b"access-control-allow-headers", b"authorization, content-type, mcp-protocol-version"),
        (b"access-control-max-age", b"86400"),
    )
    return WebResponse(204, headers=(*_ANY_PAGE, *allowed))


def _not_allowed(methods: str) -> WebResponse:
    return WebResponse(405, headers=((b"allow", methods.encode()),))


def _invalid_grant(why: str) -> OAuthError:
    return OAuthError("invalid_grant", why)


def _error_of(error: OAuthError) -> dict[str, str]:
    return {"error": error.code, "error_description": error.description}


def _basic(value: str) -> tuple[str, str]:
    """Read the credentials of a client (RFC 6749, section 2.3.1)."""
    try:
        id, _, secret = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise OAuthError("invalid_client", "The credentials are not well formed.", 401) from None
    return unquote_plus(id), unquote_plus(secret)


def _consent(client: str, target: str) -> str:
    """Return what a consent is remembered by: the client's digest and its redirect."""
    return digest_of(f"{client} {portless(target)}")


def _ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode().replace('"', "'").replace("\\", "/")


def _bounded(claims: Mapping[str, Any]) -> dict[str, Any]:
    """Return the claims that are kept of a person: all, unless they are very long or no JSON."""
    sizes = {name: _size_of(name, value) for name, value in claims.items()}
    left_out, surplus = set(), sum(sizes.values()) - _MAX_CLAIMS
    for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if surplus <= 0:
            break
        left_out.add(name)
        surplus -= sizes[name]
    if left_out:
        some = ", ".join(sorted(left_out))
        logger.warning("%d claims are too long to be kept, or no JSON: %.100s", len(left_out), some)
    return {name: value for name, value in claims.items() if name not in left_out}


def _size_of(name: str, value: Any) -> int:
    """Return the bytes of a claim, as deep in JSON as it is kept; too many if it is none."""
    try:
        return len(codec.dumps({"claims": {name: value}}))
    except TypeError:
        return 1 << 40


def _claims_of(grant: Grant) -> dict[str, Any]:
    said = {"name": grant.name, "email": grant.email}
    return {**grant.claims, **{name: value for name, value in said.items() if value is not None}}


@asynccontextmanager
async def serving_logins(
    how: ProxySettings, store: Store, title: str, scopes: Callable[[], frozenset[str]]
) -> AsyncIterator[OpenedAuth]:
    """Serve logins for the length of the block."""
    fetching = how.fetching or Fetching(timeout=10.0)
    async with fetching.opened() as fetcher, background_nursery() as nursery:
        upstream = Upstream(how.provider, how.callback_url, fetcher, SingleFlight(nursery))
        seal = Seal(how.secrets, "clients")
        fetches: SingleFlight[ProxyClient | Exception] = SingleFlight(nursery)
        clients = Clients(seal, fetcher, how.issuer, how.redirect_hosts, fetches)
        server = ProxyServer(how, store, title, scopes, upstream, clients, nursery)
        tokens = {how.issuer: server.keeper.token_of}
        yield OpenedAuth(server.pages(), server.verify, tokens, server.counts)
