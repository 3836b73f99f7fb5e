"""What is kept of a login: who it is, what the client may do, and the provider's tokens.

    login ──▶ code, a minute, once ──▶ refresh tokens, each in place of the one before ──▶ the end

One entry of the store is one login of one person with one client. A code and the refresh tokens
name it, and say which of them they are; so only the last one is good. A client that has lost an
answer may use the one before for a moment, and gets the same again. An older one, or a code that
comes twice, may be stolen: it ends the login.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, Literal

import trio
from attrs import asdict, define, evolve, field, frozen

from trio_mcp.auth.digests import same
from trio_mcp.auth.proxy.seal import Seal, derived_key
from trio_mcp.store.changes import ABSENT, Conflict, Delete, News, Put
from trio_mcp.store.protocol import Store

CODE_TTL: Final = 60.0
"""Seconds for which a code is good."""
GRACE: Final = 60.0
"""Seconds for which the refresh token before the last one is good."""
MAX_LOGINS: Final = 50
"""Logins of one person. One more ends that which was not used for the longest time."""

_IDLE: Final = 4
"""A login that is not used for this part of its time ends."""


@frozen(kw_only=True)
class ProviderTokens:
    """The tokens that a provider has given for a login."""

    access: str = field(repr=False)
    refresh: str | None = field(default=None, repr=False)
    expires: float | None = None
    """Seconds since 1970; `None` if the provider does not say."""


@frozen(kw_only=True)
class Grant:
    """A login of a person with a client."""

    id: str
    subject: str
    name: str | None
    email: str | None
    claims: dict[str, Any] = field(repr=False)
    client: str
    """The digest of the client's id."""
    scopes: tuple[str, ...]
    redirect: str
    challenge: str = field(repr=False)
    began: float
    used: float
    generation: int = 0
    """How many refresh tokens it has had; 0 as long as its code was not redeemed."""
    tokens: ProviderTokens = field(repr=False)


class Lost(Exception):
    """A login has ended, or was never there."""


Kind = Literal["code", "refresh"]


