"""The changes of a server: streams of them, and which notification is for which stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from typing import Final

import trio

from trio_mcp.errors import ProtocolError
from trio_mcp.peer.cancellation import CANCELLED, read_cancellation
from trio_mcp.public import public
from trio_mcp.registry.changes import KINDS, Change, Kind, ListChanged, ResourceUpdated
from trio_mcp.telemetry import meta_of
from trio_mcp.wire.conversion import from_wire
from trio_mcp.wire.jsonrpc import Id, Json, Notification
from trio_mcp.wire.notifications import AcknowledgedParams, ResourceUpdatedParams
from trio_mcp.wire.revisions import META_SUBSCRIPTION

_MOST_PENDING: Final = 10_000
_MOST_AGREED: Final = 10_000
_LIST_CHANGED: Final[dict[str, Kind]] = {
    f"notifications/{kind}/list_changed": kind for kind in KINDS
}


@public
class ChangeStream:
    """An asynchronous iterator over the changes that arrive while a subscription is open.

    Equal changes that you have not fetched yet become one, so a slow reader keeps only as many as
    there are different ones, and at most 10,000. The iteration ends when the server ends the
    subscription.
    """

    def __init__(
        self,
        kinds: Collection[Kind],
        uris: Collection[str],
        extensions: Mapping[str, Json] | None = None,
    ) -> None:
        self.kinds: Collection[Kind] = frozenset(kinds)
        """The lists that the server tells of; once it has answered, those that it agreed to."""
        self.uris: Collection[str] = frozenset(uris)
        """The resources that the server tells of, likewise."""
        self.extensions: Mapping[str, Json] = dict(extensions or {})
        """What extensions tell of, by their keys, likewise."""
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
        """Whether the subscription covers a change."""
        if isinstance(change, ListChanged):
            return change.kind in self.kinds
        if change.uri in self.uris:
            return True
        # It may be a part of a resource. Where subscriptions have ids, the server says whose.
        if self.id is not None:
            return bool(self.uris)
        return any(_is_part(change.uri, uri) for uri in self.uris)

    def note(self, change: Change) -> None:
        """Add a change, to be fetched."""
        if self._ended:
            return
        if len(self._pending) >= _MOST_PENDING and change not in self._pending:
            self.end(ProtocolError(f"more than {_MOST_PENDING} changes were not fetched"))
            return
        self._pending[change] = None
        self._parked.unpark_all()

    def end(self, failure: Exception | None = None) -> None:
        """End the iteration. The first reason counts."""
        if not self._ended:
            self._ended, self.failure = True, failure
        self.agreed.set()
        self._parked.unpark_all()

    def agree(self, wanted: Json) -> None:
        """Take note of what the server has agreed to, as far as it is what was to be expected."""
        if isinstance(wanted, dict):
            self.kinds = frozenset(kind for kind in KINDS if wanted.get(f"{kind}ListChanged"))
            self.extensions = {key: wanted[key] for key in self.extensions if key in wanted}
            uris = wanted.get("resourceSubscriptions")
            listed = uris[:_MOST_AGREED] if isinstance(uris, list) else []
            self.uris = frozenset(uri for uri in listed if isinstance(uri, str))
        self.agreed.set()


def _is_part(uri: str, whole: str) -> bool:
    whole = whole.removesuffix("/")
    return uri.startswith(whole) and uri[len(whole) :].startswith(("/", "?", "#"))


class Subscriptions:
    """The open subscriptions of one client."""

    def __init__(self, on_change: Callable[[Change], None]) -> None:
        self._on_change = on_change
        self.streams: Final[set[ChangeStream]] = set()
        self.users: Final[Counter[str]] = Counter()
        """How many of them want a resource (legacy: it is subscribed to only once)."""
        self.turn: Final = trio.Lock()
        """Held while that is changed, and the server told so."""

    def take(self, notification: Notification) -> None:
        """Pass a notification to the streams that it concerns."""
        params = notification.params
        if notification.method == CANCELLED:
            self._cancelled(notification)
            return
        id = meta_of(params).get(META_SUBSCRIPTION)
        if notification.method == "notifications/subscriptions/acknowledged":
            agreed = from_wire(params, AcknowledgedParams).notifications
            for stream in self._of(id):
                stream.agree(agreed)
            return
        change = _change_of(notification.method, params)
        if change is not None:
            self._on_change(change)
            for stream in self._of(id):
                if stream.wants(change):
                    stream.note(change)

    def _cancelled(self, notification: Notification) -> None:
        """End the streams of a subscription that the server has ended without an answer."""
        params = read_cancellation(notification)
        for stream in () if params is None else self._of(params.request_id):
            stream.end()

    def _of(self, id: Json) -> Iterable[ChangeStream]:
        return [stream for stream in self.streams if stream.id == id]


def _change_of(method: str, params: dict[str, Json]) -> Change | None:
    if method in _LIST_CHANGED:
        return ListChanged(_LIST_CHANGED[method])
    if method == "notifications/resources/updated":
        return ResourceUpdated(from_wire(params, ResourceUpdatedParams).uri)
    return None
