"""Changes of a registry, told to the clients of all instances.

Each instance writes its changes to one log, and reads those of the others. What was missed, because
the store was away for long, may be anything: so all listeners are asked to look again. The same is
done where more has changed, while the store was away, than is kept.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from functools import partial
from math import inf
from typing import Any, Final

import trio

from trio_mcp.loggers import logger_of
from trio_mcp.registry.changes import KINDS, Changes, ListChanged, ResourceUpdated
from trio_mcp.store.changes import Append, News, key_part
from trio_mcp.store.errors import StoreError
from trio_mcp.store.exact import dumps, read
from trio_mcp.transports.http.sharing.following import end_of, follow
from trio_mcp.transports.http.sharing.instance import Instance

logger = logger_of("trio_mcp.http")

_KEPT: Final = 1000
KEPT_BYTES: Final = 16 * 1024 * 1024
UNWRITTEN_BYTES: Final = 4 * 1024 * 1024
_EACH: Final = 256
"""Bytes that a change counts for besides its URI."""
_KEPT_FOR: Final = 3600.0
_AT_ONCE: Final = 1000

_PAUSE: Final = 1.0

SharedChange = ListChanged | ResourceUpdated

_ANYTHING: Final = None
"""Stands for more changes than are kept."""


class SharedChanges:
    """The changes of one registry, between this instance and the others.

    Args:
        longest: The longest URI that a client can be subscribed to.
    """

    def __init__(self, instance: Instance, changes: Changes, name: str, longest: int) -> None:
        self._longest = longest
        self._instance = instance
        self._changes = changes
        self._log = f"changes:{key_part(name)}"  # not every name can be part of a key
        self._token = trio.lowlevel.current_trio_token()
        self._pending: dict[SharedChange | None, None] = {}
        self._pending_bytes = 0
        self._arrived = trio.lowlevel.ParkingLot()
        self._on_their_way: Counter[SharedChange | None] = Counter()  # written, not read back yet
        self.position = 0
        """How far the log has been read, as the time of an item."""
        self._latest: OrderedDict[str, float] = OrderedDict()  # where each stands there

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Tell changes, and hear of those of others, until cancelled."""
        self._changes.relays.add(self._relay)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tell)
                await nursery.start(self._hear)
                task_status.started()
        finally:
            self._changes.relays.discard(self._relay)

    # -- ours -----------------------------------------------------------------------------

    def _relay(self, change: SharedChange) -> None:
        """Keep a change until it is written. May be called in any thread."""
        if isinstance(change, ResourceUpdated) and len(change.uri) > self._longest:
            return
        if trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is self._token:
            self._keep(change)
        else:
            self._token.run_sync_soon(self._keep, change, idempotent=True)

    def _keep(self, change: SharedChange) -> None:
        self._remember(change, inf)  # until it is known
        if change not in self._pending and _ANYTHING not in self._pending:
            self._pending[change] = None
            self._pending_bytes += _size_of(change)
            if self._pending_bytes > UNWRITTEN_BYTES:
                self._pending = {_ANYTHING: None}
        self._arrived.unpark_all()

    async def _tell(self) -> None:
        while True:
            while not self._pending:
                await self._arrived.park()
            told = list(self._pending)[:_AT_ONCE]
            for change in told:  # it may change again before this is written
                del self._pending[change]
            self._pending_bytes = sum(map(_size_of, self._pending))
            self._on_their_way.update(told)
            item = dumps([self._instance.name, [_written(change) for change in told]])
            append = Append(self._log, item, ttl=_KEPT_FOR, limit=_KEPT, max_bytes=KEPT_BYTES)
            try:
                await self._instance.store.commit(append, News(self._log))
            except StoreError as error:
                logger.warning("Others are not told of changes: %s", error)
                self._pending = {**dict.fromkeys(told), **self._pending}
                self._pending_bytes = sum(map(_size_of, self._pending))
                self._on_their_way.subtract(told)
                await trio.sleep(_PAUSE)

    def has_happened_since(self, change: SharedChange, position: float) -> bool:
        """Whether a change is known to have happened after the log had been read so far."""
        return self._latest.get(_name_of(change), 0) > position

    def _remember(self, change: SharedChange, position: float) -> None:
        name = _name_of(change)
        self._latest[name] = position
        self._latest.move_to_end(name)
        while len(self._latest) > _KEPT:
            self._latest.popitem(last=False)

    # -- those of others ------------------------------------------------------------------

    async def _hear(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        store, missed = self._instance.store, self._anything_may_have_changed
        place = await end_of(store, self._log)
        self.position = place.time
        task_status.started()
        away = partial(logger.warning, "Changes of other instances are not heard of: %s")
        await follow(store, self._log, away, take=self._take, missed=missed, place=place)

    async def _take(self, item: bytes, position: int) -> None:
        self.position = position
        sender, changes = read(item, "a change at another instance", _told)
        for change in changes:
            if sender != self._instance.name:
                if change is None:
                    await self._anything_may_have_changed()
                else:
                    self._remember(change, position)
                    self._changes.hear(change)
                continue
            self._on_their_way[change] -= 1
            if self._on_their_way[change] <= 0:
                del self._on_their_way[change]
                if change is not None and change not in self._pending:
                    self._remember(change, position)

    async def _anything_may_have_changed(self) -> None:
        for kind in KINDS:
            self._changes.hear(ListChanged(kind))
        for uri in [uri for uri in self._changes.watchers if isinstance(uri, str)]:
            self._changes.hear(ResourceUpdated(uri))


def _size_of(change: SharedChange | None) -> int:
    return _EACH + (len(change.uri) if isinstance(change, ResourceUpdated) else 0)


def _name_of(change: SharedChange) -> str:
    """Return what is kept of a change for long: its URI may be long, too."""
    return key_part(repr(change))


def _told(told: Any) -> tuple[str, list[SharedChange | None]]:
    """Return which instance has told of which changes."""
    sender, changes = told
    return sender, [_change(*change) for change in changes]


def _change(kind: str, what: str) -> SharedChange | None:
    if kind == "any":
        return _ANYTHING
    return ListChanged(KINDS[KINDS.index(what)]) if kind == "list" else ResourceUpdated(str(what))


def _written(change: SharedChange | None) -> tuple[str, str]:
    if change is None:
        return "any", ""
    if isinstance(change, ListChanged):
        return "list", change.kind
    return "resource", change.uri
