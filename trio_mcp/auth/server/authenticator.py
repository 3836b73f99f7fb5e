"""From the headers of a request to its `Authorization`, or to the refusal that it gets.

    headers ─▶ one well-formed token ─▶ known? ─▶ verified ─▶ its key proved (DPoP) ─▶ authorization

The log names the rule that was broken. The caller learns only that the token was refused.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from typing import Final

import trio
from attrs import field, frozen

from trio_mcp.auth import challenges
from trio_mcp.auth.authorization import Authorization, with_deadline
from trio_mcp.auth.fetching import Fetcher, Fetching
from trio_mcp.auth.server.claims import ClaimsCheck
from trio_mcp.auth.server.credentials import (
    Credentials,
    Denied,
    Header,
    IssuerUnavailable,
    ProofRefused,
    TokenRefused,
)
from trio_mcp.auth.server.dpop import ProofVerifier
from trio_mcp.auth.server.introspection import Answer, Answers, Introspector
from trio_mcp.auth.server.issuer_keys import IssuerKeys
from trio_mcp.auth.server.jwt import JwtVerifier
from trio_mcp.auth.server.metadata import challenges_of
from trio_mcp.auth.server.resource import (
    Introspection,
    ReplayStore,
    ResourceServer,
    Verify,
    VerifyFor,
)
from trio_mcp.auth.server.single_flight import SingleFlight
from trio_mcp.auth.server.token_cache import TokenCache, token_digest
from trio_mcp.background import background_nursery
from trio_mcp.loggers import logger_of

logger = logger_of("trio_mcp.auth")

MAX_TOKEN: Final = 16 * 1024
"""Characters that a token may have."""

_CREDENTIALS: Final = re.compile(r"([A-Za-z]+) +([A-Za-z0-9._~+/-]+=*) *")
_SCHEMES: Final = {"bearer": "Bearer", "dpop": "DPoP"}
_IN_URL: Final = re.compile(r"(?:^|[&;])access_token=")
ISSUER_TIMEOUT: Final = 10.0
"""Seconds that an issuer has to answer, in total."""

_REFUSED_FOR: Final = 10.0
"""Seconds for which the issuer is not asked again about a token that it does not know."""


@frozen
class Shared:
    """What the instances of a server share: proofs, the keys of nonces, answers about tokens."""

    proofs: ReplayStore | None = None
    answers: Answers = field(factory=Answers)
    nonce_keys: Sequence[str] | None = field(default=None, repr=False)


class Authenticator:
    """Authenticates requests by the rules of a `ResourceServer`, for as long as a server runs.

    It needs `scopes` of any request; `verify` is for rules that do not say how tokens are verified.
    """

    def __init__(
        self,
        server: ResourceServer,
        scopes: frozenset[str],
        nursery: trio.Nursery,
        fetcher: Fetcher,
        shared: Shared,
        verify: VerifyFor | None = None,
    ) -> None:
        self._server = server
        self._scopes = scopes
        self._cache = TokenCache(server.max_cached_tokens)
        self._refused_for = 0.0
        self._verify = verify or self._verifier(nursery, fetcher, shared.answers)
        how = server.dpop
        self._is_dpop_required = how is not None and how.required
        self._proofs: ProofVerifier | None = None
        if how is not None:
            self._proofs = ProofVerifier(server, how, shared.proofs, shared.nonce_keys)

    def _verifier(self, nursery: trio.Nursery, fetcher: Fetcher, answers: Answers) -> VerifyFor:
        server, how, check = self._server, self._server.verifier, ClaimsCheck(self._server)
        if isinstance(how, Introspection):
            self._refused_for = min(_REFUSED_FOR, how.cache_ttl)
            asks: SingleFlight[Answer | None] = SingleFlight(nursery)
            post = partial(fetcher.post, near=None)  # the author trusts the issuers
            return Introspector(server, check, how, post, asks, answers)
        if how is not None:
            return _lasting(how, 0.0)
        get, flights = partial(fetcher.get, near=None), SingleFlight[bool](nursery)
        options = (get, flights, server.keys_ttl, fetcher.how.timeout, self._cache.clear)
        keys = {issuer: IssuerKeys(issuer, *options) for issuer in server.issuers}
        return _lasting(JwtVerifier(server, check, keys), inf)

    # -- tokens ---------------------------------------------------------------------------

    def known(self, header: bytes, digests: dict[bytes, bytes]) -> Authorization | None:
        """Return what a request without a proof may do, if its bearer token was verified before.

        If it is not known, `authorize` has to decide. The digest of the connection's last token is
        kept with its header, unless that is too long for one: to hash it takes as long as the rest.
        """
        digest = digests.get(header)
        if digest is None:
            if header[:7].lower() != b"bearer " or len(header) > MAX_TOKEN:
                return None
            digests.clear()
            digest = digests[header] = token_digest(header[7:])
        found = self._cache.good(digest)
        if found is None or found.key_thumbprint is not None or self._is_dpop_required:
            return None
        return found

    async def authorize(self, credentials: Credentials) -> tuple[Authorization, list[Header]]:
        """Authenticate a request.

        Returns:
            What it may do, and headers for the response.

        Raises:
            Denied: It is not let in: 400, 401, or 503 where an issuer does not answer.
        """
        scheme, token = self._token_of(credentials)
        try:
            authorization = await self._known(token)
            headers = await self._prove(authorization, scheme, token, credentials)
        except ProofRefused as refused:
            raise self._proof_refused(refused) from None
        except TokenRefused as refused:
            logger.warning("An access token is refused: %s", refused.rule)
            raise self._invalid_token(scheme) from None
        except IssuerUnavailable as error:
            logger.warning("An access token cannot be checked: %s does not answer", error)
            later = [(b"retry-after", b"10")]
            raise Denied(503, "Tokens cannot be checked now; try again.", later) from None
        return authorization, headers

    def _token_of(self, credentials: Credentials) -> tuple[str, str]:
        value = credentials.authorization
        if _IN_URL.search(credentials.query):  # and so in the logs of every proxy on the way
            logger.warning("An access token is refused: it is in the URL")
            raise self._bad_request("A token belongs into the header Authorization, not the URL.")
        if value is None:
            raise self.challenge(401, "An access token is needed.")
        found = _CREDENTIALS.fullmatch(value) if len(value) <= 2 * MAX_TOKEN else None
        scheme = _SCHEMES.get(found[1].lower()) if found is not None else None
        if found is None and "," in value:  # two headers are joined so, too
            logger.warning("A request is refused: it has more than one Authorization")
            raise self._bad_request("There must be one Authorization header with one token.")
        if found is None or scheme is None or len(found[2]) > MAX_TOKEN:
            logger.warning("An access token is refused: it is not well formed, or too long")
            raise self._invalid_token("Bearer")
        return scheme, found[2]

    async def _known(self, token: str) -> Authorization:
        authorization = self._cache.find(token)
        if authorization is None:
            version, now = self._cache.version, trio.current_time()
            try:
                authorization, seconds = await self._look_at(token)
            except TokenRefused as refused:
                if self._refused_for:
                    self._cache.put(token, refused.rule, now + self._refused_for)
                raise
            if seconds and version == self._cache.version:  # the key was good till now
                self._cache.put(token, authorization, min(authorization.deadline, now + seconds))
        return authorization

    async def _look_at(self, token: str) -> tuple[Authorization, float]:
        found, seconds = await self._verify(token)
        if found is None:
            raise TokenRefused("the author's function does not know it")
        timed = with_deadline(found, time.time() - self._server.leeway)
        if timed is None:
            raise TokenRefused("it has expired")
        return timed, seconds

    # -- proofs ---------------------------------------------------------------------------

    async def _prove(
        self, authorization: Authorization, scheme: str, token: str, credentials: Credentials
    ) -> list[Header]:
        thumbprint = authorization.key_thumbprint
        if thumbprint is None:
            if scheme == "DPoP" or self._is_dpop_required:
                raise TokenRefused("it is not bound to a key")
            return []
        if self._proofs is None or scheme != "DPoP":  # else a stolen one would do
            raise TokenRefused("it is bound to a key, but came as a bearer token")
        if credentials.proof is None:
            raise ProofRefused("there is no proof")
        await self._proofs.verify(
            credentials.proof, token, thumbprint, credentials.method, credentials.urls()
        )
        return self._nonce_headers()

    def _nonce_headers(self) -> list[Header]:
        nonce = None if self._proofs is None else self._proofs.new_nonce()
        return [] if nonce is None else [(b"dpop-nonce", nonce.encode())]

    def _proof_refused(self, refused: ProofRefused) -> Denied:
        logger.warning("A proof is refused: %s", refused.rule)
        error = challenges.USE_NONCE if refused.nonce_needed else challenges.INVALID_PROOF
        denied = self.challenge(401, "The proof is not valid.", error=error, scheme="DPoP")
        denied.headers.extend(self._nonce_headers())
        return denied

    # -- scopes ---------------------------------------------------------------------------

    def lacks_scopes(self, authorization: Authorization, needed: frozenset[str]) -> Denied:
        """Make the refusal (403) that names all scopes that are needed, so one step is enough."""
        logger.info("A request is refused: it needs a scope that its token does not have")
        scheme = "Bearer" if authorization.key_thumbprint is None else "DPoP"
        message = "The access token does not have the scopes that this needs."
        error = challenges.INSUFFICIENT_SCOPE
        return self.challenge(403, message, needed, error=error, scheme=scheme)

    # -- refusals -------------------------------------------------------------------------

    def challenge(
        self,
        status: int,
        message: str,
        scopes: Iterable[str] | None = None,
        *,
        error: str = "",
        scheme: str = "",
    ) -> Denied:
        """Make the refusal that says how to log in."""
        needed = self._scopes if scopes is None else scopes
        value = challenges_of(self._server, needed, error, scheme)
        is_guess = error in (challenges.INVALID_TOKEN, challenges.INVALID_PROOF)
        return Denied(status, message, [(b"www-authenticate", value)], is_guess=is_guess)

    def _invalid_token(self, scheme: str) -> Denied:
        error = challenges.INVALID_TOKEN
        return self.challenge(401, "The access token is not valid.", error=error, scheme=scheme)

    def _bad_request(self, message: str) -> Denied:
        return self.challenge(400, message, error=challenges.INVALID_REQUEST)


def _lasting(verify: Verify, seconds: float) -> VerifyFor:
    async def verify_for(token: str) -> tuple[Authorization | None, float]:
        return await verify(token), seconds

    return verify_for


@asynccontextmanager
async def authenticating(
    server: ResourceServer,
    scopes: frozenset[str] = frozenset(),
    shared: Shared | None = None,
    verify: VerifyFor | None = None,
) -> AsyncIterator[Authenticator]:
    """Make an `Authenticator`, as that class says, for the length of the block.

    It needs the server's own scopes besides the given ones.
    """
    fetching = server.fetching or Fetching(timeout=ISSUER_TIMEOUT)
    # Requests to issuers that are open at the end are cancelled: no call waits for them.
    async with fetching.opened() as fetcher, background_nursery() as nursery:
        needed = server.scopes | scopes
        yield Authenticator(server, needed, nursery, fetcher, shared or Shared(), verify)
