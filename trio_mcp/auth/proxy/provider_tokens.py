"""The provider's tokens: given to handlers that ask, renewed once however many wait."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import Final

import trio
from attrs import evolve, frozen

from trio_mcp.auth.proxy.grants import Grant, Grants, Lost, ProviderTokens
from trio_mcp.auth.proxy.upstream import Ended, Upstream
from trio_mcp.auth.server.single_flight import SingleFlight
from trio_mcp.errors import AuthorizationError, ProviderTokenError
from trio_mcp.loggers import logger_of
from trio_mcp.store.changes import Conflict
from trio_mcp.store.errors import StoreError, StoreUnavailable

logger = logger_of("trio_mcp.auth")

_EARLY: Final = 60.0
"""Seconds before its end at which a token is renewed."""
_RENEWAL_TIME: Final = 15.0
"""Seconds that a renewal may take, until its tokens are kept."""
_CLAIM_TIME: Final = 2 * _RENEWAL_TIME
"""Seconds after which another instance may try a renewal that was claimed."""
_PAUSE: Final = 0.1
"""Seconds between two attempts to keep what a renewal has brought."""

_CLEAN_UP: Final = 3.0

_ENDED: Final = "The login at the provider has ended: log in again."
_LATER: Final = "The provider gives no token at the moment: try again in a while."


@frozen(eq=False, repr=False)
class ProviderTokenKeeper:
    """Keeps the provider's tokens of logins fresh."""

    _grants: Grants
    _upstream: Upstream
    _renewals: SingleFlight[bool | Exception]
    """These go on when a call that waits for one is cancelled."""

    async def token_of(self, id: str) -> str:
        """Return the provider's token of a login.

        Raises:
            ProviderTokenError: The login has ended, or provider or store cannot be reached.
        """
        try:
            grant, _ = await self.fresh(*await self._grants.get(id))
        except Lost:
            raise ProviderTokenError(_ENDED) from None
        except (AuthorizationError, StoreError) as error:
            logger.warning("The provider's token of a caller cannot be renewed: %s", error)
            raise ProviderTokenError(_LATER) from None
        return grant.tokens.access

    async def fresh(self, grant: Grant, version: int) -> tuple[Grant, int]:
        """Return a login, and its version, whose token is good for a while.

        Raises:
            Lost: The login has ended, here or at the provider.
            AuthorizationError: The provider cannot be asked.
            StoreError: The store cannot be used.
        """
        id = grant.id
        for early in (_EARLY, 0.0, 0.0):  # a provider may give out tokens of a few seconds
            if _is_fresh(grant.tokens, early):
                return grant, version
            renewed = await self._renewals.run(id, partial(self._renewed, id, early))
            if isinstance(renewed, Exception):
                raise renewed
            if not renewed:
                await self._wait(id, version)
            grant, version = await self._grants.get(id)
        if not _is_fresh(grant.tokens, 0.0):
            raise AuthorizationError("the provider gives out tokens that have expired")
        return grant, version

    async def _renewed(self, id: str, early: float) -> bool | Exception:
        """Renew a login, and return whether it is renewed here; or else what went wrong."""
        try:
            if not await self._grants.claim(id, _CLAIM_TIME):
                return False
            try:
                # As another instance has left it: it may have renewed it just before.
                grant, version = await self._grants.get(id)
                if not _is_fresh(grant.tokens, early):
                    await self._renew(grant, version)
            finally:
                with trio.move_on_after(_CLEAN_UP, shield=True), suppress(StoreError):
                    await self._grants.release(id)  # which ends by itself otherwise
        except Exception as error:  # raised where it is waited for
            return error
        return True

    async def _renew(self, grant: Grant, version: int) -> None:
        # What the provider gives out must not be lost: it may be the last refresh token. So this
        # goes on for its time, also when the server stops.
        with trio.move_on_after(_RENEWAL_TIME, shield=True) as scope:
            try:
                tokens = await self._upstream.renew(grant.tokens)
            except Ended:
                await self._grants.end(grant.id)
                raise Lost from None
            while not await self._is_kept(grant, version, tokens):
                await trio.sleep(_PAUSE)
                with suppress(StoreUnavailable):
                    grant, version = await self._grants.get(grant.id)
        if scope.cancelled_caught:
            raise AuthorizationError("the login was not renewed in time")

    async def _is_kept(self, grant: Grant, version: int, tokens: ProviderTokens) -> bool:
        try:
            await self._grants.put(evolve(grant, tokens=tokens), version)
        except (Conflict, StoreUnavailable):
            return False
        return True

    async def _wait(self, id: str, version: int) -> None:
        """Wait until a login has changed, or its renewal can be claimed again."""
        async with self._grants.store.watch(self._grants.channel(id)) as news:
            _, now = await self._grants.get(id)
            if now == version:
                with trio.move_on_after(_CLAIM_TIME):
                    await news.wait()


def _is_fresh(tokens: ProviderTokens, early: float) -> bool:
    return tokens.expires is None or time.time() < tokens.expires - early
