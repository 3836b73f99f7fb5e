"""What all ways to get a token have in common: when to get one, and what to send.

An `AuthorizationFlow` is an `httpx2.Auth`: it puts a token on each request, and if the server
refuses it, gets another and sends the request again. The first task that needs a token takes the
resource's lock and gets it; all others wait for the lock, and then have the token. If the first is
cancelled, the next takes its place; if it fails, those that waited fail with it, so that a person
is not asked once for each of them.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
import trio
from attrs import Factory, define, evolve, field

from trio_mcp.auth.challenges import INSUFFICIENT_SCOPE, USE_NONCE, Challenge, parse_challenges
from trio_mcp.auth.client.access import Access, closest, key_of
from trio_mcp.auth.client.discovery import Discovered, discover, elsewhere, server_metadata
from trio_mcp.auth.client.dpop import ALGORITHM, DpopKey
from trio_mcp.auth.client.stores import Login, MemoryStore, TokenStore
from trio_mcp.auth.client.token_endpoint import Form, Signer, TokenEndpoint, redacted
from trio_mcp.auth.client.tokens import Token
from trio_mcp.auth.documents import ClientRegistration, ServerMetadata
from trio_mcp.auth.fetching import Fetching
from trio_mcp.auth.scopes import is_scope
from trio_mcp.auth.urls import origin
from trio_mcp.background import background_nursery
from trio_mcp.errors import AuthorizationError
from trio_mcp.system.responses import drain

MAX_LOGINS: Final = 3
"""Logins for one request: the first one, and as scopes turn out to be missing."""
_MOST_SENDS: Final = 8
"""Times that one request is sent, if other tasks change the token meanwhile."""
_GRACE: Final = 2.0
"""Seconds that an authorization server still has to give a token after all tasks were cancelled."""
_MOST_SCOPE_CHARS: Final = 4096
"""Characters of all scopes together, which have to fit into a URL."""
_OURS: Final = ("bearer", "dpop")
_SPENT: Final = ("invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope")
"""The errors by which a refresh is refused for good."""


@define(eq=False, kw_only=True, slots=False)
class AuthorizationFlow(httpx2.Auth, ABC):
    """A way to get tokens, which subclasses complete. They say what its options are."""

    scopes: Sequence[str] | None = None
    issuer: str | None = None
    store: TokenStore = Factory(MemoryStore)
    dpop: bool | None = None
    fetching: Fetching = Factory(Fetching)
    _sign: Signer | None = field(default=None, init=False, repr=False)
    _bound_to: str | None = field(default=None, init=False, repr=False)
    _accesses: list[Access] = field(factory=list, init=False, repr=False)
    _opening: trio.Lock = field(factory=trio.Lock, init=False, repr=False)

    # -- what subclasses decide --------------------------------------------------------------------

    @abstractmethod
    async def _grant(
        self, found: Discovered, asked: tuple[str, ...], access: Access
    ) -> tuple[ClientRegistration | None, Form]:
        """Return the client and the form of the request for a token."""

    @abstractmethod
    def _is_ours(self, login: Login) -> bool:
        """Whether a login in the store was got in this way."""

    @property
    @abstractmethod
    def _is_arranged(self) -> bool:
        """Whether our credentials are for one authorization server only."""

    def _with_defaults(self, scopes: tuple[str, ...], server: ServerMetadata) -> tuple[str, ...]:
        """Add the scopes that this way always wants."""
        return scopes

    # -- requests ----------------------------------------------------------------------------------

    def sync_auth_flow(self, request: httpx2.Request) -> Any:
        raise RuntimeError(f"{type(self).__name__} needs httpx2.AsyncClient, on Trio")

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with a token, and again with another as long as that may help.

        If the server still refuses in the end, that is the response, unless scopes are missing.

        Raises:
            AuthorizationError: No token was granted, or none with the scopes.
        """
        url = str(request.url.copy_with(query=None, fragment=None))
        access = await self._access_to(url)
        token = await self._ready(access)
        entries, nonces = 0, 0
        for _ in range(_MOST_SENDS):
            _present(request, url, token, access.key)
            response = yield request
            access.answered_from = _address_of(response)
            nonce = response.headers.get("dpop-nonce")
            is_new = access.key is not None and access.key.note_nonce(url, nonce)
            challenge = _challenge_of(response)
            if challenge is None:
                return
            if challenge.error == USE_NONCE and is_new and nonces < MAX_LOGINS:
                nonces += 1
                await drain(response)
                continue
            is_known = access.token is token
            if is_known and not self._may_help(access, token, challenge, entries):
                _check_scopes(access, token, challenge)
                return
            await drain(response)
            entries += is_known
            token = await self._renewed(access, token, challenge)

    def _may_help(
        self, access: Access, token: Token | None, challenge: Challenge, entries: int
    ) -> bool:
        """Whether another token may change the server's answer."""
        if entries >= MAX_LOGINS:
            return False
        if challenge.error != INSUFFICIENT_SCOPE or token is None:
            return True
        # Scopes that were asked for and not given will not be given the next time either; and a
        # person who has just denied them is not asked again by the next call.
        asked = access.login.scopes if access.login is not None else ()
        return not set(challenge.scopes) <= {*asked, *access.denied(trio.current_time())}

    async def _access_to(self, url: str) -> Access:
        """Find the state of our access to a server: in memory, in the store, or a new one."""
        async with self._opening:
            known = closest(self._accesses, url)
            if known is None:
                login = closest(await self._usable_logins(), url)
                known = Access(url, login, key=key_of(login))
                self._accesses.append(known)
            return known

    async def _usable_logins(self) -> list[Login]:
        return [
            login
            for login in await self.store.load()
            if self._is_ours(login) and self.issuer in (None, login.issuer)
        ]

    # -- tokens ------------------------------------------------------------------------------------

    async def _ready(self, access: Access) -> Token | None:
        """Return the token to send, renewed if it is about to expire."""
        token = access.token
        if token is None or token.is_good(time.time()):
            return token
        async with access.turn():
            token = access.token
            if token is None or token.is_good(time.time()):
                return token
            if token.refresh_token is not None:
                return await self._refreshed(access)
            is_over = token.expires_at is not None and time.time() >= token.expires_at
            return None if is_over else token

    async def _renewed(
        self, access: Access, used: Token | None, challenge: Challenge
    ) -> Token | None:
        """Get a token in place of the one that was refused, unless another task has done that."""
        failures = access.failures
        async with access.turn():
            if access.failures != failures and access.failure is not None:
                failed = access.failure
                raise type(failed)(failed.message, failed.error)
            if access.token is not None and access.token is not used:
                return access.token
            try:
                return await self._log_in_for(access, challenge)
            except AuthorizationError as error:
                access.failures += 1
                access.failure = error
                if error.error == "access_denied":
                    access.deny(challenge.scopes, trio.current_time())
                raise

    async def _log_in_for(self, access: Access, challenge: Challenge) -> Token:
        """Get a token, by the refresh token if that will do."""
        found = await self._discovered(access, challenge)
        access.server = found.server
        login = access.login
        if login is not None and login.issuer != found.server.issuer:
            login = access.login = access.key = None  # they are for that issuer only
        lacks_scopes = challenge.error == INSUFFICIENT_SCOPE
        spare = access.token.refresh_token if access.token is not None else None
        if spare is not None and not lacks_scopes:
            token = await self._refreshed(access)
            if token is not None:
                return token
        asked = self._asked(login, challenge, found)
        if access.key is None and self._binds(found):
            access.key = DpopKey()
        client, form = await self._grant(found, asked, access)
        endpoint = self._endpoint_of(found.server, access)
        async with _finished():
            form = {**form, "resource": found.resource}
            token = await endpoint.token(form, client, asked=asked)
            if self.dpop and token.scheme != "DPoP":
                raise AuthorizationError("the authorization server gave a token bound to no key")
            access.login = Login(
                issuer=found.server.issuer,
                resource=found.resource,
                client=client,
                scopes=asked,
                token=token,
                dpop_key=access.key.dump() if access.key is not None else None,
            )
            async with self.store.locked():
                await self.store.save(access.login)
        return token

    async def _discovered(self, access: Access, challenge: Challenge) -> Discovered:
        """Find the authorization server, which must be the one that our credentials are for.

        Credentials for one are kept from all others: a secret, a key, or an enterprise's assertion
        must not go wherever a server points. If the user has not said which one it is, it is the
        first one, as long as that is remembered.
        """
        if self._is_arranged and self._bound_to is None:
            kept = await self._usable_logins()
            self._bound_to = self._bound_to or (kept[-1].issuer if kept else None)
        found = await discover(
            self._reaching(access), access.url, challenge, self.issuer or self._bound_to
        )
        if self._is_arranged:
            self._bound_to = self._bound_to or found.server.issuer
            if self._bound_to != found.server.issuer:  # another resource was quicker
                raise AuthorizationError(elsewhere(self._bound_to, found.server.issuer))
        return found

    def _asked(
        self, login: Login | None, challenge: Challenge, found: Discovered
    ) -> tuple[str, ...]:
        """Choose the scopes ("Scope Selection Strategy", "Step-Up Authorization Flow")."""
        needed = challenge.scopes or (found.scopes or () if self.scopes is None else ())
        before = login.scopes if login is not None else ()
        union = tuple(dict.fromkeys((*before, *needed, *(self.scopes or ()))))
        asked = self._with_defaults(union, found.server)
        # A name with a space in it would be read as two.
        if not all(map(is_scope, asked)):
            raise AuthorizationError("the server names a scope that cannot be asked for")
        if sum(map(len, asked)) > _MOST_SCOPE_CHARS:
            raise AuthorizationError(f"the server wants scopes of over {_MOST_SCOPE_CHARS} chars")
        return asked

    def _binds(self, found: Discovered) -> bool:
        if self.dpop is not None:
            return self.dpop
        supported = found.server.dpop_signing_alg_values_supported or ()
        return found.wants_dpop and ALGORITHM in supported

    async def _refreshed(self, access: Access) -> Token | None:
        """Renew a token by its refresh token; return `None` if that is spent."""
        login = access.login
        assert login is not None
        endpoint = await self._endpoint(access, login)
        async with self.store.locked():
            logins = await self.store.load()
            kept = next((other for other in logins if other.key == login.key), login)
            if kept.token is not None and kept.token != login.token:
                access.login = kept  # another process has renewed it
                if kept.token.is_good(time.time()):
                    return kept.token
                login = kept
            try:
                return await self._exchanged(access, endpoint, login)
            except AuthorizationError as error:
                if error.error not in _SPENT:
                    raise
                access.login = evolve(login, token=None)
                if error.error == "invalid_client":  # the server has forgotten our registration
                    access.login = None
                    await self.store.remove(login)
                return None

    async def _exchanged(self, access: Access, endpoint: TokenEndpoint, login: Login) -> Token:
        assert login.token is not None
        assert login.token.refresh_token is not None
        form = {
            "grant_type": "refresh_token",
            "refresh_token": login.token.refresh_token,
            "resource": login.resource,
        }
        async with _finished():
            token = await endpoint.token(
                form, login.client, asked=login.token.scopes, before=login.token
            )
            access.login = evolve(login, token=token)
            await self.store.save(access.login)
        return token

    async def _endpoint(self, access: Access, login: Login) -> TokenEndpoint:
        if access.server is None:
            is_legacy = login.issuer == origin(access.url)
            access.server = await server_metadata(
                self._reaching(access), login.issuer, near=access.url, is_legacy=is_legacy
            )
        return self._endpoint_of(access.server, access)

    def _reaching(self, access: Access) -> Fetching:
        return evolve(self.fetching, answered_from=access.answered_from)

    def _endpoint_of(self, server: ServerMetadata, access: Access) -> TokenEndpoint:
        return TokenEndpoint(
            metadata=server,
            fetching=self._reaching(access),
            near=access.url,
            key=access.key,
            sign=self._sign,
        )


