"""Tokens that only their issuer can read: it is asked (RFC 7662), and its answer kept a while."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import urlencode

import trio
from attrs import frozen

from trio_mcp.auth.authorization import Authorization
from trio_mcp.auth.documents import ClientRegistration
from trio_mcp.auth.fetching import Fetched
from trio_mcp.auth.server.claims import ClaimsCheck
from trio_mcp.auth.server.refusals import IssuerUnavailable, TokenRefused
from trio_mcp.auth.server.resource import Introspection, ResourceServer
from trio_mcp.auth.server.single_flight import SingleFlight
from trio_mcp.errors import AuthorizationError

logger = logging.getLogger("trio_mcp.auth")

Post = Callable[[str, bytes, dict[str, str]], Awaitable[Fetched]]


@frozen
class Answer:
    """What an issuer says of a token."""

    claims: dict[str, Any]
    seconds: float
    """How long that is good, counted from when it was asked for."""


class SharedAnswers(Protocol):
    """What the issuer has told any of several instances."""

    async def find(self, token: str) -> Answer | None:
        """Return what another one was told, if that is good still. It raises nothing."""

    async def keep(self, token: str, answer: Answer) -> None:
        """Let others know. It raises nothing."""


class Introspector:
    """Asks the issuer about tokens, each once however many requests bring it.

    Args:
        server: Whose tokens they are to be.
        how: Where to ask.
        post: Posts something.
        flights: Do so once for all who wait.
        clock: Seconds since 1970.
        shared: What other instances were told, if there are others.
    """

    def __init__(
        self,
        server: ResourceServer,
        how: Introspection,
        post: Post,
        flights: SingleFlight[Answer | None],
        clock: Callable[[], float] = time.time,
        shared: SharedAnswers | None = None,
    ) -> None:
        self._server = server
        self._how = how
        self._post = post
        self._flights = flights
        self._check = ClaimsCheck(server)
        self._clock = clock
        self._shared = shared
        client = ClientRegistration(client_id=how.client_id, client_secret=how.client_secret)
        self._headers = {
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
            "Authorization": client.basic,
        }

    async def __call__(self, token: str) -> tuple[Authorization, float]:
        """Check a token.

        Returns:
            What it is good for, and for how many seconds that can be taken as known.

        Raises:
            TokenRefused: It is not valid.
            IssuerUnavailable: The issuer does not say.
        """
        answer = await self._flights.run(token, lambda: self._answer(token))
        if answer is None:
            raise IssuerUnavailable(self._how.endpoint)
        claims = answer.claims
        if claims.get("active") is not True:
            raise TokenRefused("its issuer says that it is not active")
        self._check.audience(claims, required=self._how.require_audience)
        expires = self._check.times(claims, self._clock(), required=False)
        return self._check.authorization(claims, self._issuer_of(claims), expires), answer.seconds

    def _issuer_of(self, claims: dict[str, Any]) -> str:
        issuers = self._server.issuers
        issuer = claims.get("iss", issuers[0] if len(issuers) == 1 else None)
        if issuer not in issuers:
            raise TokenRefused("it is of another issuer")
        return str(issuer)

    async def _answer(self, token: str) -> Answer | None:
        """Find out what the issuer says, unless another instance was told lately."""
        known = None if self._shared is None else await self._shared.find(token)
        if known is not None:
            return known
        asked = trio.current_time()
        claims = await self._ask(token)
        if claims is None:
            return None
        # Of tokens that are not active, each instance knows by itself: guesses fill no store.
        left = self._how.cache_ttl - (trio.current_time() - asked)
        if self._shared is not None and claims.get("active") is True and left > 0:
            await self._shared.keep(token, Answer(claims, left))
        return Answer(claims, self._how.cache_ttl)

    async def _ask(self, token: str) -> dict[str, Any] | None:
        form = urlencode({"token": token, "token_type_hint": "access_token"}).encode()
        try:
            fetched = await self._post(self._how.endpoint, form, self._headers)
        except AuthorizationError as error:
            logger.warning("A token cannot be looked up: %s", error)
            return None
        if fetched.status == HTTPStatus.OK and isinstance(fetched.document, dict):
            return fetched.document
        # Nothing in the request is of a caller's choice but the token: if the request is bad,
        # the token is. Some issuers answer so to what is no token of theirs, such as a JWT.
        if fetched.status == HTTPStatus.BAD_REQUEST:
            return {"active": False}
        logger.warning("A token cannot be looked up: the issuer answers %d", fetched.status)
        return None
