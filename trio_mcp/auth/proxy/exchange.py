"""Tokens for other APIs on behalf of the caller, by the token of the provider."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Final, Protocol
from urllib.parse import urlencode

from attrs import define, field, validators

from trio_mcp.auth.client.token_endpoint import TOKEN_EXCHANGE
from trio_mcp.auth.digests import digest_of
from trio_mcp.auth.fetching import FORM, Fetching
from trio_mcp.auth.scopes import scope_text, scopes_of
from trio_mcp.auth.urls import origin, parsed
from trio_mcp.errors import AuthorizationError, ProviderTokenError
from trio_mcp.public import public_in
from trio_mcp.wire.bounds import is_finite

_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105
_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_MAX_KEPT: Final = 1000
_EARLY: Final = 60.0
"""Seconds before its end at which a token is not used any more."""


class HasProviderToken(Protocol):
    """A `Context`."""

    async def provider_token(self) -> str: ...


@public_in("trio_mcp.auth")
async def provider_token(context: HasProviderToken) -> str:
    """Return the provider's token of the caller, for `openapi(authenticate=provider_token)`.

    Raises:
        RuntimeError: The server has no `OAuthProxy`.
        ProviderTokenError: The login has ended, or the provider cannot be reached.
    """
    return await context.provider_token()


def _is_url(_: object, __: object, url: str) -> None:
    parsed(url, "token_endpoint")


@define(kw_only=True, eq=False, slots=False)
class _Exchange:
    """Exchanges the provider's token of a caller, and keeps what it gets for its time."""

    token_endpoint: str = field(validator=_is_url)
    client_id: str
    client_secret: str = field(repr=False, validator=validators.min_len(1))
    scopes: Collection[str] = field(default=(), converter=scopes_of)
    fetching: Fetching = field(factory=Fetching, repr=False)
    _kept: OrderedDict[str, tuple[str, float]] = field(factory=OrderedDict, init=False, repr=False)

    async def __call__(self, context: HasProviderToken) -> str:
        """Return a token for the caller of a context.

        Raises:
            ProviderTokenError: The login has ended, or no token was given.
        """
        subject = await context.provider_token()
        key = digest_of(subject)
        token, ends = self._kept.get(key, ("", 0.0))
        if time.time() >= ends:
            token, ends = await self._ask(subject)
            self._kept[key] = token, ends
            if len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
        return token

    def _grant(self, subject: str) -> Mapping[str, str]:
        raise NotImplementedError

    async def _ask(self, subject: str) -> tuple[str, float]:
        form = {
            **self._grant(subject),
            "client_id": self.client_id,
            "client_secret": self.client_secret,
        }
        if self.scopes:
            form["scope"] = scope_text(self.scopes)
        content = urlencode(form).encode()
        try:
            fetched = await self.fetching.post(self.token_endpoint, content, FORM, near=None)
        except AuthorizationError as error:
            raise ProviderTokenError(str(error)) from None
        document = fetched.document
        token = document.get("access_token") if isinstance(document, dict) else None
        if fetched.status != HTTPStatus.OK or not isinstance(token, str) or not token:
            where = origin(self.token_endpoint)
            raise ProviderTokenError(f"{where} gives no token on behalf of the caller")
        seconds = document.get("expires_in")
        lasts = float(seconds) - _EARLY if is_finite(seconds) else 0.0
        return token, time.time() + lasts


@public_in("trio_mcp.auth")
@define(kw_only=True, eq=False, slots=False)
class TokenExchange(_Exchange):
    """Gets tokens for another API by exchanging the caller's (RFC 8693).

    For `openapi(authenticate=TokenExchange(...))`, or `await exchange(context)` in a handler.

    Args:
        token_endpoint: Where tokens are exchanged.
        client_id: The id of this server there.
        client_secret: Its secret there.
        audience: The API that the token is for, by name.
        resource: The API that the token is for, by URL.
        scopes: What the token is to allow.
        fetching: How the endpoint is reached.

    Raises:
        ValueError: An option is not usable.
    """

    audience: str | None = None
    resource: str | None = None

    def _grant(self, subject: str) -> Mapping[str, str]:
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "subject_token": subject,
            "subject_token_type": _ACCESS_TOKEN,
            "requested_token_type": _ACCESS_TOKEN,
            "audience": self.audience,
            "resource": self.resource,
        }
        return {name: value for name, value in form.items() if value is not None}


@public_in("trio_mcp.auth")
@define(kw_only=True, eq=False, slots=False)
class OnBehalfOf(_Exchange):
    """Gets tokens for another API on behalf of the caller, as Microsoft Entra does it.

    The provider's token must be for an API of your own (`provider_scopes=["api://…/access"]`).

    Args:
        token_endpoint: `https://login.microsoftonline.com/<tenant>/oauth2/v2.0/token`.
        client_id: The id of the application.
        client_secret: Its secret.
        scopes: Scopes of the other API, such as `https://graph.microsoft.com/Mail.Read`.
        fetching: How the endpoint is reached.

    Raises:
        ValueError: An option is not usable.
    """

    def _grant(self, subject: str) -> Mapping[str, str]:
        return {
            "grant_type": _JWT_BEARER,
            "assertion": subject,
            "requested_token_use": "on_behalf_of",
        }
