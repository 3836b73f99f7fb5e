"""Several apps in one process that share a store."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import trio

from tests.transports.http.support import CANCELS, Host, LegacyClient
from trio_mcp import HttpPolicy, Registry, http_app
from trio_mcp.store.changes import Change, LogPage
from trio_mcp.store.errors import StoreUnavailable
from trio_mcp.store.memory import MemoryStore
from trio_mcp.store.protocol import Store


class Unsteady(MemoryStore):
    """A store in memory that can be away, and that counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.asked = 0

    async def _read(self, work: Any) -> Any:
        self._note()
        return await super()._read(work)

    async def _write(self, work: Any, changes: Any = ()) -> Any:
        self._note()
        return await super()._write(work, changes)

    def _note(self) -> None:
        self.asked += 1
        if self.away:
            raise StoreUnavailable("it is away")


class View(MemoryStore):
    """A store in memory as one instance sees it, which may be cut off from it."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self.tables, self.watches = store.tables, store.watches
        self.is_cut_off = False
        self.hears_of_sessions = trio.Event()
        self.hears_of_sessions.set()

    async def read(self, log: str, *args: Any, **options: Any) -> LogPage:
        if log.endswith(":inbox"):
            await self.hears_of_sessions.wait()
        return await super().read(log, *args, **options)

    async def commit(self, *changes: Change) -> list[int]:
        if self.is_cut_off:
            raise StoreUnavailable("it is away")
        return await super().commit(*changes)


class Fleet:
    """Several apps that share a store, and a client whose requests go to one after the other."""

    def __init__(self, hosts: list[Host], store: Any, views: list[View]) -> None:
        self.hosts = hosts
        self.store = store
        self.views = views

    def client(self, **options: Any) -> Wanderer:
        return Wanderer(self.hosts, **options)


class Wanderer(LegacyClient):
    """A client behind a balancer that sends each request elsewhere."""

    def __init__(self, hosts: list[Host], **options: Any) -> None:
        self._turns = itertools.cycle(hosts)
        super().__init__(hosts[0], **options)

    @property
    def host(self) -> Host:
        return next(self._turns)

    @host.setter
    def host(self, host: Host) -> None:
        pass


@asynccontextmanager
async def fleet(
    make: Callable[[], Registry],
    policy: HttpPolicy | None = None,
    size: int = 3,
    store: Store | None = None,
    **options: Any,
) -> AsyncIterator[Fleet]:
    """Serve a registry of its own by each of several apps."""
    common = MemoryStore()
    views = [View(common) for _ in range(size)] if store is None else []
    failure: BaseException | None = None
    async with AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(trio.open_nursery())
        hosts = []
        for number in range(size):
            seen = views[number] if store is None else store
            app = http_app(make(), policy=policy, store=seen, **options)
            await stack.enter_async_context(app.running())
            hosts.append(Host(app, nursery, CANCELS))
        try:
            yield Fleet(hosts, common if store is None else store, views)
        except BaseException as error:
            failure = error
        nursery.cancel_scope.cancel()
    if isinstance(failure, trio.Cancelled):
        await trio.lowlevel.checkpoint_if_cancelled()
        raise AssertionError("an app has ended by itself") from failure
    if failure is not None:
        raise failure
