"""The tokens of the proxy: how clients get and end them, and how they are verified."""

from __future__ import annotations

import base64
import binascii
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote_plus

from attrs import frozen

from trio_mcp.auth.authorization import Authorization
from trio_mcp.auth.digests import digest_of, same
from trio_mcp.auth.proxy.clients import Clients, ProxyClient, is_client
from trio_mcp.auth.proxy.grants import Grant, Grants, Lost
from trio_mcp.auth.proxy.keys import SigningKeys
from trio_mcp.auth.proxy.provider_tokens import ProviderTokenKeeper
from trio_mcp.auth.proxy.settings import ProxySettings
from trio_mcp.auth.proxy.upstream import Upstream
from trio_mcp.auth.proxy.web import OAuthError, WebRequest, WebResponse, json_response
from trio_mcp.auth.scopes import scope_text
from trio_mcp.auth.server.credentials import IssuerUnavailable, TokenRefused
from trio_mcp.auth.urls import canonical
from trio_mcp.errors import AuthorizationError
from trio_mcp.loggers import logger_of
from trio_mcp.store.changes import Conflict
from trio_mcp.store.errors import StoreError

logger = logger_of("trio_mcp.auth")

_MAX_TRIES: Final = 5
_CHECKED_FOR: Final = 60.0
"""Seconds for which a token that was verified is not looked up again."""


@frozen(eq=False, repr=False)
class ProxyTokens:
    """Gives out the tokens of one server, and verifies them."""

    _how: ProxySettings
    _clients: Clients
    _grants: Grants
    _keys: SigningKeys
    _upstream: Upstream
    _keeper: ProviderTokenKeeper

    async def token(self, request: WebRequest) -> WebResponse:
        """Give out tokens for a code or for a refresh token (RFC 6749, section 3.2)."""
        form = request.parameters()
        client = self._authenticated(request, form)
        check_resource(self._how, form)
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
            return await self._keeper.fresh(grant, version)
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

    async def revoke(self, request: WebRequest) -> WebResponse:
        """End the login that a token is of (RFC 7009)."""
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

    # -- who sends a request, or a token --------------------------------------------------

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


def check_resource(how: ProxySettings, parameters: Mapping[str, str]) -> None:
    """Raise `OAuthError` if a request names a resource that is not this server."""
    resource = parameters.get("resource")
    if resource is None:
        return
    try:
        is_ours = canonical(resource) == canonical(how.resource)
    except ValueError:
        is_ours = False
    if not is_ours and resource.rstrip("/") != how.issuer:
        raise OAuthError("invalid_target", "There are no tokens for that resource here.")


def _invalid_grant(why: str) -> OAuthError:
    return OAuthError("invalid_grant", why)


def _basic(value: str) -> tuple[str, str]:
    """Read the credentials of a client (RFC 6749, section 2.3.1)."""
    try:
        id, _, secret = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise OAuthError("invalid_client", "The credentials are not well formed.", 401) from None
    return unquote_plus(id), unquote_plus(secret)


def _claims_of(grant: Grant) -> dict[str, Any]:
    said = {"name": grant.name, "email": grant.email}
    return {**grant.claims, **{name: value for name, value in said.items() if value is not None}}
