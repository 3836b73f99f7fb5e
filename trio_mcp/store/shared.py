"""The store that the instances of a server share, for what is opened to serve with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # few servers have one
    from trio_mcp.store.protocol import Store

_SHARED: ContextVar[Store | None] = ContextVar("shared store", default=None)


def shared_store() -> Store | None:
    """Return the store of the server whose lifespans are opened; `None` if it shares nothing."""
    return _SHARED.get()


@contextmanager
def sharing(store: Store) -> Iterator[None]:
    """Have what is opened in the block share a store."""
    token = _SHARED.set(store)
    try:
        yield
    finally:
        _SHARED.reset(token)
