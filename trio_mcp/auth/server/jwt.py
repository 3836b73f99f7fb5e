"""Access tokens that are JWTs (RFC 9068), signed with keys that the issuer publishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from attrs import frozen

from trio_mcp.auth.authorization import Authorization
from trio_mcp.auth.server.claims import ClaimsCheck
from trio_mcp.auth.server.credentials import TokenRefused
from trio_mcp.auth.server.issuer_keys import IssuerKeys
from trio_mcp.auth.server.keys import BadSignature, read_signed
from trio_mcp.auth.server.resource import ResourceServer

_TYPES: Final = frozenset({"at+jwt", "application/at+jwt", "jwt", "application/jwt", ""})
"""The types of access tokens. RFC 9068 wants the first, and half of all issuers write `JWT`; others
(proofs, logout tokens, security events) are no access tokens, even if they are well signed."""


@frozen
class JwtVerifier:
    """Checks tokens for a server by their issuers' keys; the clock is in seconds since 1970."""

    _server: ResourceServer
    _check: ClaimsCheck
    _issuers: Mapping[str, IssuerKeys]
    _clock: Callable[[], float]

    async def __call__(self, token: str) -> Authorization:
        """Check a token: cheap checks first, and no request for a token of another issuer.

        Raises:
            TokenRefused: It is not valid.
            IssuerUnavailable: The keys cannot be fetched.
        """
        try:
            signed = read_signed(token, self._server.algorithms)
            claims = signed.claims
            kind = signed.header.get("typ", "")
            if not isinstance(kind, str) or kind.lower() not in _TYPES:
                raise TokenRefused("it is no access token by its type")
            issuer = claims.get("iss")
            keys = self._issuers.get(issuer) if isinstance(issuer, str) else None
            if keys is None:
                raise TokenRefused("it is of another issuer")
            signed.verify(await keys.find(signed.header.get("kid"), signed.algorithm))
        except BadSignature as error:
            raise TokenRefused(str(error)) from None
        self._check.audience(claims)
        expires = self._check.times(claims, self._clock())
        return self._check.authorization(claims, keys.issuer, expires)
