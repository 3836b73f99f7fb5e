"""Changes of a registry, and the listeners that are notified of them.

A change is a value. Each listener queues the changes that it has not taken yet in a set, so a burst
of equal ones is one change, and a slow listener keeps no more than there are different ones.

Who listens waits in a task. There may be thousands of them, so they hear of a change some at a
time, soon after it. To wake a task costs far more than to send what it would send: a listener that
can tell of a change without waiting does so at once, and its task sleeps on.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Final, Literal, Protocol, Self

import trio
from attrs import frozen

from trio_mcp.background import of_this_run, runs_here
from trio_mcp.public import public

Kind = Literal["tools", "resources", "prompts"]
KINDS: Final[tuple[Kind, ...]] = ("tools", "resources", "prompts")


@public
@frozen
class ListChanged:
    """The list of tools, of resources (templates among them) or of prompts has changed."""

    kind: Kind


@public
@frozen
class ResourceUpdated:
    """The contents of a resource have changed."""

    uri: str


@frozen
class Topic:
    """Something that an extension tells of has changed."""

    key: str
    """What clients ask for it by (`ExtensionSubscription.key`)."""
    value: str | None
    """Which of the things that there are under the key."""


@frozen(eq=False, repr=False)
class Notice:
    """A notification to one client alone, as a line that is ready to be sent."""

    line: bytes


Change = ListChanged | ResourceUpdated

Render = Callable[[str | None], Awaitable[tuple[str, dict[str, Any]] | None]]
"""Makes the notification for a topic, by its value: method and parameters."""


TellNowait = Callable[[Change | Topic | Notice], bool]
"""Tells of a change if that takes no waiting, and returns whether it did. It must not raise."""

_AT_ONCE: Final = 64
"""Listeners that queue changes, or tell of them, before others have their turn."""


class _Telling:
    """Has the listeners of one run of Trio queue changes and tell of them: some in each turn."""

    def __init__(self) -> None:
        self.token: Final = trio.lowlevel.current_trio_token()
        self._concerned: dict[Change | Topic, set[Watcher]] = {}
        """Those that have yet to queue a change. What changed first comes first."""
        self._ready: dict[Listener, None] = {}
        self._has_turn = False

    def note(self, changes: Changes, change: Change | Topic) -> None:
        """Have all listeners of a registry queue a change. May be called in any thread."""
        if runs_here(self.token):
            self._note(changes, change)
        else:
            # Idempotent: a thread that is quicker than the loop leaves one entry, not many.
            with suppress(trio.RunFinishedError):
                self.token.run_sync_soon(self._note, changes, change, idempotent=True)

    def soon(self, listener: Listener) -> None:
        """Have a listener tell of what it has queued: soon, as for a burst."""
        self._ready[listener] = None
        self._take_turn()

    def catch_up(self, listener: Listener) -> None:
        """Have a listener queue now what it would in a later turn."""
        for change, concerned in self._concerned.items():
            if listener in concerned:
                concerned.discard(listener)
                listener.queue(change)

    def _note(self, changes: Changes, change: Change | Topic) -> None:
        self._concerned.setdefault(change, set()).update(changes.watchers_for(change))
        self._take_turn()

    def _queue_some(self) -> None:
        left = _AT_ONCE
        while self._concerned:
            change, concerned = next(iter(self._concerned.items()))
            while concerned:
                if not left:
                    return
                left -= 1
                watcher = concerned.pop()
                if isinstance(watcher, Listener) and watcher.run is self:
                    watcher.queue(change)
            del self._concerned[change]

    def _take_turn(self) -> None:
        if not self._has_turn:
            with suppress(trio.RunFinishedError):
                self.token.run_sync_soon(self._turn)
            self._has_turn = True

    def _turn(self) -> None:
        self._has_turn = False
        self._queue_some()
        for listener in list(islice(self._ready, _AT_ONCE)):
            del self._ready[listener]
            listener.tell()
        if self._ready or self._concerned:
            self._take_turn()


_TELLING: Final = trio.lowlevel.RunVar[_Telling]("telling")


class Listener:
    """Listens to some changes, for the length of a block. Made by `Changes.listen`."""

    __slots__ = (  # of which there are many
        "_changes",
        "_parked",
        "_pending",
        "kinds",
        "on_queued",
        "owner",
        "run",
        "tell_nowait",
        "topics",
        "uris",
    )

    def __init__(
        self, changes: Changes, kinds: Iterable[Kind], uris: Iterable[str], owner: Hashable
    ) -> None:
        self._changes = changes
        self.owner = owner
        self.run = of_this_run(_TELLING, _Telling)
        self._parked: trio.lowlevel.ParkingLot | None = None  # where a task waits in `next`
        self._pending: dict[Change | Topic | Notice, None] = {}
        self.kinds: Collection[Kind] = tuple(kinds)
        """The lists that it listens to. May be changed."""
        self.uris: dict[str, None] = {}
        self.topics: dict[Topic, Render] = {}
        self.tell_nowait: TellNowait | None = None
        """Tells of changes in place of a task that waits in `next`, which is woken for others."""
        self.on_queued: Callable[[], object] | None = None
        """Called when a change is queued, to tell of it by `rest`; then no task waits in `next`."""
        for uri in uris:
            self.watch(uri)

    def __enter__(self) -> Self:
        self._changes.listeners.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._changes.listeners.discard(self)
        self.on_queued = None
        self._pending.clear()
        for uri in self.uris:
            self._changes.remove_watcher(uri, self)
        for topic in self.topics:
            self._changes.remove_watcher(topic, self)
        self.uris.clear()
        self.topics.clear()

    def watch(self, uri: str) -> None:
        self.uris[uri] = None
        self._changes.add_watcher(uri, self)

    def unwatch(self, uri: str) -> None:
        self.uris.pop(uri, None)
        self._forget(uri, ResourceUpdated(uri))

    def watch_topic(self, topic: Topic, render: Render) -> None:
        self.topics[topic] = render
        self._changes.add_watcher(topic, self)

    def unwatch_topic(self, topic: Topic) -> None:
        self.topics.pop(topic, None)
        self._forget(topic, topic)

    def owner_of(self, uri: str) -> Hashable:
        return self.owner

    def _forget(self, watched: str | Topic, change: Change | Topic) -> None:
        self._pending.pop(change, None)
        self._changes.remove_watcher(watched, self)

    def note(self, change: Change | Topic | Notice) -> None:
        """Queue a change, unless an equal one is queued. May be called in any thread."""
        if runs_here(self.run.token):
            self.run.catch_up(self)  # to keep the order
            self.queue(change)
        else:
            with suppress(trio.RunFinishedError):
                self.run.token.run_sync_soon(self.queue, change, idempotent=True)

    def queue(self, change: Change | Topic | Notice) -> None:
        """Queue a change if it is listened to, and tell of it soon."""
        if self._wants(change):
            self._pending[change] = None
            if self.on_queued is not None:
                self.run.soon(self)
            elif self._parked:  # else the task is busy with an earlier one, or ends
                if self.tell_nowait is None:
                    self._parked.unpark_all()
                else:
                    self.run.soon(self)

    def tell(self) -> None:
        """Tell of what is queued, or wake the task that waits if that takes waiting."""
        if self._pending and self.on_queued is not None:
            self.on_queued()
        while self._pending and self._parked:
            if self.tell_nowait is None or not self.tell_nowait(next(iter(self._pending))):
                self._parked.unpark_all()
            else:
                self._take()

    def _wants(self, change: Change | Topic | Notice) -> bool:
        if isinstance(change, ListChanged):
            return change.kind in self.kinds
        if isinstance(change, ResourceUpdated):
            return change.uri in self.uris
        return isinstance(change, Notice) or change in self.topics

    async def next(self) -> Change | Topic | Notice:
        """Wait for a change and take it from the queue. If cancelled, nothing is lost."""
        if self._parked is None:
            self._parked = trio.lowlevel.ParkingLot()
        while not self._pending:
            await self._parked.park()
            # A task that was woken may have been cancelled since, and then must not take anything.
            await trio.lowlevel.checkpoint_if_cancelled()
        return self._take()

    def rest(self) -> Iterator[Change | Topic | Notice]:
        """Take what is queued, without waiting for more."""
        self.run.catch_up(self)
        while self._pending:
            yield self._take()

    def _take(self) -> Change | Topic | Notice:
        change = next(iter(self._pending))
        del self._pending[change]
        return change


class Watcher(Protocol):
    """Subscribed to a resource, or to a topic of an extension."""

    def owner_of(self, uri: str) -> Hashable:
        """To whose share of what is bounded it counts that a resource is watched."""

    def note(self, change: Change | Topic) -> None:
        """Queue a change. May be called in any thread."""


class Changes:
    """The changes of one registry, and its listeners.

    Args:
        watched: Called with the URI of a resource when it gets its first watcher.
        unwatched: Called when it has lost the last one.
    """

    def __init__(self, watched: Callable[[str], None], unwatched: Callable[[str], None]) -> None:
        self._watched = watched
        self._unwatched = unwatched
        self.versions: Final[dict[Kind, int]] = dict.fromkeys(KINDS, 0)
        """A number for each list, which is another one after each change."""
        self._next_version: Final = itertools.count(1)
        self.updates = 0
        """A number that is another one after each change of a resource, or of their list."""
        self.listeners: Final[set[Listener]] = set()
        self.watchers: Final[dict[str | Topic, Watcher]] = {}
        """By the URI of a resource, or the topic of an extension, one of its watchers."""
        self._others: Final[dict[str | Topic, set[Watcher]]] = {}
        """The rest of them, where there is more than one: few sets are quick to be collected."""
        self.relays: Final[set[Callable[[ListChanged | ResourceUpdated], None]]] = set()
        """Pass changes on to other servers of the same registry. They are called in any thread."""

    def add_watcher(self, watched: str | Topic, watcher: Watcher) -> None:
        """Subscribe a watcher to a resource, by its URI, or to a topic of an extension."""
        first = self.watchers.get(watched)
        if first is None:
            self.watchers[watched] = watcher
            if isinstance(watched, str):
                self._watched(watched)
        elif first is not watcher:
            self._others.setdefault(watched, set()).add(watcher)

    def watchers_of(self, watched: str | Topic) -> tuple[Watcher, ...]:
        """Return who is subscribed to a resource, or to a topic, at the moment."""
        first = self.watchers.get(watched)
        return () if first is None else (first, *self._others.get(watched, ()))

    def owner_of(self, uri: str) -> Hashable:
        """Return to whose share it counts that a resource is watched: one of its watchers'."""
        watcher = self.watchers.get(uri)
        return None if watcher is None else watcher.owner_of(uri)

    def remove_watcher(self, watched: str | Topic, watcher: Watcher) -> None:
        first, others = self.watchers.get(watched), self._others.get(watched)
        if others is not None:
            if first is watcher:
                self.watchers[watched] = others.pop()
            others.discard(watcher)
            if not others:
                del self._others[watched]
        elif first is watcher:
            del self.watchers[watched]
            if isinstance(watched, str):
                self._unwatched(watched)

    def list_changed(self, kind: Kind) -> None:
        self._tell(ListChanged(kind))

    def resource_updated(self, uri: str) -> None:
        self._tell(ResourceUpdated(uri))

    def _tell(self, change: ListChanged | ResourceUpdated) -> None:
        for relay in list(self.relays):
            relay(change)
        self.hear(change)

    def hear(self, change: ListChanged | ResourceUpdated) -> None:
        """Note a change that other servers of the registry know already."""
        if isinstance(change, ResourceUpdated) or change.kind == "resources":
            self.updates = next(self._next_version)
        if isinstance(change, ListChanged):  # in one step: there may be threads
            self.versions[change.kind] = next(self._next_version)
        self._note(change)

    def topic_changed(self, topic: Topic) -> None:
        self._note(topic)

    def _note(self, change: Change | Topic) -> None:
        runs = set()
        for watcher in self.watchers_for(change):
            if isinstance(watcher, Listener):
                runs.add(watcher.run)
            else:
                watcher.note(change)
        for run in runs:
            run.note(self, change)

    def watchers_for(self, change: Change | Topic) -> Collection[Watcher]:
        """Return who may have to know of a change, at the moment."""
        if isinstance(change, ListChanged):
            return tuple(self.listeners)
        return self.watchers_of(change.uri if isinstance(change, ResourceUpdated) else change)

    def listen(
        self, kinds: Iterable[Kind] = (), uris: Iterable[str] = (), owner: Hashable = None
    ) -> Listener:
        """Make a listener, which listens for the length of its `with` block."""
        return Listener(self, kinds, uris, owner)
