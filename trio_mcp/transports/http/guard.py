"""The checks that come before anything else: host, origin, rate, token.

A web page that a user happens to visit can send requests to servers on the user's own machine,
under any name that its author makes resolve there. So the `Host` has to be one that the server
is meant to be reached by, and the `Origin`, which browsers add, one whose pages may use it.

Guessing tokens is limited like everything else: no token is looked at, not even a right one, that
comes from an address which has used up its rate, or from where too many were wrong. What a right
one costs is its owner's, wherever it comes from.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

import trio

from trio_mcp.auth.authorization import Authorization, with_deadline
from trio_mcp.auth.challenges import INSUFFICIENT_SCOPE, INVALID_TOKEN, Challenge
from trio_mcp.auth.digests import same
from trio_mcp.auth.scopes import scope_text
from trio_mcp.auth.server.credentials import Credentials, Denied
from trio_mcp.auth.urls import origin
from trio_mcp.store.errors import StoreError
from trio_mcp.transports.http.cors import allowing
from trio_mcp.transports.http.policy import HttpPolicy
from trio_mcp.transports.http.proxies import Proxies
from trio_mcp.transports.http.request import HttpRequest, Refusal
from trio_mcp.wire.bucket import TokenBucket, TokenBuckets

if TYPE_CHECKING:  # what verifies tokens costs those nothing who need none
    from trio_mcp.auth.server.authenticator import Authenticator, Shared
    from trio_mcp.auth.server.resource import ResourceServer
    from trio_mcp.store.protocol import Store
    from trio_mcp.store.rates import SharedBuckets

logger = logging.getLogger("trio_mcp.http")

_ANY: Final = "*"
_AUTHORITY: Final = r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{0,5})?"
_HOST: Final = re.compile(_AUTHORITY)
_ORIGIN: Final = re.compile(f"https?://{_AUTHORITY}")
_LONGEST: Final = 365 * 86_400.0
"""Seconds: nobody is told to wait for longer, however low the rate is."""


class Guard:
    """Refuses requests that the policy does not allow.

    Args:
        policy: What is allowed.
        path: The path of the MCP endpoint.
    """

    def __init__(self, policy: HttpPolicy, path: str) -> None:
        self._policy = policy
        self._path = path
        self._authenticator: Authenticator | None = None
        self._scopes: frozenset[str] = frozenset()
        self._hosts = {each.lower() for each in policy.allowed_hosts}
        if policy.auth is not None:
            host = urlsplit(policy.auth.resource).hostname or ""
            self._hosts.add(f"[{host}]" if ":" in host else host)
        self._is_ours = lru_cache(maxsize=64)(self._names_us)  # clients always say the same
        self._origins = {each.lower().rstrip("/") for each in policy.allowed_origins}
        self._proxies = Proxies(policy.trusted_proxies)
        self._addresses = _Rates(policy.rate or math.inf, policy)
        self._principals = _Rates(policy.rate or math.inf, policy)
        self._guesses = _Rates(policy.guess_rate or math.inf, policy)
        self._shares = False

    @asynccontextmanager
    async def running(
        self, scopes: frozenset[str], store: Store | None = None, name: str = ""
    ) -> AsyncIterator[None]:
        """Be ready to ask authorization servers, for the length of the block.

        Args:
            scopes: What a token must allow for any request.
            store: What other instances share with this one.
            name: What is served, which others that have the same store may not serve.
        """
        self._scopes = scopes
        self._shares = store is not None
        if store is not None:
            self._addresses.share(store, f"{name}: addresses")
            self._principals.share(store, f"{name}: principals")
            self._guesses.share(store, f"{name}: guesses")
        if self._policy.auth is None:
            yield
            return
        from trio_mcp.auth.server.authenticator import Shared, authenticating

        shared = Shared() if store is None else _shared(self._policy.auth, store)
        async with authenticating(self._policy.auth, scopes, shared=shared) as self._authenticator:
            try:
                yield
            finally:
                self._authenticator = None

    async def check(self, request: HttpRequest) -> None:
        """Let a request pass, and note whose it is. What its token allows is left to `require`.

        Raises:
            Refusal: It is not allowed: 403 (host, origin), 401 (token), or 429 (rate).
        """
        self.check_origin(request)
        forwarded = request.header(b"x-forwarded-for")
        request.party = self._proxies.party_of(request.peer, forwarded)
        if self._policy.rate is None:
            request.authorization = await self._authorize(request)
            return
        if self._shares:
            await self._addresses.fill(request.party)
        address = self._addresses.take(request.party)
        # Whatever happens meanwhile, it has been paid for: many guesses at a time cost no less.
        request.authorization = await self._authorize(request)
        if request.principal is not None:
            address.put_back()
            if self._shares:
                await self._principals.fill(request.principal)
            self._principals.take(request.principal)

    def check_origin(self, request: HttpRequest) -> None:
        """Let a request pass that comes to the right host, and from no page or a trusted one.

        Raises:
            Refusal: It is not allowed (403).
        """
        if not self._is_ours(request.headers.get(b"host", b"")):
            raise Refusal(403, "This server is not meant to be reached by that Host name.")
        origin = request.header(b"origin")
        if origin is None:
            return
        if not self._may_use(origin.lower()):
            raise Refusal(403, "Pages of that Origin may not use this server.")
        request.answer_headers += allowing(origin)

    def _names_us(self, host: bytes) -> bool:
        name = _HOST.fullmatch(host.decode("latin-1").lower())
        return _ANY in self._hosts or (name is not None and name[1] in self._hosts)

    def _may_use(self, origin: str) -> bool:
        if _ANY in self._origins or origin in self._origins:
            return True
        page = _ORIGIN.fullmatch(origin)
        return page is not None and page[1] in self._hosts

    def require(self, request: HttpRequest, scopes: frozenset[str] = frozenset()) -> None:
        """Let a request pass that was checked, and whose token allows what it needs.

        Args:
            request: The request.
            scopes: What it needs besides what any request needs.

        Raises:
            Refusal: A scope is missing (403).
        """
        authorization = request.authorization
        if authorization is None:
            return
        if self._authenticator is not None:
            self._let_in(self._authenticator, authorization, scopes)
            return
        needed = self._scopes | scopes
        if not needed <= authorization.scopes:
            what = "The token does not have the scopes for this."
            raise self._challenge(403, what, INSUFFICIENT_SCOPE, scope_text(needed))

    def _let_in(
        self, authenticator: Authenticator, authorization: Authorization, scopes: frozenset[str]
    ) -> None:
        try:
            authenticator.require(authorization, scopes)
        except Denied as denied:
            raise Refusal(denied.status, denied.message, denied.headers) from None

    async def _authorize(self, request: HttpRequest) -> Authorization | None:
        policy = self._policy
        if policy.auth is not None:
            return await self._ask(request)
        if not policy.asks_for_tokens_of_its_own:
            return None
        kind, _, token = (request.header(b"authorization") or "").partition(" ")
        token = token.strip()
        if kind.lower() != "bearer" or not token:
            raise self._challenge(401, "A bearer token is needed.")
        if self._shares:
            await self._fill_guesses(request)
        self._check_guesses(request)
        found = await policy.verify(token) if policy.verify else self._owner_of(token)
        if found is None:
            self._note_guess(request)
            raise self._challenge(401, "The bearer token is not valid.", INVALID_TOKEN)
        if not isinstance(found, Authorization):
            return Authorization(subject=found)
        timed = with_deadline(found, time.time())
        if timed is None:
            raise self._challenge(401, "The bearer token has expired.", INVALID_TOKEN)
        return timed

    async def _ask(self, request: HttpRequest) -> Authorization:
        assert self._authenticator is not None
        if not request.scope.get("query_string"):  # in which there could be a token as well
            known = self._authenticator.known(request.header(b"authorization"))
            if known is not None:
                return known
        if self._shares:
            await self._fill_guesses(request)
        self._check_guesses(request)
        credentials = self._credentials(request)
        try:
            authorization, headers = await self._authenticator.authorize(credentials)
        except Denied as denied:
            if denied.is_guess:
                self._note_guess(request)
            raise Refusal(denied.status, denied.message, denied.headers) from None
        except StoreError as error:  # nobody knows whether the proof was used: it may have been
            logger.warning("%s", error)
            why = "Proofs cannot be checked now; try again with a new one."
            raise Refusal(503, why, [(b"retry-after", b"1")]) from None
        request.answer_headers += headers
        return authorization

    async def _fill_guesses(self, request: HttpRequest) -> None:
        if self._policy.guess_rate is not None and request.header(b"authorization") is not None:
            await self._guesses.fill(request.party)

    def _check_guesses(self, request: HttpRequest) -> None:
        """Let a token be looked at, unless too many from its address were wrong.

        Raises:
            Refusal: There were (429).
        """
        if self._policy.guess_rate is not None and request.header(b"authorization") is not None:
            self._guesses.take(request.party).put_back()

    def _note_guess(self, request: HttpRequest) -> None:
        # Owed if it must be: many that come at once are all looked at, and have to be paid for.
        if self._policy.guess_rate is not None:
            self._guesses.charge(request.party)

    def _credentials(self, request: HttpRequest) -> Credentials:
        return Credentials(
            request.method,
            partial(self._urls_of, request),
            request.scope.get("query_string", b"").decode("latin-1"),
            request.header(b"authorization"),
            request.header(b"dpop"),
        )

    def _urls_of(self, request: HttpRequest) -> list[str]:
        """The URL of a request as its client knows it, which proxies in between may rewrite."""
        assert self._policy.auth is not None
        resource = self._policy.auth.resource
        url = origin(resource) + quote(request.scope["path"])
        return [resource, url] if request.path == self._path else [url]

    def _owner_of(self, token: str) -> str | None:
        """Look a token up in a time that does not tell how much of it was right."""
        owner = None
        for known, principal in self._policy.tokens.items():
            if same(token, known):
                owner = principal
        return owner

    def _challenge(self, status: int, message: str, error: str = "", scope: str = "") -> Refusal:
        about = {"realm": self._policy.realm, "error": error, "scope": scope}
        challenge = str(Challenge("Bearer", about))
        return Refusal(status, message, [(b"www-authenticate", challenge.encode())])


def _shared(server: ResourceServer, store: Store) -> Shared:
    """What the instances of a protected server know together, by way of their store."""
    from trio_mcp.auth.server.authenticator import Shared
    from trio_mcp.auth.server.resource import Introspection

    proofs, answers, how = None, None, server.dpop
    if how is not None:
        from trio_mcp.transports.http.sharing.used import UsedOnce

        longest = how.max_age + 2 * server.leeway
        proofs = UsedOnce(store, "proofs", max(1, how.max_proofs // 10), longest)
    if isinstance(server.verifier, Introspection):
        from trio_mcp.transports.http.sharing.answers import SealedAnswers

        answers = SealedAnswers(store, server.verifier)
    return Shared(proofs, answers)


class _Rates:
    """How much of its rate each client has left."""

    def __init__(self, rate: float, policy: HttpPolicy) -> None:
        self._bounds = (rate, policy.burst, policy.max_clients)
        self._buckets: TokenBuckets | SharedBuckets = TokenBuckets(*self._bounds)
        self._shared: SharedBuckets | None = None

    def share(self, store: Store, name: str) -> None:
        """Count together with other instances; then `fill` before each `take`."""
        from trio_mcp.store.rates import SharedBuckets

        if self._bounds[0] < math.inf:
            self._buckets = self._shared = SharedBuckets(*self._bounds, store, name)

    async def fill(self, client: str) -> None:
        """Have what other instances leave of the rate of a client."""
        if self._shared is not None:
            await self._shared.fill(client)

    def take(self, client: str) -> TokenBucket:
        """Count a request of a client; returns where it can be put back.

        Raises:
            Refusal: There were too many (429).
        """
        bucket: TokenBucket = self._buckets.of(client)
        seconds = bucket.wait(trio.current_time())
        if seconds:
            after = b"%d" % math.ceil(min(seconds, _LONGEST))
            raise Refusal(429, "Too many requests; wait a little.", [(b"retry-after", after)])
        return bucket

    def charge(self, client: str) -> None:
        """Count something whether there were too many or not."""
        self._buckets.of(client).charge(trio.current_time())
