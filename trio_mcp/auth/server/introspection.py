"""Tokens that only their issuer can read: ask it (RFC 7662), and keep its answer for a while."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import trio
from attrs import frozen

from trio_mcp.auth.authorization import Authorization
from trio_mcp.auth.documents import ClientRegistration
from trio_mcp.auth.fetching import FORM, Fetched
from trio_mcp.auth.server.claims import ClaimsCheck
from trio_mcp.auth.server.credentials import IssuerUnavailable, TokenRefused
from trio_mcp.auth.server.resource import Introspection, ResourceServer
from trio_mcp.auth.server.single_flight import SingleFlight
from trio_mcp.errors import AuthorizationError
from trio_mcp.loggers import logger_of

logger = logger_of("trio_mcp.auth")

Post = Callable[[str, bytes, dict[str, str]], Awaitable[Fetched]]


@frozen
class Answer:
    """What an issuer says about a token, and for how many seconds since it was asked that holds."""

    claims: dict[str, Any]
    seconds: float


class Answers:
    """Answers that several instances share: here, those of a single one, which shares nothing.

    Its methods raise nothing.
    """

    async def find(self, token: str) -> Answer | None:
        """Return the answer that any instance has, if it still holds."""

    async def keep(self, token: str, answer: Answer) -> None:
        """Share an answer with the other instances."""


@frozen
class Introspector:
    """Asks the issuer about tokens, once for each however many requests bring it."""

    _server: ResourceServer
    _check: ClaimsCheck
    _how: Introspection
    _post: Post
    _flights: SingleFlight[Answer | None]
    _shared: Answers

    async def __call__(self, token: str) -> tuple[Authorization, float]:
        """Check a token, and return what it allows, and for how many seconds that holds.

        Raises:
            TokenRefused: It is not valid.
            IssuerUnavailable: The issuer does not answer.
        """
        answer = await self._flights.run(token, lambda: self._answer(token))
        if answer is None:
            raise IssuerUnavailable(self._how.endpoint)
        claims = answer.claims
        if claims.get("active") is not True:
            raise TokenRefused("its issuer says that it is not active")
        self._check.audience(claims, required=self._how.require_audience)
        expires = self._check.times(claims, time.time(), required=False)
        return self._check.authorization(claims, self._issuer_of(claims), expires), answer.seconds

    def _issuer_of(self, claims: dict[str, Any]) -> str:
        issuers = self._server.issuers
        issuer = claims.get("iss", issuers[0] if len(issuers) == 1 else None)
        if issuer not in issuers:
            raise TokenRefused("it is of another issuer")
        return str(issuer)

    async def _answer(self, token: str) -> Answer | None:
        known = await self._shared.find(token)
        if known is not None:
            return known
        asked = trio.current_time()
        claims = await self._ask(token)
        if claims is None:
            return None
        # Each instance remembers for itself which tokens are not active: guesses fill no store.
        left = self._how.cache_ttl - (trio.current_time() - asked)
        if claims.get("active") is True and left > 0:
            await self._shared.keep(token, Answer(claims, left))
        return Answer(claims, self._how.cache_ttl)

    async def _ask(self, token: str) -> dict[str, Any] | None:
        how = self._how
        client = ClientRegistration(client_id=how.client_id, client_secret=how.client_secret)
        headers = {**FORM, "Authorization": client.basic}
        form = urlencode({"token": token, "token_type_hint": "access_token"}).encode()
        try:
            fetched = await self._post(how.endpoint, form, headers)
        except AuthorizationError as error:
            logger.warning("A token cannot be looked up: %s", error)
            return None
        if fetched.status == HTTPStatus.OK and isinstance(fetched.document, dict):
            return fetched.document
        # The caller chose nothing in the request but the token: if the request is bad, the token
        # is. Some issuers answer so to tokens that are not theirs, such as a JWT.
        if fetched.status == HTTPStatus.BAD_REQUEST:
            return {"active": False}
        logger.warning("A token cannot be looked up: the issuer answers %d", fetched.status)
        return None
