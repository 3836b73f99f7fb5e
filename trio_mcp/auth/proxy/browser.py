"""The way of a browser through a login: to the provider, and with a code back to the client.

Up to the callback, nothing is kept: a login that is under way travels through the browser, sealed,
and bound to that browser by a cookie. So it may begin at one instance and go on at another, or
after a restart, and no number of begun logins fills anything.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import asdict, define, field, frozen

from trio_mcp.auth.digests import digest_of, same
from trio_mcp.auth.proxy.clients import Clients, ProxyClient, portless
from trio_mcp.auth.proxy.grants import Grant, Grants, ProviderTokens
from trio_mcp.auth.proxy.identity import Identity
from trio_mcp.auth.proxy.pages import consent_page
from trio_mcp.auth.proxy.seal import Seal
from trio_mcp.auth.proxy.settings import ProxySettings
from trio_mcp.auth.proxy.tokens import check_resource
from trio_mcp.auth.proxy.upstream import Upstream, is_allowed
from trio_mcp.auth.proxy.web import (
    BACK,
    UNAVAILABLE,
    Header,
    OAuthError,
    PageError,
    WebRequest,
    WebResponse,
    redirect,
)
from trio_mcp.auth.scopes import is_scope
from trio_mcp.errors import AuthorizationError
from trio_mcp.loggers import logger_of
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
_LONGEST_STATE: Final = 2048
_MAX_CLAIMS: Final = 16 * 1024
"""Bytes of a person's claims that are kept."""

_RETURNED: Final = (
    f"It was tried before, or many were from your network: then wait for some minutes. {BACK}"
)


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
class BrowserLogins:
    """Takes people to the provider and back."""

    _how: ProxySettings
    _store: Store = field(repr=False)
    _title: str
    """What people know this server as."""
    _scopes: Callable[[], frozenset[str]]
    """Returns the scopes that this server knows."""
    _upstream: Upstream
    _clients: Clients
    _grants: Grants
    counts: Counter[str] = field(factory=Counter, init=False)
    """How many logins got how far."""

    def __attrs_post_init__(self) -> None:
        how = self._how
        # Apart, so that nothing that waits for a consent passes for a login that has it.
        self._asked = Seal(how.secrets, "logins without consent")
        self._logins = Seal(how.secrets, "logins")
        self._cookies = Seal(how.secrets, "browsers")
        self._returned = UsedOnce(
            self._store, f"returned-{digest_of(how.resource)}", MAX_RETURNS, LOGIN_TIME
        )
        is_secure = how.issuer.startswith("https:")
        self._cookie = "__Host-trio-mcp" if is_secure else "trio-mcp"
        self._cookie_flags = "; Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if is_secure else "")

    async def authorize(self, request: WebRequest) -> WebResponse:
        """Begin a login for a client: ask the person, or go on to the provider."""
        parameters = request.parameters()
        client = await self._client(parameters.get("client_id"), request.address)
        target = client.redirect_for(parameters.get("redirect_uri"))
        if target is None:
            raise PageError(
                400,
                "Wrong redirect URI",
                "The application asks for an answer at an address that it is not registered with. "
                + BACK,
            )
        browser, consents = self._browser(request)
        try:
            login = self._new_login(parameters, client, target, browser)
        except OAuthError as error:
            return self._answer(target, parameters.get("state"), error.members)
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
                "Its description is not available, or says something else. " + BACK,
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
        check_resource(self._how, parameters)
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

    def _asked_scopes(self, text: str | None) -> list[str]:
        """Return the scopes of a request; those that every request needs if it names none."""
        known = self._scopes()
        if text is None:
            return sorted(known)
        asked = dict.fromkeys(text.split())
        if not all(map(is_scope, asked)):
            raise OAuthError("invalid_scope", "The scopes are not well formed.")
        return [scope for scope in asked if scope in known]

    async def consent(self, request: WebRequest) -> WebResponse:
        """Go on to the provider if the person allows that."""
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

    async def callback(self, request: WebRequest) -> WebResponse:
        """Take the provider's answer, and go back to the client with a code."""
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
            raise PageError(500, "Something went wrong", UNAVAILABLE) from None

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
            "It refused, or did not answer as expected. " + BACK,
        )

    def _opened_login(self, seal: Seal, sealed: str | None, browser: str) -> _Login:
        found = seal.open(sealed or "", LOGIN_TIME)
        if found is None:
            raise PageError(400, "This login has expired", BACK)
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
