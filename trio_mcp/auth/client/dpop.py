"""Make proofs that the sender of a token has its key (DPoP, RFC 9449)."""

from __future__ import annotations

import secrets
import time
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import define, field
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

from trio_mcp.auth.digests import digest_of
from trio_mcp.auth.urls import origin

ALGORITHM: Final = "ES256"
_MOST_NONCE: Final = 1024


@define(eq=False)
class DpopKey:
    """A key, and the nonces that servers want in its proofs.

    Example:
        >>> key = DpopKey()
        >>> key.proof("POST", "https://example.com/token").count(".")
        2
    """

    _key: ECKey = field(factory=lambda: ECKey.generate_key("P-256"), repr=False)
    _nonces: dict[str, str] = field(factory=dict, repr=False)

    @classmethod
    def load(cls, key: dict[str, Any]) -> DpopKey:
        """Load a key as `dump` wrote it; raise `ValueError` if it is none."""
        try:
            loaded = ECKey.import_key(key)
            usable = loaded.is_private and loaded.curve_name == "P-256"
        except (JoseError, ValueError, TypeError):
            usable = False
        if not usable:
            raise ValueError("it is not a private key of P-256")
        return cls(loaded)

    def dump(self) -> dict[str, Any]:
        """Return the private key as a JWK, for a store."""
        return self._key.as_dict(private=True)

    def proof(self, method: str, url: str, token: str | None = None) -> str:
        """Make the proof for one request, with an access token beside it unless it asks for one."""
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": urlsplit(url)._replace(query="", fragment="").geturl(),
            "iat": int(time.time()),
        }
        if token is not None:
            claims["ath"] = digest_of(token)
        nonce = self._nonces.get(origin(url))
        if nonce is not None:
            claims["nonce"] = nonce
        header = {"typ": "dpop+jwt", "alg": ALGORITHM, "jwk": self._key.as_dict(private=False)}
        return jwt.encode(header, claims, self._key, [ALGORITHM])

    def note_nonce(self, url: str, nonce: str | None) -> bool:
        """Keep the nonce that a server sent, and return whether it is a new one."""
        where = origin(url)
        if not nonce or len(nonce) > _MOST_NONCE or self._nonces.get(where) == nonce:
            return False
        self._nonces[where] = nonce
        return True
