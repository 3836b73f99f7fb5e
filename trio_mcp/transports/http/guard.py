"""The checks that come before anything else: host, origin, rate, token.

A web page that a user happens to visit can send requests to servers on the user's own machine,
under any name that its author makes resolve there. So the `Host` has to be one that the server
is meant to be reached by, and the `Origin`, which browsers add, one whose pages may use it.

Guessing tokens is limited like everything else: no token is looked at, not even a right one, that
comes from an address which has used up its rate, or from where too many were wrong. What a right
one costs is its owner's, wherever it comes from.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

import trio
from attrs import evolve

from trio_mcp.auth.authorization import Authorization, with_deadline
from trio_mcp.auth.challenges import INSUFFICIENT_SCOPE, INVALID_TOKEN, Challenge
from trio_mcp.auth.digests import same
from trio_mcp.auth.scopes import scope_text
from trio_mcp.auth.server.credentials import Credentials, Denied
from trio_mcp.auth.urls import origin
from trio_mcp.layers.answering import add_hint
from trio_mcp.loggers import logger_of
from trio_mcp.store.errors import StoreError
from trio_mcp.transports.http.cors import allowing
from trio_mcp.transports.http.policy import HttpPolicy
from trio_mcp.transports.http.proxies import Proxies
from trio_mcp.transports.http.request import HttpRequest, Refusal
from trio_mcp.transports.http.sharing.interface import Sharing
from trio_mcp.wire.bucket import TokenBucket

if TYPE_CHECKING:  # what verifies tokens costs those nothing who need none
    from trio_mcp.auth.server.authenticator import Authenticator
    from trio_mcp.auth.server.resource import VerifyFor

logger = logger_of("trio_mcp.http")

_ANY: Final = "*"
_AUTHORITY: Final = r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{0,5})?"
_HOST: Final = re.compile(_AUTHORITY)
_ORIGIN: Final = re.compile(f"https?://{_AUTHORITY}")
SCRAPES: Final = 10.0
"""How often in a second an address may ask for metrics, where clients have a rate."""
MOST_SCRAPES: Final = 100
_MOST_TOLD: Final = 20
"""So many refused names the log has at most: anybody can make them up."""
_LONGEST_TOLD: Final = 300
_REFUSED_HOST: Final = (
    "A request is refused, as its Host is %r. If this server may be called that, add it to "
    "HttpPolicy(allowed_hosts=...); for trio-mcp serve, it is --allow-host %s"
)
_REFUSED_ORIGIN: Final = (
    "A request is refused, as its Origin is %r. If pages from there may use this server, add it to "
    "HttpPolicy(allowed_origins=...); for trio-mcp serve, it is --allow-origin %s"
)
_LONGEST: Final = 365 * 86_400.0
"""Seconds: the most that `Retry-After` says, however low the rate is."""


class Guard:
    """Refuses requests that the policy does not allow."""

    def __init__(self, policy: HttpPolicy, path: str) -> None:
        self._policy = policy
        self._path = path
        self._authenticator: Authenticator | None = None
        self._scopes: frozenset[str] = frozenset()
        self._hosts = {host.lower() for host in policy.allowed_hosts}
        if policy.auth is not None:
            host = urlsplit(policy.auth.resource).hostname or ""
            self._hosts.add(f"[{host}]" if ":" in host else host)
        self._is_ours = lru_cache(maxsize=64)(self._names_us)  # clients always say the same
        self._origins = {url.lower().rstrip("/") for url in policy.allowed_origins}
        self._proxies = Proxies(policy.trusted_proxies)
        self._asks = policy.asks_for_tokens
        self._told: set[str] = set()
        """What the log has said how to allow."""

    @asynccontextmanager
    async def running(
        self, scopes: frozenset[str], sharing: Sharing, verify: VerifyFor | None
    ) -> AsyncIterator[None]:
        """Be ready to check requests, for the length of the block."""
        policy = self._policy
        self._scopes = scopes if policy.auth is None else scopes | policy.auth.scopes
        self._addresses = _Rate("addresses", policy.rate, policy, sharing)
        self._principals = _Rate("principals", policy.rate, policy, sharing)
        self._guesses = _Rate("guesses", policy.guess_rate, policy, sharing)
        # Of this instance alone: metrics are there when a store is not.
        often = evolve(policy, burst=MOST_SCRAPES)
        self._scrapes = _Rate("scrapes", SCRAPES, often, Sharing())
        if policy.auth is None:
            yield
            return
        from trio_mcp.auth.server.authenticator import authenticating

        shared = sharing.token_records(policy.auth)
        opened = authenticating(policy.auth, scopes, shared=shared, verify=verify)
        async with opened as self._authenticator:
            try:
                yield
            finally:
                self._authenticator = None

    async def check_visitor(self, request: HttpRequest) -> None:
        """Refuse a request to a wrong host (403), or too often from its address (429)."""
        self._check_host(request)
        self._note_address(request)
        if self._policy.rate is not None:
            await self._addresses.take(request.client_address)

    def _note_address(self, request: HttpRequest) -> None:
        headers, forwarded = request.headers, None
        if b"x-forwarded-for" in headers:
            forwarded = headers[b"x-forwarded-for"].decode("latin-1")
        address = self._proxies.network_of(request.peer, forwarded)
        request.client_address = request.owner = address

    def knows(self, request: HttpRequest) -> bool:
        """Note whose a request is, if its head was checked before and nothing else has to be.

        Returns:
            Whether that is so. Otherwise, `check` has to decide.
        """
        visitor = request.head.visitor
        if visitor is None or self._policy.rate is not None:
            return False
        if self._asks:
            authorization = self._known(request)
            if authorization is None:
                return False
            request.client_address, request.answer_headers = visitor
            request.authorize(authorization)
        else:
            request.client_address, request.answer_headers = visitor
            request.owner = request.client_address
        return True

    async def check(self, request: HttpRequest) -> None:
        """Note whose a request is, or refuse it: by host, origin (403), token (401) or rate (429).

        What its token allows is left to `require`.
        """
        self.check_origin(request)
        self._note_address(request)
        request.head.visitor = request.client_address, request.answer_headers
        if self._policy.rate is None:
            if self._asks:
                request.authorize(self._known(request) or await self._authorize(request))
            return
        address = await self._addresses.take(request.client_address)
        # Whatever happens meanwhile, it has been paid for: many guesses at a time cost no less.
        if self._asks:
            request.authorize(self._known(request) or await self._authorize(request))
            address.put_back()
            await self._principals.take(request.owner)

    async def check_scrape(self, request: HttpRequest) -> None:
        """Do the same for what collects metrics, with a rate of its own (429)."""
        self.check_origin(request)
        self._note_address(request)
        if self._policy.rate is not None:
            await self._scrapes.take(request.client_address)
        if self._asks:
            request.authorize(self._known(request) or await self._authorize(request))

    def check_origin(self, request: HttpRequest, *, by_address: bool = False) -> None:
        """Refuse a request to a wrong host, or from a page that is not trusted (403).

        Args:
            request: The request.
            by_address: Whether any address will do for a host, or none at all, as load balancers
                have nothing else. No page can make an address stand for another.
        """
        self._check_host(request, by_address)
        if b"origin" not in request.headers:
            return
        origin = request.headers[b"origin"].decode("latin-1")
        if not self._may_use(origin.lower()):
            self._tell_how(_REFUSED_ORIGIN, origin)
            raise Refusal(403, "Pages of that Origin may not use this server.", reason="origin")
        request.answer_headers += tuple(allowing(origin))

    def _check_host(self, request: HttpRequest, by_address: bool = False) -> None:
        host = request.headers.get(b"host", b"")
        if not (self._is_ours(host) or (by_address and (not host or _is_address(host)))):
            name = _HOST.fullmatch(host.decode("latin-1").lower())
            if name is not None:
                self._tell_how(_REFUSED_HOST, name[1])
            why = "This server is not meant to be reached by that Host name."
            raise Refusal(403, why, reason="host")

    def _tell_how(self, text: str, value: str) -> None:
        """Say in the log, once for each value, what would let it in."""
        if value not in self._told and len(self._told) < _MOST_TOLD and len(value) <= _LONGEST_TOLD:
            self._told.add(value)
            logger.warning(text, value, value)

    def _names_us(self, host: bytes) -> bool:
        name = _HOST.fullmatch(host.decode("latin-1").lower())
        return _ANY in self._hosts or (name is not None and name[1] in self._hosts)

    def _may_use(self, origin: str) -> bool:
        if _ANY in self._origins or origin in self._origins:
            return True
        page = _ORIGIN.fullmatch(origin)
        return page is not None and page[1] in self._hosts

    def require(self, request: HttpRequest, scopes: frozenset[str] = frozenset()) -> None:
        """Refuse a request that was checked, and whose token lacks a scope (403)."""
        authorization, needed = request.authorization, self._scopes | scopes
        if authorization is None or needed <= authorization.scopes:
            return
        if self._authenticator is not None:
            raise _refused(self._authenticator.lacks_scopes(authorization, needed))
        what = "The token does not have the scopes for this."
        raise self._challenge(403, what, INSUFFICIENT_SCOPE, scope_text(needed))

    def _known(self, request: HttpRequest) -> Authorization | None:
        """Return what a token allows that was let in before, if nothing else has to be checked."""
        header = request.headers.get(b"authorization")
        if self._authenticator is None or header is None or request.scope.get("query_string"):
            return None  # in the query there could be a token as well
        return self._authenticator.known(header, request.head.digests)

    async def _authorize(self, request: HttpRequest) -> Authorization:
        try:
            return await self._authorization_of(request)
        except (RuntimeError, TypeError) as error:  # of the author's function that verifies
            add_hint(error)
            raise

    async def _authorization_of(self, request: HttpRequest) -> Authorization:
        policy = self._policy
        if policy.auth is not None:
            return await self._ask(request)
        kind, _, token = (request.header(b"authorization") or "").partition(" ")
        token = token.strip()
        if kind.lower() != "bearer" or not token:
            raise self._challenge(401, "A bearer token is needed.")
        await self._check_guesses(request)
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
        await self._check_guesses(request)
        credentials = Credentials(
            request.method,
            partial(self._urls_of, request),
            request.scope.get("query_string", b"").decode("latin-1"),
            request.header(b"authorization"),
            request.header(b"dpop"),
        )
        try:
            authorization, headers = await self._authenticator.authorize(credentials)
        except Denied as denied:
            if denied.is_guess:
                self._note_guess(request)
            raise _refused(denied) from None
        except StoreError as error:  # the proof may have been used
            logger.warning("%s", error)
            why = "Proofs cannot be checked now; try again with a new one."
            raise Refusal(503, why, [(b"retry-after", b"1")], reason="store") from None
        request.answer_headers += tuple(headers)
        return authorization

    async def _check_guesses(self, request: HttpRequest) -> None:
        if self._policy.guess_rate is not None and request.header(b"authorization") is not None:
            (await self._guesses.take(request.client_address)).put_back()

    def _note_guess(self, request: HttpRequest) -> None:
        # Owed if it must be: many that come at once are all looked at, and have to be paid for.
        if self._policy.guess_rate is not None:
            self._guesses.charge(request.client_address)

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


def _is_address(host: bytes) -> bool:
    name = _HOST.fullmatch(host.decode("latin-1").lower())
    try:
        ip_address(name[1].strip("[]") if name else "")
    except ValueError:
        return False
    return True


def _refused(denied: Denied) -> Refusal:
    return Refusal(denied.status, denied.message, denied.headers)


class _Rate:
    """How much of a rate each client has left."""

    def __init__(self, name: str, rate: float | None, policy: HttpPolicy, sharing: Sharing) -> None:
        self._name = name
        self._buckets = sharing.buckets(name, rate or math.inf, policy.burst, policy.max_clients)

    async def take(self, client: str) -> TokenBucket:
        """Count a request of a client, or refuse it (429); returns where it can be put back."""
        await self._buckets.fill(client)
        bucket = self._buckets.of(client)
        seconds = bucket.wait(trio.current_time())
        if seconds:
            after = b"%d" % math.ceil(min(seconds, _LONGEST))
            why = "Too many requests; wait a little."
            raise Refusal(429, why, [(b"retry-after", after)], reason=f"rate of {self._name}")
        return bucket

    def charge(self, client: str) -> None:
        self._buckets.of(client).charge(trio.current_time())
