"""What issuers have said of tokens, for all instances: one asks, the others read.

Name and key of an entry are made of the token and of the secret by which we ask about it. So the
store alone gives away neither a token nor what it is good for, and write access to it is not enough
to make an answer up.
"""

from __future__ import annotations

import base64
import json
from math import ceil, inf
from typing import Final

import trio
from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from trio_mcp.auth.server.introspection import Answer, Answers
from trio_mcp.auth.server.resource import Introspection
from trio_mcp.loggers import logger_of
from trio_mcp.store.changes import Put
from trio_mcp.store.errors import StoreError
from trio_mcp.store.protocol import Store

logger = logger_of("trio_mcp.http")

_PAUSE: Final = 5.0
"""Seconds for which a store is left alone that could not be used: each try may take as long."""

_PURPOSE: Final = "trio-mcp introspection 1"


class SealedAnswers(Answers):
    """Keeps answers in the store. If it cannot be used, the issuer is asked."""

    def __init__(self, store: Store, how: Introspection) -> None:
        self._store = store
        self._ttl = how.cache_ttl
        self._about = "\0".join((_PURPOSE, how.endpoint, how.client_id)).encode()
        self._secret = how.client_secret
        self._away_until = -inf

    async def find(self, token: str) -> Answer | None:
        if trio.current_time() < self._away_until:
            return None
        key, fernet = self._sealed_by(token)
        try:
            entry = await self._store.get(key)
        except StoreError as error:
            self._away(error)
            return None
        if entry is None:
            return None
        try:
            claims = json.loads(fernet.decrypt(entry.value, ceil(self._ttl)))
        except InvalidToken:  # another issuer's, or put back after its time
            return None
        return Answer(claims, min(entry.ttl, self._ttl))

    async def keep(self, token: str, answer: Answer) -> None:
        if trio.current_time() < self._away_until:
            return
        key, fernet = self._sealed_by(token)
        try:
            value = fernet.encrypt(json.dumps(answer.claims).encode())
            await self._store.commit(Put(key, value, ttl=answer.seconds))
        except StoreError as error:
            self._away(error)

    def _away(self, error: StoreError) -> None:
        logger.warning("What issuers say of tokens is not shared now: %s", error)
        self._away_until = trio.current_time() + _PAUSE

    def _sealed_by(self, token: str) -> tuple[str, Fernet]:
        both = f"{token}\0{self._secret}".encode()
        made = HKDF(SHA256(), length=64, salt=None, info=self._about).derive(both)
        return f"token-{made[:32].hex()}:about", Fernet(base64.urlsafe_b64encode(made[32:]))
