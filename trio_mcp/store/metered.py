"""A store whose operations are measured."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from time import perf_counter
from typing import Any, Final, TypeVar

from attrs import field, frozen

from trio_mcp.store.changes import READ_BYTES, Change, Claimed, Conflict, Entry, LogPage, Page
from trio_mcp.store.protocol import Store
from trio_mcp.store.watching import Watch

T = TypeVar("T")

Measure = Callable[[str, str, float], object]
"""Takes the name of an operation, its outcome (`ok`, `conflict` or `error`), and its seconds."""

OPERATIONS: Final = ("commit", "get", "scan", "claim", "read")


@frozen(eq=False)
class MeteredStore:
    """Passes all operations on (a `Store`), and has those measured that end. `watch` goes on."""

    store: Store = field(repr=False)
    _measure: Measure

    async def _measured(self, operation: str, work: Awaitable[T]) -> T:
        began, outcome = perf_counter(), "ok"
        try:
            return await work
        except Conflict:
            outcome = "conflict"
            raise
        except Exception:
            outcome = "error"
            raise
        finally:
            self._measure(operation, outcome, perf_counter() - began)

    async def commit(self, *changes: Change) -> list[int]:
        return await self._measured("commit", self.store.commit(*changes))

    async def get(self, key: str) -> Entry | None:
        return await self._measured("get", self.store.get(key))

    async def scan(self, folder: str, cursor: str = "", *, limit: int = 100) -> Page:
        return await self._measured("scan", self.store.scan(folder, cursor, limit=limit))

    async def claim(self, folder: str, lease: float, *, limit: int = 1) -> Claimed:
        return await self._measured("claim", self.store.claim(folder, lease, limit=limit))

    async def read(
        self, log: str, after: int = 0, *, limit: int = 100, max_bytes: int = READ_BYTES
    ) -> LogPage:
        reading = self.store.read(log, after, limit=limit, max_bytes=max_bytes)
        return await self._measured("read", reading)

    def watch(self, *channels: str) -> AbstractAsyncContextManager[Watch]:
        return self.store.watch(*channels)

    def __getattr__(self, name: str) -> Any:
        """Return what a store has besides."""
        return getattr(self.store, name)
