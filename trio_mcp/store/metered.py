"""A store whose operations are measured."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter
from typing import Any, Final, cast

from attrs import field, frozen

from trio_mcp.store.changes import Conflict
from trio_mcp.store.protocol import Store

Measure = Callable[[str, str, float], object]
"""Takes the name of an operation, its outcome (`ok`, `conflict` or `error`), and its seconds."""

OPERATIONS: Final = ("commit", "get", "scan", "claim", "read")


@frozen(eq=False)
class _MeteredStore:
    store: Store = field(repr=False)
    _measure: Measure

    async def _measured(
        self, operation: str, run: Callable[..., Awaitable[Any]], *args: Any, **options: Any
    ) -> Any:
        began, outcome = perf_counter(), "ok"
        try:
            return await run(*args, **options)
        except Conflict:
            outcome = "conflict"
            raise
        except Exception:
            outcome = "error"
            raise
        finally:
            self._measure(operation, outcome, perf_counter() - began)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        return partial(self._measured, name, found) if name in OPERATIONS else found


def metered(store: Store, measure: Measure) -> Store:
    """Return a store that passes all operations on, and has those measured that end."""
    return cast("Store", _MeteredStore(store, measure))
