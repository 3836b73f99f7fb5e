"""Access tokens that are JWTs (RFC 9068), signed with keys that the issuer publishes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from attrs import frozen

from trio_mcp.auth.authorization import Authorization
from trio_mcp.auth.server.claims import ClaimsCheck
from trio_mcp.auth.server.credentials import TokenRefused
from trio_mcp.auth.server.issuer_keys import IssuerKeys
from trio_mcp.auth.server.keys import BadSignature, read_signed
from trio_mcp.auth.server.resource import ResourceServer

_TYPES: Final = frozenset({"at+jwt", "application/at+jwt"})
_LENIENT_TYPES: Final = _TYPES | {"jwt", "application/jwt", ""}
"""The types of access tokens as half of all issuers write them. Others (proofs, logout tokens,
security events) are not access tokens, even if they are well signed."""
_REQUIRED: Final = {"sub": str, "client_id": str, "iat": int | float, "jti": str}
"""Claims of access tokens beside those that are looked at anyway (RFC 9068, section 2.2)."""
_LENIENT: Final = "ResourceServer(lenient_tokens=True) takes such tokens"


@frozen
class JwtVerifier:
    """Checks tokens for a server by their issuers' keys."""

    _server: ResourceServer
    _check: ClaimsCheck
    _issuers: Mapping[str, IssuerKeys]

    async def __call__(self, token: str) -> Authorization:
        """Check a token: cheap checks first, and no request for a token of another issuer.

        Raises:
            TokenRefused: It is not valid.
            IssuerUnavailable: The keys cannot be fetched.
        """
        try:
            signed = read_signed(token, self._server.algorithms)
            claims = signed.claims
            self._check_type(signed.header.get("typ", ""))
            issuer = claims.get("iss")
            keys = self._issuers.get(issuer) if isinstance(issuer, str) else None
            if keys is None:
                raise TokenRefused("it is of another issuer")
            signed.verify(await keys.find(signed.header.get("kid"), signed.algorithm))
        except BadSignature as error:
            raise TokenRefused(str(error)) from None
        self._check.audience(claims)
        expires = self._check.times(claims, time.time())
        for name, kind in () if self._server.lenient_tokens else _REQUIRED.items():
            if not (isinstance(claims.get(name), kind) and claims[name]):
                raise TokenRefused(f"it has no {name}, which RFC 9068 requires; {_LENIENT}")
        return self._check.authorization(claims, keys.issuer, expires)

    def _check_type(self, kind: object) -> None:
        kind = kind.lower() if isinstance(kind, str) else None
        if kind not in (_LENIENT_TYPES if self._server.lenient_tokens else _TYPES):
            hint = f" (at+jwt, RFC 9068); {_LENIENT}" if kind in _LENIENT_TYPES else ""
            raise TokenRefused(f"it is not an access token by its type{hint}")
