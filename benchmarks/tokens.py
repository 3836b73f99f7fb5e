"""Access tokens for the HTTP benchmark: an issuer whose keys our server is given, and clients.

Every header that a request needs is made before the load begins.
"""

import hashlib
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from itertools import count, cycle
from typing import Any

from attrs import field, frozen
from joserfc import jwt
from joserfc.jwk import ECKey

ISSUER = "https://login.example.com"
RESOURCE = "https://mcp.example.com/mcp"
ENVIRONMENT = "BENCHMARK_KEYS"
"""The variable that has the issuer's public keys. A server that finds it protects itself."""

_LIFE = 3600
_CLIENTS = 64
"""Clients that have a DPoP key. One key may have no more than a tenth of the proofs remembered."""

Headers = Mapping[str, str]


def _key() -> ECKey:
    return ECKey.generate_key("P-256", {"kid": "benchmark"})


@frozen
class Issuer:
    """An authorization server, as far as a server that knows its keys sees it."""

    _key: ECKey = field(factory=_key)

    def environment(self) -> dict[str, str]:
        """What a server is started with."""
        return {ENVIRONMENT: json.dumps({"keys": [self._key.as_dict(private=False)]})}

    def token(self, principal: int, key: ECKey | None = None) -> str:
        """Issue a token to one of many, bound to a key if there is one."""
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": ISSUER,
            "aud": RESOURCE,
            "sub": f"user-{principal}",
            "client_id": "benchmark",
            "scope": "mcp",
            "iat": now,
            "exp": now + _LIFE,
            "jti": f"token-{principal}",
        }
        if key is not None:
            claims["cnf"] = {"jkt": key.thumbprint()}
        header = {"alg": "ES256", "typ": "at+jwt", "kid": self._key.kid}
        return jwt.encode(header, claims, self._key, ["ES256"])

    def bearers(self) -> Iterator[Headers]:
        """Yield the headers of one client after the other."""
        return ({"Authorization": f"Bearer {self.token(each)}"} for each in count())

    def provers(self) -> Iterator[Headers]:
        """Yield the headers of requests with a proof each, by some clients in turn."""
        clients = [_key() for _ in range(_CLIENTS)]
        bound = [(key, self.token(number, key)) for number, key in enumerate(clients)]
        for number, (key, token) in enumerate(cycle(bound)):
            yield {"Authorization": f"DPoP {token}", "DPoP": _proof(key, token, number)}


def _proof(key: ECKey, token: str, number: int) -> str:
    digest = hashlib.sha256(token.encode()).digest()
    claims = {
        "htm": "POST",
        "htu": RESOURCE,
        "iat": int(time.time()),
        "jti": f"proof-{number}",
        "ath": urlsafe_b64encode(digest).rstrip(b"=").decode(),
    }
    public = {name: each for name, each in key.as_dict(private=False).items() if name != "kid"}
    return jwt.encode({"alg": "ES256", "typ": "dpop+jwt", "jwk": public}, claims, key, ["ES256"])
