"""Sharing of an instance that has a store in common with others."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import trio
from attrs import evolve

from trio_mcp.registry import Registry, catalogue_of
from trio_mcp.registry.states import STATES_OF_ONE, UsedStates
from trio_mcp.store.protocol import Store
from trio_mcp.store.rates import SharedBuckets
from trio_mcp.store.shared import sharing
from trio_mcp.store.used import UsedOnce
from trio_mcp.transports.http.request import no_session
from trio_mcp.transports.http.session_options import SessionOptions
from trio_mcp.transports.http.sharing.changes import SharedChanges
from trio_mcp.transports.http.sharing.instance import Instance
from trio_mcp.transports.http.sharing.interface import Sharing, Take
from trio_mcp.transports.http.sharing.keys import SharedKeys
from trio_mcp.transports.http.sharing.posts import SharedPosts
from trio_mcp.transports.http.sharing.session import SharedSession
from trio_mcp.wire.limits import Limits

if TYPE_CHECKING:  # few servers check tokens
    from trio_mcp.auth.server.authenticator import Shared
    from trio_mcp.auth.server.resource import ResourceServer

_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}")
"""What may be the id of a session, and part of a key."""


class StoreSharing(Sharing):
    """Shares what is in a store."""

    outlasts_instance = True
    _changes: SharedChanges

    def __init__(
        self, store: Store, registry: Registry, options: SessionOptions, limits: Limits
    ) -> None:
        self.store: Store = store
        self._catalogue = catalogue_of(registry)
        self._options = options
        self._limits = limits
        self.instance: Final = Instance(store, options.session_idle)
        ttl = self._catalogue.options.state_ttl
        self._keys = SharedKeys(
            self.instance, self._catalogue.name, self._catalogue.share_state_keys
        )
        self.states = UsedStates(UsedOnce(store, "states", STATES_OF_ONE, ttl))
        # Each for as long as it is in use.
        self._posts = WeakValueDictionary[tuple[str, str | None], SharedPosts]()

    @asynccontextmanager
    async def opening(self) -> AsyncIterator[None]:
        await self._keys.agree()
        with sharing(self.store):
            yield

    async def start(self, nursery: trio.Nursery) -> None:
        catalogue = self._catalogue
        longest = self._limits.max_subscription_bytes
        self._changes = SharedChanges(self.instance, catalogue.changes, catalogue.name, longest)
        await nursery.start(self.instance.run)
        await nursery.start(self._changes.run)
        nursery.start_soon(self._keys.run)

    def buckets(self, name: str, rate: float, burst: int, max_clients: int) -> SharedBuckets:
        name = f"{self._catalogue.name}: {name}"
        return SharedBuckets(rate, burst, max_clients, self.store, name)

    def token_records(self, auth: ResourceServer) -> Shared:
        from trio_mcp.auth.server.authenticator import Shared
        from trio_mcp.auth.server.resource import Introspection

        shared, how = Shared(nonce_keys=self._keys.known), auth.dpop
        if how is not None:
            longest = how.max_age + 2 * auth.leeway
            proofs = UsedOnce(self.store, "proofs", max(1, how.max_proofs // 10), longest)
            shared = evolve(shared, proofs=proofs)
        if isinstance(auth.verifier, Introspection):
            from trio_mcp.transports.http.sharing.answers import SealedAnswers

            shared = evolve(shared, answers=SealedAnswers(self.store, auth.verifier))
        return shared

    def session(self, id: str) -> SharedSession:
        return SharedSession(self.instance, id, self._options, self._changes)

    async def find(self, id: str, principal: str | None) -> SharedSession:
        session = self.session(id)
        if not _ID.fullmatch(id) or not await session.find(principal):
            raise no_session()
        return session

    def taking_posts(
        self, id: str, principal: str | None, take: Take
    ) -> AbstractAsyncContextManager[None]:
        return self._posts_of(id, principal).taken_from_others(take)

    def poster(self, id: str, principal: str | None) -> Take:
        if not _ID.fullmatch(id):
            raise LookupError(id)
        return self._posts_of(id, principal).post

    def _posts_of(self, id: str, principal: str | None) -> SharedPosts:
        key = id, principal
        posts = self._posts.get(key)
        if posts is None:
            posts = self._posts[key] = SharedPosts(self.instance, id, principal)
        return posts
