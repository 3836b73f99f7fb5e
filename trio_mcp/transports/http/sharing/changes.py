"""Changes of a registry, told to the clients of all instances.

Each instance writes its changes to one log, and reads those of the others. What was missed, because
the store was away for long, may be anything: so all listeners are asked to look again.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import trio

from trio_mcp.loggers import logger_of
from trio_mcp.registry.changes import KINDS, Changes, ListChanged, ResourceUpdated
from trio_mcp.store.changes import Append, News, key_part
from trio_mcp.store.errors import StoreError
from trio_mcp.store.exact import dumps, loads
from trio_mcp.transports.http.sharing.following import end_of, follow
from trio_mcp.transports.http.sharing.instance import Instance

logger = logger_of("trio_mcp.http")

_KEPT: Final = 1000
_KEPT_FOR: Final = 3600.0
_AT_ONCE: Final = 1000

_PAUSE: Final = 1.0

SharedChange = ListChanged | ResourceUpdated


class SharedChanges:
    """The changes of one registry, between this instance and the others."""

    def __init__(self, instance: Instance, changes: Changes, name: str) -> None:
        self._instance = instance
        self._changes = changes
        self._log = f"changes:{key_part(name)}"  # not every name can be part of a key
        self._token = trio.lowlevel.current_trio_token()
        self._pending: dict[SharedChange, None] = {}
        self._arrived = trio.lowlevel.ParkingLot()

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
        if trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is self._token:
            self._keep(change)
        else:
            self._token.run_sync_soon(self._keep, change, idempotent=True)

    def _keep(self, change: SharedChange) -> None:
        self._pending[change] = None
        self._arrived.unpark_all()

    async def _tell(self) -> None:
        while True:
            while not self._pending:
                await self._arrived.park()
            told = list(self._pending)[:_AT_ONCE]
            item = dumps([self._instance.name, [_written(change) for change in told]])
            append = Append(self._log, item, ttl=_KEPT_FOR, limit=_KEPT)
            try:
                await self._instance.store.commit(append, News(self._log))
            except StoreError as error:
                logger.warning("Others are not told of changes: %s", error)
                await trio.sleep(_PAUSE)
                continue
            for change in told:
                del self._pending[change]

    # -- those of others ------------------------------------------------------------------

    async def _hear(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        store, missed = self._instance.store, self._anything_may_have_changed
        end = await end_of(store, self._log)
        task_status.started()
        away = partial(logger.warning, "Changes of other instances are not heard of: %s")
        await follow(store, self._log, away, take=self._take, missed=missed, position=end)

    async def _take(self, item: bytes) -> None:
        sender, changes = loads(item)
        if sender != self._instance.name:
            for kind, what in changes:
                self._changes.hear(ListChanged(what) if kind == "list" else ResourceUpdated(what))

    async def _anything_may_have_changed(self) -> None:
        for kind in KINDS:
            self._changes.hear(ListChanged(kind))
        for uri in [uri for uri in self._changes.watchers if isinstance(uri, str)]:
            self._changes.hear(ResourceUpdated(uri))


def _written(change: SharedChange) -> tuple[str, str]:
    if isinstance(change, ListChanged):
        return "list", change.kind
    return "resource", change.uri
