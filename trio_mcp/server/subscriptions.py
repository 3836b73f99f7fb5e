"""Telling clients what has changed: by subscription, or to a whole connection.

In modern revisions a client opens a stream of changes with `subscriptions/listen`; it is a request
like any other, and goes on until one of the sides ends it. In legacy revisions there is one stream
for each connection: the lists that were declared at its beginning, and the resources that the
client subscribed to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from itertools import chain
from math import inf
from typing import ClassVar, Final

import trio
from attrs import define, field

from trio_mcp.layers.answering import not_found
from trio_mcp.peer.inbound import Cause, InboundRequest, Scope
from trio_mcp.peer.outbound import notification_line
from trio_mcp.registry.catalogue import Catalogue
from trio_mcp.registry.changes import (
    KINDS,
    Change,
    Kind,
    ListChanged,
    Listener,
    Notice,
    Topic,
)
from trio_mcp.server.caller import invalid
from trio_mcp.server.request import RequestContext, params_of, size_of
from trio_mcp.server.scopes import find_resource
from trio_mcp.wire import codec
from trio_mcp.wire.answers import Answer, Result
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import INTERNAL_ERROR, METHOD_NOT_FOUND, McpError
from trio_mcp.wire.jsonrpc import Id, Json
from trio_mcp.wire.revisions import META_SUBSCRIPTION

_AT_ONCE: Final = 50
"""URIs that are looked up before others have their turn."""
_KEPT_LINES: Final = 64
"""Notifications that are kept as they are written, since many subscriptions get the same."""

Send = Callable[[bytes], Awaitable[None]]


async def send_changes(listener: Listener, send: Send) -> None:
    """Tell a legacy client of changes, until cancelled."""
    while True:
        await _tell(listener, await listener.next(), send)


async def send_rest(listener: Listener, send: Send, id: Id | None = None) -> None:
    """Tell of the changes that are queued, and not wait for more."""
    for change in listener.rest():
        await _tell(listener, change, send, id)


async def _tell(
    listener: Listener, change: Change | Topic | Notice, send: Send, id: Id | None = None
) -> None:
    """Send the notification that tells of a change, if there is one."""
    if isinstance(change, Topic):
        from trio_mcp.server.extended import topic_line

        line = await topic_line(listener, change, None if id is None else {META_SUBSCRIPTION: id})
    else:
        line = _line(change, id)
    if line is not None:
        await send(line)


def _line(change: Change | Notice, id: Id | None) -> bytes:
    """Return the notification of a change, for a subscription or for a whole connection."""
    if isinstance(change, Notice):
        return change.line
    if id is None:
        return _encode(change, None)
    before, behind = _around_id(change)
    return before + codec.dumps(id) + behind


def _encode(change: Change, meta: Json) -> bytes:
    from trio_mcp.wire.notifications import ListChangedParams, ResourceUpdatedParams

    if isinstance(change, ListChanged):
        params = to_wire(ListChangedParams(meta=meta))
        return notification_line(f"notifications/{change.kind}/list_changed", params)
    params = to_wire(ResourceUpdatedParams(uri=change.uri, meta=meta))
    return notification_line("notifications/resources/updated", params)


@lru_cache(maxsize=_KEPT_LINES)
def _around_id(change: Change) -> tuple[bytes, bytes]:
    """Write a notification once for all subscriptions: what comes before the id, and after it."""
    key = b'"%b":' % META_SUBSCRIPTION.encode()  # with its colon: no text can hold that
    before, _, behind = _encode(change, {META_SUBSCRIPTION: 0}).partition(key + b"0")
    return before + key, behind


@define(eq=False, repr=False)
class Filter:
    """What a subscription is for."""

    kinds: list[Kind] = field(factory=list)
    uris: list[str] = field(factory=list)
    topics: dict[str, list[str] | None] = field(factory=dict)
    """By the keys of extensions, what is listed under them; `None` where that is nothing."""

    @property
    def size(self) -> int:
        """Bytes of what it names."""
        return size_of(chain(self.uris, *(names or () for names in self.topics.values())))

    def wire(self) -> dict[str, Json]:
        """As it is written in an acknowledgement."""
        from trio_mcp.wire.messages import SubscriptionFilter

        kinds = {f"{kind}_list_changed": True for kind in self.kinds}
        shown = to_wire(SubscriptionFilter(**kinds, resource_subscriptions=self.uris))
        for key, values in self.topics.items():
            shown[key] = True if values is None else values
        return shown


def told_kinds(catalogue: Catalogue) -> list[Kind]:
    """Return the lists whose changes clients can hear of."""
    offers = catalogue.offers
    return [k for k in KINDS if k in offers and catalogue.details_of(k).get("listChanged") is True]


def read_filter(context: RequestContext) -> Filter:
    """Read what a client wants to know of; whether there are such resources is seen later.

    Raises:
        McpError: The filter is not one (`-32602`), or wants something of an extension that the
            client has not declared (`-32021`).
    """
    from trio_mcp.wire.messages import ListenParams

    wanted = params_of(context, ListenParams).notifications
    catalogue, limit = context.server.catalogue, context.server.limits.max_subscriptions
    listed = wanted.resource_subscriptions
    if len(listed) > limit:
        why = f'"resourceSubscriptions" holds {len(listed)} URIs; at most {limit} are served'
        raise invalid(why)
    found = Filter(
        [k for k in told_kinds(catalogue) if getattr(wanted, f"{k}_list_changed")],
        list(dict.fromkeys(listed)),
    )
    if catalogue.extensions is not None:
        from trio_mcp.server.extended import read_topics

        found.topics = read_topics(context, context.params["notifications"])
    return found


class Subscribe(InboundRequest):
    """A `resources/subscribe` that waits until those behind have confirmed it (legacy)."""

    __slots__ = ("context", "uri")
    timeout: ClassVar[float] = inf  # who confirms it has a bound
    label: ClassVar[str] = "Subscription"

    def __init__(self, context: RequestContext, uri: str) -> None:
        self.context = context
        self.uri = uri

    async def run(self, scope: Scope) -> Answer | None:
        listener = self.context.session.listener
        assert listener is not None  # or it would not have been begun
        with scope:
            if self.uri in await self.context.server.catalogue.confirm([self.uri]):
                return Result({})
            listener.unwatch(self.uri)
            error = not_found(self.context.revision, self.uri)
            why = f"Changes of this resource are not told of: {self.uri[:500]}"
            return McpError(error.code, why, error.data)
        listener.unwatch(self.uri)
        return self.unfinished()

    def unfinished(self) -> Answer | None:
        if self.answered or self.cause is Cause.PEER:
            return None
        return McpError(INTERNAL_ERROR, "Request cancelled")


class Listen(InboundRequest):
    """A `subscriptions/listen`: acknowledged first, then each change as it comes."""

    timeout: ClassVar[float] = inf
    long_lived: ClassVar[bool] = True
    label: ClassVar[str] = "Subscription"

    def __init__(self, context: RequestContext, filter: Filter) -> None:
        self.context = context
        self.filter = filter
        self._size = filter.size

    async def run(self, scope: Scope) -> Answer | None:
        """Tell of changes until cancelled: while waiting for one, not while telling it.

        There may be thousands, so it keeps nothing that it can make again.
        """
        channel = self.channel
        try:
            if not channel.carries_messages:
                why = "Subscriptions need a transport that can carry notifications"
                return McpError(METHOD_NOT_FOUND, why)
            catalogue, owner = self.context.server.catalogue, self.context.session.owner
            wanted = self.filter
            with catalogue.changes.listen(wanted.kinds, owner=owner) as listener:
                if wanted.uris:
                    with scope:
                        await self._watch(listener, wanted.uris)
                        confirmed = await catalogue.confirm(list(listener.uris))
                        for uri in set(listener.uris).difference(confirmed):
                            listener.unwatch(uri)
                    wanted.uris = list(listener.uris)
                    self._count(wanted.size)
                if wanted.topics:
                    from trio_mcp.server.extended import watch_topics

                    wanted.topics = await watch_topics(self.context, wanted.topics, listener, self)
                if self.cause is not Cause.PEER:
                    await channel.send_notification(self._acknowledgement())
                listener.tell_nowait = self._tell_nowait
                while (change := await self._next(listener)) is not None:
                    await _tell(listener, change, channel.send_notification, self.id)
                if self.cause is Cause.SHUTDOWN and not self.answered:
                    await send_rest(listener, channel.send_notification, self.id)
            return self.unfinished()
        except McpError as error:  # of an extension, about what it was asked to tell of
            return None if self.answered else error
        finally:
            self.context.session.subscriptions -= 1
            self._count(0)

    async def _watch(self, listener: Listener, uris: list[str]) -> None:
        """Watch the resources that there are: a few in one turn, of one subscription at a time."""
        for at in range(0, len(uris), _AT_ONCE):
            async with self.context.server.lookups:
                for uri in uris[at : at + _AT_ONCE]:
                    if find_resource(self.context, uri) is not None:
                        listener.watch(uri)

    def _count(self, size: int) -> None:
        self.context.session.subscription_bytes += size - self._size
        self._size = size

    @property
    def _meta(self) -> dict[str, Json]:
        return {META_SUBSCRIPTION: self.id}

    def _acknowledgement(self) -> bytes:
        from trio_mcp.wire.notifications import AcknowledgedParams

        params = to_wire(AcknowledgedParams(meta=self._meta, notifications=self.filter.wire()))
        return notification_line("notifications/subscriptions/acknowledged", params)

    def _tell_nowait(self, change: Change | Topic | Notice) -> bool:
        if isinstance(change, Topic):  # what there is to tell has to be asked for
            return False
        return self.channel.offer_notification(_line(change, self.id))

    async def _next(self, listener: Listener) -> Change | Topic | Notice | None:
        """Wait for a change; `None` once the request is cancelled, or its token has expired."""
        authorization = self.context.authorization
        until = inf if authorization is None else authorization.deadline
        while self.cause is None and (now := trio.current_time()) < until:
            with trio.move_on_at(min(now + self.channel.keep_alive, until)) as self.scope:
                return await listener.next()
            if self.cause is None and trio.current_time() < until:
                await self.channel.send_keep_alive()
        return None

    def unfinished(self) -> Answer | None:
        """Return the result that ends it in good order; none if the client ended it."""
        if self.answered or self.cause is Cause.PEER:
            return None
        return Result(self.context.complete({"_meta": self._meta}))
