"""Hearing of a server's changes, for the length of a block.

In modern revisions a subscription is a request that stays open; in legacy ones resources are
subscribed to one by one, and changed lists are announced to everybody. Both come out as one
asynchronous iterator of changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from trio_mcp.client.contents import is_not_found
from trio_mcp.errors import CallTimeout, ClientError, ProtocolError
from trio_mcp.public import public
from trio_mcp.registry.changes import KINDS, Change, Kind, ListChanged, ResourceUpdated
from trio_mcp.transports.background import background_task
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.jsonrpc import Id, Json, Notification
from trio_mcp.wire.revisions import META_SUBSCRIPTION

if TYPE_CHECKING:
    from trio_mcp.client.session import ClientSession

_CLOSE_TIMEOUT: Final = 1.0
_MOST_PENDING: Final = 10_000
_LIST_CHANGED: Final[dict[str, Kind]] = {
    f"notifications/{kind}/list_changed": kind for kind in KINDS
}


@public
class ChangeStream:
    """The changes that come in while a subscription is open; iterate over it.

    Equal changes that were not fetched yet are one, so a slow reader keeps no more of them than
    there are different ones, and 10,000 at most. The iteration ends when the server ends the
    subscription.
    """

    def __init__(self, kinds: Collection[Kind], uris: Collection[str]) -> None:
        self.kinds: Collection[Kind] = frozenset(kinds)
        """The lists that the server tells of; once it has answered, those that it agreed to."""
        self.uris: Collection[str] = frozenset(uris)
        """The resources that the server tells of, likewise."""
        self.id: Id | None = None
        self.agreed = trio.Event()
        self._pending: dict[Change, None] = {}
        self._parked = trio.lowlevel.ParkingLot()
        self.failure: Exception | None = None
        """How it ended, if it ended badly."""
        self._ended = False

    def __aiter__(self) -> AsyncIterator[Change]:
        """Iterate over the changes."""
        return self

    async def __anext__(self) -> Change:
        """Wait for the next change.

        Raises:
            ClientError: The connection ended, or too many changes were not fetched.
            McpError: The server ended the subscription with an error.
        """
        await trio.lowlevel.checkpoint()
        while not self._pending:
            if self.failure is not None:
                raise self.failure
            if self._ended:
                raise StopAsyncIteration
            await self._parked.park()
        change = next(iter(self._pending))
        del self._pending[change]
        return change

    def wants(self, change: Change) -> bool:
        """Whether it was opened for that change."""
        if isinstance(change, ListChanged):
            return change.kind in self.kinds
        if change.uri in self.uris:
            return True
        # It may be a part of a resource. Where subscriptions have ids, the server says whose.
        if self.id is not None:
            return bool(self.uris)
        return any(_is_part(change.uri, each) for each in self.uris)

    def note(self, change: Change) -> None:
        """Take in a change."""
        if self._ended:
            return
        if len(self._pending) >= _MOST_PENDING and change not in self._pending:
            self.end(ProtocolError(f"more than {_MOST_PENDING} changes were not fetched"))
            return
        self._pending[change] = None
        self._parked.unpark_all()

    def end(self, failure: Exception | None = None) -> None:
        """There will be no more. The first reason counts."""
        if not self._ended:
            self._ended, self.failure = True, failure
        self.agreed.set()
        self._parked.unpark_all()

    def agree(self, wanted: Json) -> None:
        """Take note of what the server has agreed to."""
        if isinstance(wanted, dict):
            self.kinds = frozenset(kind for kind in KINDS if wanted.get(f"{kind}ListChanged"))
            uris = wanted.get("resourceSubscriptions")
            self.uris = frozenset(uris) if isinstance(uris, list) else frozenset()
        self.agreed.set()


def _is_part(uri: str, whole: str) -> bool:
    whole = whole.removesuffix("/")
    return uri.startswith(whole) and uri[len(whole) :].startswith(("/", "?", "#"))


class Subscriptions:
    """The open subscriptions of one client."""

    def __init__(self) -> None:
        self.streams: Final[set[ChangeStream]] = set()
        self.users: Final[Counter[str]] = Counter()
        """How many of them want a resource (legacy: it is subscribed to only once)."""
        self.turn: Final = trio.Lock()
        """Held while that is changed, and the server told so."""

    def take(self, notification: Notification) -> None:
        """Pass a notification on to those whom it concerns."""
        params = notification.params
        if notification.method == "notifications/cancelled":
            self._cancelled(params.get("requestId"))
            return
        meta = params.get("_meta")
        id = meta.get(META_SUBSCRIPTION) if isinstance(meta, dict) else None
        if notification.method == "notifications/subscriptions/acknowledged":
            for stream in self._of(id):
                stream.agree(params.get("notifications"))
            return
        change = _change_of(notification.method, params)
        if change is not None:
            for stream in self._of(id):
                if stream.wants(change):
                    stream.note(change)

    def _cancelled(self, id: Json) -> None:
        """The server has ended a subscription without an answer."""
        if id is not None:
            for stream in self._of(id):
                stream.end()

    def _of(self, id: Json) -> Iterable[ChangeStream]:
        return [each for each in self.streams if each.id == id]


def _change_of(method: str, params: dict[str, Json]) -> Change | None:
    if method in _LIST_CHANGED:
        return ListChanged(_LIST_CHANGED[method])
    uri = params.get("uri")
    if method == "notifications/resources/updated" and isinstance(uri, str):
        return ResourceUpdated(uri)
    return None


@asynccontextmanager
async def subscription(
    client: ClientSession, kinds: Collection[Kind], uris: Collection[str]
) -> AsyncIterator[ChangeStream]:
    """Keep a subscription open for the length of the block (`Client.subscribe`)."""
    _check(kinds, uris)
    stream = ChangeStream(kinds, uris)
    open_ = _listening if client.era == "modern" else _subscribed
    client.subscriptions.streams.add(stream)
    try:
        async with open_(client, stream):
            yield stream
    finally:
        client.subscriptions.streams.discard(stream)


def _check(kinds: Collection[Kind], uris: Collection[str]) -> None:
    if isinstance(uris, str) or isinstance(kinds, str):
        raise TypeError(
            "subscribe() takes lists; put the URI, or the name of the list, in brackets"
        )
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"there is no list {kind!r} to subscribe to, only: {', '.join(KINDS)}")


@asynccontextmanager
async def _listening(client: ClientSession, stream: ChangeStream) -> AsyncIterator[None]:
    """Modern: a request that stays open."""
    wanted: dict[str, Json] = {f"{kind}ListChanged": True for kind in stream.kinds}
    if stream.uris:
        wanted["resourceSubscriptions"] = list(stream.uris)
    stream.id = client.next_id()

    async def listen() -> None:
        try:
            await client.request(
                "subscriptions/listen", {"notifications": wanted}, timeout=inf, id=stream.id
            )
            stream.end()
        except (ClientError, McpError) as failure:
            stream.end(failure)

    async with background_task(listen):
        with trio.move_on_after(client.request_timeout) as scope:
            await stream.agreed.wait()
        if scope.cancelled_caught:
            what = "the acknowledgement of subscriptions/listen"
            raise CallTimeout(what, client.request_timeout, client.stderr())
        if stream.failure is not None:
            raise stream.failure
        yield


async def _subscribe(client: ClientSession, uri: str) -> bool:
    """Subscribe to a resource, if there is such a one."""
    try:
        await client.request("resources/subscribe", {"uri": uri})
    except McpError as error:
        if is_not_found(error, uri):
            return False
        raise
    return True


@asynccontextmanager
async def _subscribed(client: ClientSession, stream: ChangeStream) -> AsyncIterator[None]:
    """Legacy: a request for each resource, and one to end it."""
    stream.kinds = frozenset(kind for kind in stream.kinds if _is_announced(client, kind))
    mine: list[str] = []

    async def watch() -> None:
        await client.over.wait()
        stream.end(client.failure())

    try:
        await _join(client, stream.uris, mine)
        stream.uris = frozenset(mine)
        async with background_task(watch):
            yield
    finally:
        with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
            await _leave(client, mine)
        client.subscriptions.users.subtract(mine)  # if its turn never came


def _is_announced(client: ClientSession, kind: Kind) -> bool:
    """Whether a legacy server says that it tells of changes to a list."""
    offered = client.capabilities.get(kind)
    return isinstance(offered, dict) and offered.get("listChanged") is True


async def _join(client: ClientSession, uris: Collection[str], mine: list[str]) -> None:
    """Subscribe to what nobody here has subscribed to yet, and note what was to be had."""
    users = client.subscriptions.users
    async with client.subscriptions.turn:
        for uri in uris:
            mine.append(uri)
            users[uri] += 1
            if users[uri] == 1 and not await _subscribe(client, uri):
                mine.remove(uri)
                del users[uri]


async def _leave(client: ClientSession, mine: list[str]) -> None:
    """Unsubscribe from what nobody else here wants."""
    users = client.subscriptions.users
    async with client.subscriptions.turn:
        gone = [uri for uri in mine if users[uri] == 1]
        users.subtract(mine)
        mine.clear()
        for uri in gone:
            del users[uri]
        with suppress(ClientError, McpError):  # the server is gone, or has ended it itself
            for uri in gone:
                await client.request("resources/unsubscribe", {"uri": uri})
