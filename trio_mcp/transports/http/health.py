"""What probes learn: how the service is, that it lives, and whether requests should come here.

| Page | Answers 200 | Otherwise |
|---|---|---|
| `/health` | always, with how the service is | |
| `/health/live` | always: the process takes requests, and needs no restart | |
| `/health/ready` | while requests should come here | 503, with the reasons |

They need no token, so what they ask of others is asked once a second at most.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal

import trio
from attrs import define, field

from trio_mcp.registry.catalogue import Catalogue
from trio_mcp.registry.kinds import LISTED
from trio_mcp.store.errors import StoreError
from trio_mcp.transports.http.guard import Guard
from trio_mcp.transports.http.request import HttpRequest
from trio_mcp.wire.jsonrpc import Json

if TYPE_CHECKING:
    from trio_mcp.store.protocol import Store
    from trio_mcp.transports.http.workers.worker import Worker

PATHS: Final = ("/health", "/health/live", "/health/ready")

Reason = Literal["stopping", "store", "servers"]

_STORE_TIMEOUT: Final = 2.0
"""Seconds that a store has to answer."""
_KEPT: Final = 1.0
"""Seconds for which its answer holds."""


@define(eq=False)
class Health:
    """The pages for probes.

    Args:
        catalogue: What is served.
        guard: Checks who asks.
        is_stopping: Whether no more requests are served.
        workers: Returns this process as one of several, if it is.
    """

    _catalogue: Catalogue
    _guard: Guard
    _is_stopping: Callable[[], bool]
    _workers: Callable[[], Worker | None]
    store: Store | None = field(default=None, init=False, repr=False)
    """What is shared with other instances; `None` for nothing."""
    since: float = field(factory=time.monotonic, init=False)
    _store_answers: bool = field(default=True, init=False)
    _asked: float = field(default=0.0, init=False)
    _asking: trio.Lock = field(factory=trio.Lock, init=False)

    @property
    def pages(self) -> Mapping[str, Callable[[HttpRequest], Awaitable[None]]]:
        return dict(zip(PATHS, (self._summary, self._live, self._ready), strict=True))

    async def _summary(self, http: HttpRequest) -> None:
        """Say how the service is: with workers, all of them together."""
        self._guard.check_origin(http, by_address=True)
        workers, since = self._workers(), self.since
        stopping = self._is_stopping()
        more: dict[str, Json] = {}
        if workers is not None:
            stopping, since = workers.ending, workers.since
            more["workers_live"] = workers.live
        servers = await self._servers()
        if servers:
            more["servers"] = servers
        health = {
            "status": "stopping" if stopping else "healthy",
            "uptime_seconds": round(time.monotonic() - since, 3),
            "tools_registered": sum(1 for _ in self._catalogue.table("tools")),
            **more,
        }
        await http.respond_json(health)

    async def _live(self, http: HttpRequest) -> None:
        self._guard.check_origin(http, by_address=True)
        await http.respond_json({"status": "alive"})

    async def _ready(self, http: HttpRequest) -> None:
        self._guard.check_origin(http, by_address=True)
        reasons: list[Reason] = []
        workers = self._workers()
        if self._is_stopping() if workers is None else workers.ending:
            reasons.append("stopping")
        if not await self._has_store():
            reasons.append("store")
        servers = await self._servers()
        gone = sorted(name for name, state in servers.items() if state != "connected")
        if gone and len(gone) == len(servers) and not self._offers_its_own():
            reasons.append("servers")
        status = "unavailable" if reasons else "degraded" if gone else "ready"
        said: dict[str, Json] = {"status": status, "reasons": reasons}
        await http.respond_json(
            {**said, "servers_gone": gone} if gone else said, 503 if reasons else 200
        )

    async def _servers(self) -> Mapping[str, str]:
        """Return how servers elsewhere stand, by name: of each, the worst for any worker."""
        servers, workers = self._catalogue.servers(), self._workers()
        if workers is None or not servers:
            return servers
        return (await workers.total())["servers"]

    def _offers_its_own(self) -> bool:
        """Whether there is anything to serve besides what is elsewhere."""
        ours = [self._catalogue, *self._catalogue.all_providers()]
        return any(
            entry.origin is None
            for provider in ours
            if provider.status is None
            for kind in LISTED
            for entry in provider.table(kind).values()
        )

    async def _has_store(self) -> bool:
        """Whether the store answers, or has a moment ago."""
        if self.store is None:
            return True
        async with self._asking:
            if trio.current_time() >= self._asked + _KEPT:
                with trio.move_on_after(_STORE_TIMEOUT) as limit:
                    try:
                        await self.store.get("health:probe")
                        self._store_answers = True
                    except StoreError:
                        self._store_answers = False
                self._store_answers &= not limit.cancelled_caught
                self._asked = trio.current_time()
        return self._store_answers