@asynccontextmanager
async def _finished() -> AsyncIterator[None]:
    """Let the block go on for a little when it is cancelled, and then raise.

    A code, or a refresh token that rotates, is spent when the authorization server sees it. Without
    its answer, all tasks that wait would have nothing, and the person would be asked again.
    """
    shield = trio.CancelScope(shield=True)

    async def wait_for_cancellation() -> None:
        try:
            await trio.sleep_forever()
        finally:
            # Until it is cancelled from outside, the block has all the time that it wants.
            shield.deadline = trio.current_time() + _GRACE

    async with background_nursery(wait_for_cancellation):
        with shield:
            yield
        if shield.cancelled_caught:
            await trio.lowlevel.checkpoint()  # where the cancellation from outside is raised


def _check_scopes(access: Access, token: Token | None, challenge: Challenge) -> None:
    """Raise `AuthorizationError` if scopes are missing that we could not get."""
    if challenge.error != INSUFFICIENT_SCOPE or token is None:
        return
    named = redacted(" ".join(challenge.scopes), {"": token.access_token})
    needs = f"the scopes {named}" if named else "more scopes, but does not say which"
    why = "no login has given a token with them"
    raise AuthorizationError(f"{origin(access.url)} needs {needs}: {why}", INSUFFICIENT_SCOPE)


