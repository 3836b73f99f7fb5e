"""Check proofs that the sender of a token has the key that it is bound to (DPoP, RFC 9449).

A proof is a JWT that names a request and a token, signed by the key that is in its header. It is
good once: used ones are remembered for as long as they would be good.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from trio_mcp.auth.digests import digest_of, same
from trio_mcp.auth.server.claims import is_time
from trio_mcp.auth.server.credentials import ProofRefused
from trio_mcp.auth.server.keys import BadSignature, public_key, read_signed
from trio_mcp.auth.server.resource import DPoP, ReplayStore, ResourceServer
from trio_mcp.auth.urls import BadUrl, origin, parsed
from trio_mcp.store.used import ReplayRecord

MAX_PROOF: Final = 8192
"""Characters that a proof may have."""

_LONGEST_ID: Final = 512


class Nonces:
    """Nonces that carry their own time, sealed, so that they need not be remembered."""

    def __init__(
        self, keys: Sequence[str | bytes] | None, ttl: float, clock: Callable[[], float]
    ) -> None:
        self._fernet = MultiFernet([Fernet(key) for key in keys or [Fernet.generate_key()]])
        self._ttl = ttl
        self._clock = clock

    def new(self) -> str:
        return self._fernet.encrypt_at_time(b"", int(self._clock())).decode()

    def is_good(self, nonce: object) -> bool:
        if not isinstance(nonce, str) or len(nonce) > _LONGEST_ID:
            return False
        try:
            self._fernet.decrypt_at_time(nonce, int(self._ttl), int(self._clock()))
        except (InvalidToken, ValueError):
            return False
        return True


class ProofVerifier:
    """Checks proofs (RFC 9449, section 4.3)."""

    def __init__(
        self,
        server: ResourceServer,
        how: DPoP,
        shared: ReplayStore | None = None,
        nonce_keys: Sequence[str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._server = server
        self._how = how
        self._clock = clock
        record = ReplayRecord(how.max_proofs, how.max_proofs // 10)
        self._store: ReplayStore = how.replay_store or shared or record
        keys = how.nonce_keys or nonce_keys
        self._nonces = Nonces(keys, 2 * how.max_age, clock) if how.nonces else None

    def new_nonce(self) -> str | None:
        """Make a nonce for the next proof; `None` if none is needed."""
        return None if self._nonces is None else self._nonces.new()

    async def verify(
        self, proof: str, token: str, thumbprint: str, method: str, urls: Collection[str]
    ) -> None:
        """Check a proof, beside a token that is bound to the key with a thumbprint.

        Raises:
            ProofRefused: It is not for this request, or was used before.
        """
        if len(proof) > MAX_PROOF:
            raise ProofRefused("the proof is too long")
        claims = self._signed(proof, thumbprint)
        if not same(claims.get("ath"), digest_of(token)):
            raise ProofRefused("the proof is for another token")
        if claims.get("htm") != method:
            raise ProofRefused("the proof is for another method")
        if normalized(claims.get("htu")) not in set(map(normalized, urls)):
            raise ProofRefused("the proof is for another URL")
        if self._nonces is not None and not self._nonces.is_good(claims.get("nonce")):
            raise ProofRefused("the proof has no nonce that is good", nonce_needed=True)
        await self._use(claims, thumbprint)

    def _signed(self, proof: str, thumbprint: str) -> Any:
        try:
            signed = read_signed(proof, self._server.algorithms)
            if signed.header.get("typ") != "dpop+jwt":
                raise ProofRefused("the proof is none by its type")
            key = public_key(signed.header.get("jwk"))
            if not same(key.thumbprint(), thumbprint):
                raise ProofRefused("the proof is by another key")
            signed.verify(key)
        except (BadSignature, ValueError) as error:
            raise ProofRefused(f"the proof is not valid: {error}") from None
        return signed.claims

    async def _use(self, claims: Any, thumbprint: str) -> None:
        made, id = claims.get("iat"), claims.get("jti")
        if not is_time(made):
            raise ProofRefused("the proof does not say when it was made")
        leeway, max_age = self._server.leeway, self._how.max_age
        left = made + max_age + leeway - self._clock()
        if not 0 < left <= max_age + 2 * leeway:
            raise ProofRefused("the proof is too old, or from the future")
        if not isinstance(id, str) or not 0 < len(id) <= _LONGEST_ID:
            raise ProofRefused("the proof has no id that can be remembered")
        if not await self._store.add(thumbprint, id, left):
            raise ProofRefused("the proof was used before, or too many were")


def normalized(url: object) -> str | None:
    """Write a URL without a default port and a slash at its end (RFC 3986, section 6.2.3).

    `None` if it is not a URL, or has a query or a fragment, which a proof must not have.
    """
    try:
        parts = parsed(url, "htu") if isinstance(url, str) and "?" not in url else None
    except BadUrl:
        return None
    return None if parts is None else origin(parts.geturl()) + parts.path.removesuffix("/")
