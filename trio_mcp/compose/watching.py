"""The resources of a server elsewhere that are watched here, and the subscriptions to them.

All clients share one subscription to a resource, and a few requests carry them all. What the server
refuses is refused for itself: a request that fails is sent again in halves, down to the resource
that the server will not have. Where there is no room for a resource of an owner who has not more
than a share, one of an owner who has goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable
from typing import Final

import trio
from attrs import define, field

from trio_mcp.client.client import Client
from trio_mcp.compose.following import Throttle
from trio_mcp.errors import ClientError
from trio_mcp.loggers import logger_of
from trio_mcp.registry.changes import ResourceUpdated
from trio_mcp.wire.errors import McpError

logger = logger_of("trio_mcp.compose")

LIMIT: Final = 10_000
"""So many resources are watched at most."""
OWNER_LIMIT: Final = 1000
"""So many of one owner's."""
OWNER_SHARE: Final = 250
"""So many that it keeps, however many others need room."""
_PER_REQUEST: Final = 500
"""So many are subscribed to by one request."""


@define(eq=False)
class _Watched:
    """A resource that is watched here."""

    owner: Hashable
    """To whose share it counts."""
    wanted: bool
    """Whether it is to be subscribed to."""
    settled: trio.Event = field(factory=trio.Event)
    """Set when it is known for the first time whether the server tells of it."""


class WatchedResources:
    """The resources of one server that are watched here.

    Args:
        name: What the log calls the server.
        on_update: Called with the URI of a resource that has changed, or may have.
    """

    def __init__(self, name: str, on_update: Callable[[str], None]) -> None:
        self.name: Final = name
        self.on_update: Final = on_update
        self._watched: dict[str, _Watched] = {}
        self._counts: Counter[Hashable] = Counter()
        self.told: Final[set[str]] = set()
        """Those that the server tells of, or did last."""
        self.changed: Final = trio.lowlevel.ParkingLot()
        """Unparked when there are others to subscribe to."""

    @property
    def wanted(self) -> list[str]:
        """Those to subscribe to."""
        return [uri for uri, watched in self._watched.items() if watched.wanted]

    def watch(self, uri: str, owner: Hashable) -> None:
        """Subscribe to a resource, if that is within its owner's share."""
        fits = self._counts.total() < LIMIT or self._make_room(owner)
        wanted = fits and self._counts[owner] < OWNER_LIMIT
        watched = self._watched[uri] = _Watched(owner, wanted)
        if wanted:
            self._counts[owner] += 1
            self.changed.unpark_all()
        else:
            watched.settled.set()

    def unwatch(self, uri: str) -> None:
        """Subscribe to a resource no longer."""
        watched = self._watched.pop(uri, None)
        if watched is not None:
            self.told.discard(uri)
            self._release(watched)
            self.changed.unpark_all()

    def settle(self, uris: Collection[str], told: Collection[str]) -> None:
        """Take note of which resources the server tells of."""
        for uri in uris:
            watched = self._watched.get(uri)
            if watched is None:
                continue
            watched.settled.set()
            if uri in told:
                self.told.add(uri)
            else:  # it makes room for others, and is asked for again when it is watched again
                self.told.discard(uri)
                self._release(watched)

    def make_room_for(self, uri: str) -> bool:
        """Give up another resource for one that the server has no room for, if that is fair."""
        watched = self._watched.get(uri)
        return watched is not None and self._make_room(watched.owner)

    def _make_room(self, owner: Hashable) -> bool:
        [(largest, count)] = self._counts.most_common(1)
        if count <= OWNER_SHARE or self._counts[owner] > OWNER_SHARE:
            return False
        newest = next(
            uri
            for uri, watched in reversed(self._watched.items())
            if watched.wanted and watched.owner == largest
        )
        logger.warning("Server %s: changes of a resource are not told of: no room", self.name)
        self.settle([newest], ())
        self.changed.unpark_all()
        return True

    def _release(self, watched: _Watched) -> None:
        if watched.wanted:
            watched.wanted = False
            self._counts[watched.owner] -= 1
            if not self._counts[watched.owner]:
                del self._counts[watched.owner]

    async def confirm(self, uris: Collection[str], timeout: float) -> list[str]:
        """Wait until it is known of which resources the server tells, and return those.

        Args:
            uris: The resources.
            timeout: Seconds after which the server is taken to tell of no others.
        """
        with trio.move_on_after(timeout):
            for uri in uris:
                if uri in self._watched:
                    await self._watched[uri].settled.wait()
        return [uri for uri in uris if uri in self.told]

    async def follow(self, client: Client, on_failure: Callable[[Exception], object]) -> None:
        """Keep the subscriptions on a connection like what is watched, until cancelled.

        Args:
            client: The connection.
            on_failure: Called when a subscription ends because of it.
        """
        async with trio.open_nursery() as nursery:
            await _Following(self, client, on_failure, nursery).run()