def _address_of(response: httpx2.Response) -> str | None:
    """Return the address that a response came from; `None` if it is not known."""
    stream = response.extensions.get("network_stream")
    address = stream.get_extra_info("server_addr") if stream is not None else None
    return str(address[0]).partition("%")[0] if isinstance(address, tuple) else None


def _present(request: httpx2.Request, url: str, token: Token | None, key: DpopKey | None) -> None:
    """Put a token on a request, in place of any other."""
    for name in ("Authorization", "DPoP"):
        request.headers.pop(name, None)
    if token is None:
        return
    request.headers["Authorization"] = f"{token.scheme} {token.access_token}"
    if token.scheme == "DPoP" and key is not None:
        request.headers["DPoP"] = key.proof(request.method, url, token.access_token)


def _challenge_of(response: httpx2.Response) -> Challenge | None:
    """Return a server's challenge for a token; `None` if there is none."""
    if response.status_code not in (401, 403):
        return None
    found = parse_challenges(response.headers.get_list("www-authenticate"))
    ours = [challenge for challenge in found if challenge.scheme in _OURS]
    if response.status_code == 403:
        return next((item for item in ours if item.error == INSUFFICIENT_SCOPE), None)
    if not found:
        return Challenge("bearer")  # 401 without a word: revisions before 2025-06-18
    # One that says why, or where to go, before one that only names a scheme.
    return max(ours, key=lambda challenge: len(challenge.parameters), default=None)