@define(eq=False, repr=False, slots=False)
class Grants:
    """Keeps logins in a store."""

    store: Store = field(repr=False)
    _partition: str
    """The partition of all keys."""
    _secrets: Sequence[str] = field(repr=False)
    """Seal them, and make their codes and tokens."""
    _ttl: float
    """Seconds after which a login ends, however it is used."""

    def __attrs_post_init__(self) -> None:
        self._seal = Seal(self._secrets, "grants")
        self._keys = [derived_key(secret, "codes and refresh tokens") for secret in self._secrets]

    # -- codes and refresh tokens ---------------------------------------------------------

    def token(self, kind: Kind, id: str, generation: int) -> str:
        """Return a code or a refresh token: always the same one for the same arguments."""
        return f"{id}.{generation}.{self._mac(self._keys[0], kind, id, generation)}"

    def read(self, kind: Kind, token: str) -> tuple[str, int]:
        """Return the login that a code or a refresh token is for, and its generation.

        Raises:
            Lost: It is none of ours.
        """
        id, _, rest = token.partition(".")
        number, _, mac = rest.partition(".")
        if not (number.isascii() and number.isdecimal() and len(number) < 10 and len(id) < 100):
            raise Lost
        known = [self._mac(key, kind, id, int(number)) for key in self._keys]
        if not any(same(mac, good) for good in known):
            raise Lost
        return id, int(number)

    @staticmethod
    def _mac(key: bytes, kind: Kind, id: str, generation: int) -> str:
        return hmac.new(key, f"{kind} {generation} {id}".encode(), sha256).hexdigest()[:43]

    # -- logins ---------------------------------------------------------------------------

    def new_id(self, subject: str) -> str:
        """Return an id for a login of a person."""
        owner = hmac.new(self._keys[0], subject.encode(), sha256).hexdigest()[:32]
        return f"{owner}-{secrets.token_hex(16)}"

    async def begin(self, grant: Grant) -> str:
        """Keep a new login for as long as its code is good; return the code.

        Raises:
            StoreError: The store cannot be used.
        """
        await self._make_room(grant.id)
        value = self._sealed(grant)
        await self.store.commit(Put(self._key(grant.id), value, ttl=CODE_TTL, expect=ABSENT))
        return self.token("code", grant.id, 0)

    async def _make_room(self, id: str) -> None:
        """End the logins of a person that were used least lately, if there are too many."""
        folder = self._key(id).rpartition("/")[0]
        found: list[tuple[bool, float, str]] = []
        cursor: str | None = ""
        while cursor is not None:  # a page has few entries if they are long
            page = await self.store.scan(folder, cursor, limit=MAX_LOGINS)
            for entry in page.entries:
                await trio.lowlevel.checkpoint()  # opening a long one takes its time
                grant = self._opened(entry.value)
                # First those that were begun only: else a page could end all others by beginning.
                found.append(
                    (grant.generation > 0, grant.used, entry.key)
                    if grant
                    else (False, 0.0, entry.key)
                )
            cursor = page.cursor
        for _, _, key in sorted(found)[: max(0, len(found) - MAX_LOGINS + 1)]:
            await self.store.commit(Delete(key), News(key))

    async def get(self, id: str) -> tuple[Grant, int]:
        """Return a login, and its version.

        Raises:
            Lost: It has ended.
            StoreError: The store cannot be used.
        """
        entry = await self.store.get(self._key(id))
        grant = None if entry is None else self._opened(entry.value)
        if entry is None or grant is None or self._left(grant) <= 0:
            raise Lost
        return grant, entry.version

    async def advance(self, grant: Grant, version: int) -> Grant:
        """Go on to the next generation of a login, whose refresh token replaces the one before.

        Raises:
            Conflict: It was changed meanwhile.
            StoreError: The store cannot be used.
        """
        now = time.time()
        if grant.generation == 0:
            grant = evolve(grant, began=now)
        grant = evolve(grant, generation=grant.generation + 1, used=now)
        await self.put(grant, version)
        return grant

    async def put(self, grant: Grant, version: int) -> None:
        """Keep a login that has changed.

        Raises:
            Conflict: It was changed meanwhile.
            StoreError: The store cannot be used.
        """
        key, ttl = self._key(grant.id), CODE_TTL if grant.generation == 0 else self._left(grant)
        value = self._sealed(grant)
        await self.store.commit(Put(key, value, ttl=max(ttl, 1.0), expect=version), News(key))

    async def end(self, id: str) -> None:
        """End a login: none of its tokens is good any more.

        Raises:
            StoreError: The store cannot be used.
        """
        key = self._key(id)
        await self.store.commit(Delete(key), News(key))

    def is_graced(self, grant: Grant, generation: int) -> bool:
        """Whether a refresh token is the one before the last, which was replaced just now."""
        recent = time.time() <= grant.used + GRACE
        return 0 < generation == grant.generation - 1 and recent

    def _left(self, grant: Grant) -> float:
        """Return the seconds until a login ends if it is not used."""
        now = time.time()
        return min(grant.began + self._ttl, grant.used + self._ttl / _IDLE) - now

    # -- renewals, one at a time ----------------------------------------------------------

    async def claim(self, id: str, seconds: float) -> bool:
        """Claim the renewal of a login's tokens; return whether no other instance has it."""
        try:
            await self.store.commit(Put(self._claim(id), b"", ttl=seconds, expect=ABSENT))
        except Conflict:
            return False
        return True

    async def release(self, id: str) -> None:
        """Give a claim back."""
        await self.store.commit(Delete(self._claim(id)), News(self._key(id)))

    def channel(self, id: str) -> str:
        """Return the channel on which changes of a login are posted."""
        return self._key(id)

    # -- entries --------------------------------------------------------------------------

    def _key(self, id: str) -> str:
        owner, _, rest = id.partition("-")
        return f"{self._partition}:grants/{owner}/{rest or '-'}"

    def _claim(self, id: str) -> str:
        return f"{self._partition}:renewals/{id}"

    def _sealed(self, grant: Grant) -> bytes:
        return self._seal.seal(asdict(grant)).encode()

    def _opened(self, value: bytes) -> Grant | None:
        found = self._seal.open(value.decode(), None)
        if found is None:
            return None
        tokens = ProviderTokens(**found.pop("tokens"))
        found["scopes"] = tuple(found["scopes"])
        return Grant(**found, tokens=tokens)
