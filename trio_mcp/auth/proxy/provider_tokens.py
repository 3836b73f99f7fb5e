"""The provider's tokens: given to handlers that ask, renewed once however many wait."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

import trio
from attrs import evolve

from trio_mcp.auth.proxy.grants import Grant, Grants, Lost, ProviderTokens
from trio_mcp.auth.proxy.upstream import Upstream
from trio_mcp.errors import AuthorizationError
from trio_mcp.store.changes import Conflict

_EARLY: Final = 60.0
"""Seconds before its end at which a token is renewed."""
_RENEWAL_TIME: Final = 30.0
"""Seconds after which another instance may try a renewal that was claimed."""

_CLEAN_UP: Final = 3.0

_ENDED: Final = "the login has ended; the caller has to log in again"


class ProviderTokenKeeper:
    """Keeps the provider's tokens of logins fresh.

    Args:
        grants: The logins.
        upstream: The provider.
        clock: Seconds since 1970.
    """

    def __init__(
        self, grants: Grants, upstream: Upstream, clock: Callable[[], float] = time.time
    ) -> None:
        self._grants = grants
        self._upstream = upstream
        self._clock = clock

    def of(self, id: str) -> Callable[[], Awaitable[str]]:
        """Return the function that gives a handler the provider's token of a login."""

        async def provider_token() -> str:
            try:
                grant, version = await self._grants.get(id)
                grant, _ = await self.fresh(grant, version)
            except Lost:
                raise AuthorizationError(_ENDED) from None
            return grant.tokens.access

        return provider_token

    async def fresh(self, grant: Grant, version: int) -> tuple[Grant, int]:
        """Return a login, and its version, whose token is good for a while.

        Raises:
            Lost: The login has ended meanwhile.
            Ended: The provider does not renew it.
            AuthorizationError: The provider cannot be asked.
            StoreError: The store cannot be used.
        """
        id = grant.id
        for early in (_EARLY, 0.0, 0.0):  # a provider may give out tokens of a few seconds
            if self._is_fresh(grant.tokens, early):
                return grant, version
            if await self._grants.claim(id, _RENEWAL_TIME):
                try:
                    # As another instance has left it: it may have renewed it just before.
                    grant, version = await self._grants.get(id)
                    if not self._is_fresh(grant.tokens, early):
                        await self._renew(grant, version)
                finally:
                    with trio.move_on_after(_CLEAN_UP, shield=True):
                        await self._grants.release(id)
            else:
                await self._wait(id, version)
            grant, version = await self._grants.get(id)
        if not self._is_fresh(grant.tokens, 0.0):
            raise AuthorizationError("the provider gives out tokens that have expired")
        return grant, version

    async def _renew(self, grant: Grant, version: int) -> None:
        tokens = await self._upstream.renew(grant.tokens)
        # What the provider has given out must not be lost: it may be the last refresh token.
        while True:
            try:
                await self._grants.put(evolve(grant, tokens=tokens), version)
            except Conflict:
                grant, version = await self._grants.get(grant.id)
            else:
                return

    async def _wait(self, id: str, version: int) -> None:
        """Wait until a login has changed, or its renewal can be claimed again."""
        async with self._grants.store.watch(self._grants.channel(id)) as news:
            _, now = await self._grants.get(id)
            if now == version:
                with trio.move_on_after(_RENEWAL_TIME):
                    await news.wait()

    def _is_fresh(self, tokens: ProviderTokens, early: float) -> bool:
        return tokens.expires is None or self._clock() < tokens.expires - early
