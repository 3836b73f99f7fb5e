"""The keys of an authorization server: found, kept for their time, and fetched again.

      no keys ──fetch──▶ fresh ──their time──▶ stale ──an hour──▶ no keys
                           ▲                     │
                           └──── fetch ──────────┘   meanwhile the old ones are good

However many requests wait, keys are fetched once, in the nursery of the server, so that the fetch
outlives a request that is cancelled. A token with an unknown key makes us fetch again, but only so
often: made-up keys could keep us busy. An issuer that fails is left alone for a while, which grows;
it neither holds up others, nor is any token accepted unchecked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from math import inf
from typing import Any, Final

import trio
from attrs import define, field
from joserfc.jwk import Key

from trio_mcp.auth.documents import DocumentError, IssuerMetadata, check_issuer, read
from trio_mcp.auth.fetching import Fetched
from trio_mcp.auth.server.credentials import IssuerUnavailable, TokenRefused
from trio_mcp.auth.server.keys import PublicKeys
from trio_mcp.auth.server.single_flight import SingleFlight
from trio_mcp.auth.urls import check_endpoint, server_metadata_urls
from trio_mcp.errors import AuthorizationError
from trio_mcp.loggers import logger_of
from trio_mcp.threads import in_thread

logger = logger_of("trio_mcp.auth")

Fetch = Callable[[str], Awaitable[Fetched]]

_LEAST_TTL: Final = 60.0
_STALE: Final = 3600.0
"""Seconds for which keys are good after their time, while new ones cannot be fetched."""
MIN_INTERVAL: Final = 30.0
"""Seconds between two fetches because of unknown keys."""
_LONGEST_PAUSE: Final = 60.0
_MANY_KEYS: Final = 10


@define(eq=False, repr=False)
class IssuerKeys:
    """The keys of one issuer."""

    issuer: str
    _fetch: Fetch
    _flights: SingleFlight[bool]
    _ttl: float  # seconds for which keys are kept
    _timeout: float  # seconds that fetching them may take
    _on_change: Callable[[], None]
    _known_uri: str | None = None  # where the keys are, for who has its metadata already
    _keys: PublicKeys | None = field(default=None, init=False)
    _fetched: float = field(default=-inf, init=False)
    _fresh_until: float = field(default=-inf, init=False)
    _failures: int = field(default=0, init=False)
    _next_try: float = field(default=-inf, init=False)

    async def find(self, kid: object, algorithm: str) -> Key:
        """Return the key with an id.

        Raises:
            TokenRefused: The issuer has no such key.
            IssuerUnavailable: It does not answer.
        """
        now = trio.current_time()
        if self._keys is None or now >= self._fresh_until + _STALE:
            await self._refresh()
        elif now >= self._fresh_until and now >= self._next_try:
            self._flights.begin(self, self._fetch_keys)  # meanwhile, these are good
        key = self._known(kid, algorithm)
        if key is None and trio.current_time() >= self._fetched + MIN_INTERVAL:
            await self._refresh()
            key = self._known(kid, algorithm)
        if key is None:
            raise TokenRefused("no key of its issuer's has its key id")
        return key

    def _known(self, kid: object, algorithm: str) -> Key | None:
        return None if self._keys is None else self._keys.find(kid, algorithm)

    async def _refresh(self) -> None:
        if trio.current_time() < self._next_try:
            raise IssuerUnavailable(self.issuer)
        if not await self._flights.run(self, self._fetch_keys):
            raise IssuerUnavailable(self.issuer)

    async def _fetch_keys(self) -> bool:
        try:
            with trio.fail_after(self._timeout):
                fetched = await self._fetch(await self._jwks_uri())
            keys = await _keys_in(fetched.document)
        except (AuthorizationError, ValueError, trio.TooSlowError) as error:
            self._failures += 1
            self._next_try = trio.current_time() + min(2.0**self._failures, _LONGEST_PAUSE)
            logger.warning("The keys of %s cannot be fetched: %s", self.issuer, error or "too slow")
            return False
        self._take(keys, _max_age(fetched.headers))
        return True

    def _take(self, keys: PublicKeys, max_age: float | None) -> None:
        changed = self._keys is not None and self._keys.thumbprints != keys.thumbprints
        ttl = self._ttl if max_age is None else min(self._ttl, max(max_age, _LEAST_TTL))
        self._keys, self._failures, self._next_try = keys, 0, -inf
        self._fetched = trio.current_time()
        self._fresh_until = self._fetched + ttl
        if changed:
            self._on_change()

    async def _jwks_uri(self) -> str:
        if self._known_uri is not None:
            return self._known_uri
        for url in server_metadata_urls(self.issuer):
            fetched = await self._fetch(url)
            if fetched.status == HTTPStatus.OK:
                metadata = read(IssuerMetadata, fetched.document, "its metadata")
                check_issuer(metadata, self.issuer)
                check_endpoint(metadata.jwks_uri, self.issuer, "its jwks_uri")
                return metadata.jwks_uri
        raise DocumentError(f"it answers {fetched.status} where its metadata should be")


async def _keys_in(document: Any) -> PublicKeys:
    """Read a key set, in a worker thread if it has many keys: large ones take half a ms each."""
    keys = document.get("keys") if isinstance(document, dict) else None
    if isinstance(keys, list) and len(keys) > _MANY_KEYS:
        return await in_thread(PublicKeys.read, document)
    return PublicKeys.read(document)


def _max_age(headers: Mapping[str, str]) -> float | None:
    """Return the seconds for which a response may be kept; `None` if it does not say."""
    for directive in headers.get("cache-control", "").lower().split(","):
        name, _, value = directive.strip().partition("=")
        if name in ("no-store", "no-cache"):
            return 0.0
        if name == "max-age" and value.isdecimal() and len(value) < 10:
            return float(value)
    return None