@define(eq=False)
class _Group:
    """Resources that are subscribed to by one request."""

    uris: dict[str, None] = field(factory=dict)
    scope: trio.CancelScope = field(factory=trio.CancelScope)


@define(eq=False)
class _Handover:
    """Ends a subscription when all of the one that takes its place has begun."""

    last: trio.CancelScope
    missing: set[str]
    """The first resources of the requests that have not been answered yet."""

    def begun(self, first: str) -> None:
        self.missing.discard(first)
        if not self.missing:
            self.last.cancel()


@define(eq=False)
class _Following:
    """The subscriptions on one connection."""

    watched: WatchedResources
    client: Client
    on_failure: Callable[[Exception], object]
    nursery: trio.Nursery
    _told: set[str] = field(factory=set)
    """Those that the server tells of."""
    _groups: list[_Group] = field(factory=list)
    _group_of: dict[str, _Group] = field(factory=dict)

    async def run(self) -> None:
        # What the lost connection told of may have changed meanwhile.
        missed = frozenset(self.watched.told)
        while True:
            for group in self._regrouped():
                last, group.scope = group.scope, trio.CancelScope()
                uris = list(group.uris)
                if uris:
                    handover = _Handover(last, {uris[0]})
                    self.nursery.start_soon(self._hold, group.scope, uris, missed, handover)
                else:
                    last.cancel()
            missed = frozenset()
            await self.watched.changed.park()

    def _regrouped(self) -> list[_Group]:
        """Put each resource into a group; return the groups that have changed."""
        changed: dict[_Group, None] = {}
        wanted = dict.fromkeys(self.watched.wanted)
        for uri in [uri for uri in self._group_of if uri not in wanted]:
            group = self._group_of.pop(uri)
            del group.uris[uri]
            self._told.discard(uri)
            changed[group] = None
        self._groups = [group for group in self._groups if group.uris]
        again = [uri for uri in wanted if uri in self._told]  # given up, and watched at once again
        self.watched.settle(again, again)
        for uri in wanted:
            if uri not in self._group_of:
                if not self._groups or len(self._groups[-1].uris) >= _PER_REQUEST:
                    self._groups.append(_Group())
                group = self._group_of[uri] = self._groups[-1]
                group.uris[uri] = None
                changed[group] = None
        return list(changed)

    async def _hold(
        self, scope: trio.CancelScope, uris: list[str], missed: Collection[str], handover: _Handover
    ) -> None:
        try:
            with scope:
                await self._keep_telling(uris, missed, handover)
        finally:
            handover.last.cancel()  # also if this one had not begun yet

    async def _keep_telling(
        self, uris: list[str], missed: Collection[str], handover: _Handover
    ) -> None:
        """Report changes until cancelled, and first of what may have been missed."""
        throttle = Throttle()
        while True:
            try:
                missed = await self._tell(uris, missed, handover)
            except McpError as error:
                if len(uris) > 1 or not self.watched.make_room_for(uris[0]):
                    await self._refused(uris, missed, handover, error)
                    return
            except ClientError as error:
                self.on_failure(error)
            await throttle.wait()

    async def _tell(
        self, uris: list[str], missed: Collection[str], handover: _Handover
    ) -> Collection[str]:
        """Report changes until the subscription ends; return what may be missed from then on."""
        async with self.client.subscribe(resources=uris) as changes:
            self._settle(uris, changes.uris)
            handover.begun(uris[0])
            for uri in uris:
                if uri in missed:
                    self.watched.on_update(uri)
            async for change in changes:
                if isinstance(change, ResourceUpdated):
                    self.watched.on_update(change.uri)
            return changes.uris

    async def _refused(
        self, uris: list[str], missed: Collection[str], handover: _Handover, error: McpError
    ) -> None:
        """Ask for each half by itself, until a single resource is refused."""
        if len(uris) == 1:
            logger.debug("Server %s refuses a subscription: %s", self.watched.name, error)
            self._settle(uris, ())
            handover.begun(uris[0])
            return
        half = len(uris) // 2
        handover.missing.add(uris[half])
        async with trio.open_nursery() as nursery:
            for part in (uris[:half], uris[half:]):
                nursery.start_soon(self._keep_telling, part, missed, handover)

    def _settle(self, uris: list[str], told: Collection[str]) -> None:
        self.watched.settle(uris, told)
        self._told.difference_update(uris)
        self._told.update(uri for uri in uris if uri in told)
        for uri in uris:  # the next request of the group does without them
            if uri not in told:
                group = self._group_of.pop(uri, None)
                if group is not None:
                    del group.uris[uri]
