"""The keys that sign access tokens: made here, kept in the store, sealed, and replaced in time."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import define, field
from joserfc import jwt
from joserfc.jwk import ECKey

from trio_mcp.auth.proxy.seal import Seal
from trio_mcp.auth.server.credentials import TokenRefused
from trio_mcp.auth.server.keys import BadSignature, read_signed
from trio_mcp.store.changes import ABSENT, Conflict, Put
from trio_mcp.store.protocol import Store

_ALGORITHM: Final = "ES256"
_ROTATE_AFTER: Final = 90 * 86_400.0
"""Seconds for which a key signs."""
_FOREVER: Final = 10 * 365 * 86_400.0
_MIN_INTERVAL: Final = 5.0
"""Seconds between two looks into the store because of unknown keys."""


@define(eq=False)
class SigningKeys:
    """Signs tokens, and knows those that were signed here or at another instance.

    Args:
        store: Where the keys are kept.
        entry: The entry that has them.
        seal: Seals them.
        keep: Seconds for which a key is known after it has signed its last token.
        clock: Seconds since 1970.
    """

    _store: Store
    _entry: str
    _seal: Seal
    _keep: float
    _clock: Callable[[], float] = time.time
    _kept: list[dict[str, Any]] = field(factory=list, init=False, repr=False)
    _keys: dict[str, ECKey] = field(factory=dict, init=False, repr=False)
    _looked: float = field(default=0.0, init=False)

    async def sign(self, claims: Mapping[str, Any]) -> str:
        """Return an access token (RFC 9068).

        Raises:
            StoreError: The keys cannot be read.
        """
        if self._is_due():
            await self._renew()
        kid = self._kept[-1]["kid"]
        header = {"alg": _ALGORITHM, "kid": kid, "typ": "at+jwt"}
        return jwt.encode(header, dict(claims), self._keys[kid], [_ALGORITHM])

    async def verify(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token that was signed with one of the keys.

        Raises:
            TokenRefused: It was not.
            StoreError: The keys cannot be read.
        """
        try:
            signed = read_signed(token, (_ALGORITHM,))
            kid = signed.header.get("kid")
            if kid not in self._keys and self._clock() >= self._looked + _MIN_INTERVAL:
                await self._load()
            key = self._keys.get(kid) if isinstance(kid, str) else None
            if key is None or signed.header.get("typ") != "at+jwt":
                raise TokenRefused("it was not signed here")
            signed.verify(key)
        except BadSignature as refused:
            raise TokenRefused(str(refused)) from None
        return signed.claims

    async def public(self) -> dict[str, Any]:
        """Return the key set that is published (RFC 7517)."""
        await self._load()
        shown = [
            {**key.as_dict(private=False), "use": "sig", "alg": _ALGORITHM, "kid": kid}
            for kid, key in self._keys.items()
        ]
        return {"keys": shown}

    async def _load(self) -> int:
        """Take what the store has; return the version of that."""
        self._looked = self._clock()
        entry = await self._store.get(self._entry)
        if entry is None:
            return ABSENT
        # What another secret has sealed is replaced: it is of no more use.
        self._take(self._seal.open(entry.value.decode(), None) or [])
        return entry.version

    def _is_due(self) -> bool:
        return not self._kept or self._clock() >= self._kept[-1]["made"] + _ROTATE_AFTER

    async def _renew(self) -> None:
        version = await self._load()
        while self._is_due():
            now = self._clock()
            kept = [key for key in self._kept if now < key["made"] + _ROTATE_AFTER + self._keep]
            made = ECKey.generate_key("P-256", private=True).as_dict(private=True)
            kept.append({"kid": secrets.token_hex(8), "made": now, "jwk": made})
            value = self._seal.seal(kept).encode()
            try:
                await self._store.commit(Put(self._entry, value, ttl=_FOREVER, expect=version))
            except Conflict:  # another instance has made one at the same time
                version = await self._load()
            else:
                self._take(kept)

    def _take(self, kept: list[dict[str, Any]]) -> None:
        self._kept = kept
        self._keys = {key["kid"]: ECKey.import_key(key["jwk"]) for key in kept}
