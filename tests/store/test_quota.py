"""How many things of a kind an owner has, however often they begin and end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.store.values import value_of
from trio_mcp.store.memory import MemoryStore
from trio_mcp.store.opening import open_store
from trio_mcp.store.protocol import Store
from trio_mcp.store.quota import Quota

pytestmark = pytest.mark.requirement("M2", "Q2")

each_store = pytest.mark.parametrize("kind", ["memory", "sqlite"])


@asynccontextmanager
async def opened(kind: str, directory: Path) -> AsyncIterator[Store]:
    """Open a store of a kind."""
    async with open_store("memory:" if kind == "memory" else directory / "store.db") as store:
        yield store


def quota(store: Store, limit: float = 3, keep: float = 100) -> Quota:
    """The things of ada."""
    return Quota(store, "things", "ada", limit, keep)


async def counted(store: Store) -> int:
    """How many are counted."""
    return int(await value_of(store, "things-ada:count") or 0)


@each_store
async def test_what_begins_twice_at_a_time_counts_once(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(quota(store).add, "a")
        await quota(store).add("b")
        assert await counted(store) == 2


@each_store
async def test_what_ends_twice_at_a_time_ends_once(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        for id in "abc":
            await quota(store).add(id)
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(quota(store).remove, "a")
        await quota(store).remove("never")
        assert await counted(store) == 2


async def test_beyond_the_limit_those_go_that_were_not_used_longest(autojump_clock: Any) -> None:
    store = MemoryStore()
    for id in "abc":
        assert await quota(store).add(id) == []
        await trio.sleep(1)
    await store.commit(quota(store).sign("a"))
    await trio.sleep(1)
    assert await quota(store).add("d") == ["b"]
    await quota(store).remove("b")
    assert await counted(store) == 3


async def test_what_has_expired_is_counted_no_longer(autojump_clock: Any) -> None:
    store = MemoryStore()
    for id in "abc":
        await quota(store).add(id)
    await trio.sleep(101)
    for id in "def":
        assert await quota(store).add(id) == []


async def test_many_things_are_counted_with_turns_for_others() -> None:
    store = MemoryStore()
    for number in range(1200):
        await store.commit(quota(store).sign(str(number)))
    assert await quota(store, limit=1e6).add("one more") == []
    assert await counted(store) == 1201


async def test_without_a_limit_nothing_is_counted() -> None:
    store = MemoryStore()
    assert await quota(store, limit=float("inf")).add("a") == []
    await quota(store, limit=float("inf")).remove("a")
    assert await counted(store) == 0
