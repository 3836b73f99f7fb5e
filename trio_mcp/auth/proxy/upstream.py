"""The proxy as a client of the provider: where people log in, and the tokens that come of it."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from attrs import define, field, frozen

from trio_mcp.auth.digests import same
from trio_mcp.auth.documents import (
    ClientRegistration,
    DocumentError,
    IssuerMetadata,
    ServerMetadata,
    check_issuer,
    read,
)
from trio_mcp.auth.fetching import FORM, Fetched, Fetcher
from trio_mcp.auth.proxy.grants import ProviderTokens
from trio_mcp.auth.proxy.identity import Identity, identity_of
from trio_mcp.auth.proxy.provider import LoginProvider
from trio_mcp.auth.server.credentials import IssuerUnavailable, TokenRefused
from trio_mcp.auth.server.issuer_keys import IssuerKeys
from trio_mcp.auth.server.keys import BadSignature, read_signed
from trio_mcp.auth.server.resource import ALGORITHMS
from trio_mcp.auth.server.single_flight import SingleFlight
from trio_mcp.auth.urls import BadUrl, check_endpoint, origin, server_metadata_urls
from trio_mcp.errors import AuthorizationError
from trio_mcp.wire.bounds import is_number

_METADATA_TTL: Final = 3600.0
_LEEWAY: Final = 60.0
_LONGEST_TOKEN: Final = 16 * 1024
_MOST_MEMBERS: Final = 64
_TENANT: Final = "{tenantid}"


@frozen
class Endpoints:
    """The endpoints of a provider, and how it calls itself."""

    authorization: str
    token: str
    revocation: str | None
    issuer: str | None
    names_issuer: bool = False
    """Whether its redirects have an `iss` (RFC 9207)."""


class Ended(AuthorizationError):
    """The provider does not renew a login any more."""


@define(eq=False, repr=False)
class Upstream:
    """Makes the requests to a provider, for as long as the server runs."""

    _provider: LoginProvider
    _callback: str
    """Our redirect URI."""
    _fetcher: Fetcher
    _flights: SingleFlight[Any]
    """The requests that several logins wait for."""
    _known: tuple[float, Endpoints] | None = field(default=None, init=False)
    _keys: IssuerKeys | None = field(default=None, init=False)

    # -- where it is ----------------------------------------------------------------------

    async def endpoints(self) -> Endpoints:
        """Return the provider's endpoints, discovered if need be.

        Raises:
            AuthorizationError: They cannot be fetched.
        """
        provider = self._provider
        if provider.issuer is None:
            return Endpoints(
                provider.authorization_endpoint or "",
                provider.token_endpoint or "",
                provider.revocation_endpoint,
                None,
            )
        if self._known is None or self._known[0] <= time.time():
            found = await self._flights.run("metadata", self._discover)
            if isinstance(found, AuthorizationError):
                raise found
            self._known = time.time() + _METADATA_TTL, found
        return self._known[1]

    async def _discover(self) -> Endpoints | AuthorizationError:
        provider, issuer = self._provider, self._provider.issuer
        assert issuer is not None
        try:
            document = await self._metadata(issuer)
            metadata = read(ServerMetadata, document, "the provider's metadata")
            if not provider.any_tenant:
                check_issuer(metadata, issuer)
            # What the author names counts; and the issuer is asked for its keys all the same.
            found = (
                provider.authorization_endpoint or metadata.authorization_endpoint,
                provider.token_endpoint or metadata.token_endpoint,
            )
            for endpoint in found:
                check_endpoint(endpoint or "", metadata.issuer, "an endpoint of the provider")
            self._keys = self._keys_of(read(IssuerMetadata, document, "the provider's metadata"))
        except (AuthorizationError, DocumentError, BadUrl) as error:
            return AuthorizationError(str(error))
        return Endpoints(
            found[0] or "",
            found[1] or "",
            provider.revocation_endpoint or metadata.revocation_endpoint,
            metadata.issuer,
            metadata.authorization_response_iss_parameter_supported,
        )

    async def _metadata(self, issuer: str) -> Any:
        named = self._provider.metadata_url
        urls = server_metadata_urls(issuer)[::-1] if named is None else [named]
        for url in urls:
            fetched = await self._fetcher.get(url, near=None)
            if fetched.status == HTTPStatus.OK:
                return fetched.document
        raise AuthorizationError(f"{origin(urls[0])} answers {fetched.status} for its metadata")

    def _keys_of(self, metadata: IssuerMetadata) -> IssuerKeys:
        if self._keys is not None:
            return self._keys
        return IssuerKeys(
            metadata.issuer,
            partial(self._fetcher.get, near=None),
            self._flights,
            _METADATA_TTL,
            self._fetcher.how.timeout,
            lambda: None,
            metadata.jwks_uri,
        )

    # -- logging in -----------------------------------------------------------------------

    def authorization_parameters(self, state: str, challenge: str, nonce: str) -> dict[str, str]:
        """Return the parameters of the request with which a person is sent to the provider."""
        provider = self._provider
        parameters = {
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": self._callback,
            "scope": " ".join(provider.scopes),
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **provider.parameters,
        }
        if provider.issuer is not None:
            parameters["nonce"] = nonce
        return parameters

    async def redeem(
        self, code: str, verifier: str, nonce: str, iss: str | None
    ) -> tuple[Identity, ProviderTokens]:
        """Redeem a code of the provider; return who has logged in, and the tokens.

        Raises:
            AuthorizationError: It was refused, or what came must not be believed.
        """
        endpoints = await self.endpoints()
        if endpoints.names_issuer and iss != endpoints.issuer:
            raise AuthorizationError("the redirect does not name the provider as its issuer")
        document = await self._token(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self._callback,
                "code_verifier": verifier,
            }
        )
        tokens = self._tokens(document, None)
        claims: Mapping[str, Any] = {}
        if self._provider.issuer is not None:
            claims = await self._claims(document.get("id_token"), nonce)
        return await self._identify(claims, tokens.access), tokens

    async def _identify(self, claims: Mapping[str, Any], token: str) -> Identity:
        identify = self._provider.identify
        if identify is None:
            return identity_of(claims)

        async def get(url: str) -> Any:
            headers = {"Authorization": f"Bearer {token}"}
            fetched = await self._fetcher.get(url, near=None, headers=headers)
            if fetched.status != HTTPStatus.OK:
                raise AuthorizationError(f"{origin(url)} answers {fetched.status}")
            return fetched.document

        try:
            return await identify(claims, get)
        except (AttributeError, KeyError, TypeError) as error:
            why = f"{self._provider.title} says something else of people than expected"
            raise AuthorizationError(why) from error

    async def _claims(self, token: object, nonce: str) -> Mapping[str, Any]:
        """Check an ID token (OpenID Connect Core, section 3.1.3.7); return its claims."""
        if not isinstance(token, str) or len(token) > 4 * _LONGEST_TOKEN:
            raise AuthorizationError("the provider sends no ID token: ask for the scope openid")
        assert self._keys is not None
        try:
            signed = read_signed(token, ALGORITHMS)
            key = await self._keys.find(signed.header.get("kid"), signed.algorithm)
            signed.verify(key)
        except (BadSignature, TokenRefused) as refused:
            raise AuthorizationError(f"the ID token is not the provider's: {refused}") from None
        except IssuerUnavailable:
            raise AuthorizationError("the provider's keys cannot be fetched") from None
        claims = signed.claims
        self._check(claims, nonce)
        return claims

    def _check(self, claims: Mapping[str, Any], nonce: str) -> None:
        endpoints = self._known[1] if self._known is not None else None
        issuer = (endpoints.issuer if endpoints is not None else None) or ""
        issuer = issuer.replace(_TENANT, str(claims.get("tid", "")))
        audience, client = claims.get("aud"), self._provider.client_id
        listed = audience if isinstance(audience, list) else [audience]
        now = time.time()
        expires: Any = claims.get("exp")
        issued: Any = claims.get("iat", 0)
        wrong = {
            "it is of another issuer": claims.get("iss") != issuer,
            "it is for another client": client not in listed
            or (len(listed) > 1 and claims.get("azp") != client),
            "it has expired": not is_number(expires) or now > expires + _LEEWAY,
            "it is not good yet": not is_number(issued) or issued > now + _LEEWAY,
            "it belongs to another login": not same(claims.get("nonce"), nonce),
        }
        for why, is_wrong in wrong.items():
            if is_wrong:
                raise AuthorizationError(f"the ID token is refused: {why}")

    # -- tokens ---------------------------------------------------------------------------

    async def renew(self, tokens: ProviderTokens) -> ProviderTokens:
        """Renew the tokens of a login.

        Raises:
            Ended: The provider does not renew them any more.
            AuthorizationError: It could not be asked.
        """
        if tokens.refresh is None:
            raise Ended("the provider's token has expired, and there is none to renew it with")
        document = await self._token(
            {"grant_type": "refresh_token", "refresh_token": tokens.refresh}
        )
        return self._tokens(document, tokens)

    async def revoke(self, tokens: ProviderTokens) -> None:
        """Have the provider forget the tokens of a login (RFC 7009), if it knows how.

        Raises:
            AuthorizationError: It could not be asked.
        """
        url = (await self.endpoints()).revocation
        if url is not None:
            form, headers = self._identified({"token": tokens.refresh or tokens.access})
            await self._post(url, form, headers)

    async def _token(self, form: Mapping[str, str]) -> dict[str, Any]:
        url = (await self.endpoints()).token
        sent, headers = self._identified(form)
        fetched = await self._post(url, sent, headers)
        document = _document_of(fetched)
        error = document.get("error")
        if fetched.status != HTTPStatus.OK or error is not None:  # GitHub says 200 with an error
            code = error if isinstance(error, str) and len(error) < 100 and error.isascii() else ""
            why = f"{origin(url)} refused with status {fetched.status} {code}".rstrip()
            is_end = code in ("invalid_grant", "bad_refresh_token") and "refresh_token" in form
            raise Ended(why) if is_end else AuthorizationError(why)
        return document

    def _identified(self, form: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        provider = self._provider
        if provider.authenticate == "basic":
            client = ClientRegistration(
                client_id=provider.client_id, client_secret=provider.client_secret
            )
            return dict(form), {"Authorization": client.basic}
        shown = {"client_id": provider.client_id, "client_secret": provider.client_secret}
        return {**form, **shown}, {}

    async def _post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Fetched:
        body = urlencode(form, quote_via=quote).encode()
        return await self._fetcher.post(url, body, {**FORM, **headers}, near=None)

    def _tokens(self, document: Mapping[str, Any], before: ProviderTokens | None) -> ProviderTokens:
        access, refresh = document.get("access_token"), document.get("refresh_token")
        if not isinstance(access, str) or not 0 < len(access) <= _LONGEST_TOKEN:
            raise AuthorizationError("the provider sends no access token")
        if not isinstance(refresh, str) or not 0 < len(refresh) <= _LONGEST_TOKEN:
            refresh = None if before is None else before.refresh
        seconds: Any = document.get("expires_in")
        if isinstance(seconds, str) and seconds.isdecimal():  # as a form has it
            seconds = int(seconds[:12])
        expires = time.time() + seconds if is_number(seconds) else None
        return ProviderTokens(access=access, refresh=refresh, expires=expires)


def _document_of(fetched: Fetched) -> dict[str, Any]:
    """Return the members of a response: JSON, or a form as GitHub sends it unless asked."""
    if fetched.headers.get("content-type", "").startswith(FORM["Content-Type"]):
        pairs = fetched.body.decode("utf-8", "replace").split("&", _MOST_MEMBERS)
        return dict(parse_qsl("&".join(pairs[:_MOST_MEMBERS])))
    document = fetched.document
    return document if isinstance(document, dict) else {}


async def is_allowed(allow: Callable[[Identity], Any] | None, identity: Identity) -> bool:
    """Whether a person may come in."""
    if allow is None:
        return True
    answer = allow(identity)
    return bool(await answer if inspect.isawaitable(answer) else answer)
