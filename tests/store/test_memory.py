"""The store in memory."""

from __future__ import annotations

import math

import pytest
import trio
import trio.testing

from tests.store.contract import MEGABYTE, Contract, value_of
from tests.store.times import Time
from trio_mcp.store.changes import Append, Delete, Drop, News, Put
from trio_mcp.store.errors import StoreFull
from trio_mcp.store.memory import MemoryStore
from trio_mcp.store.protocol import Store


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def store(time: Time) -> Store:
    return MemoryStore(clock=time)


class TestMemory(Contract):
    """It does what every store does."""


async def test_time_is_that_of_trio(autojump_clock: trio.testing.MockClock) -> None:
    store = MemoryStore()
    await store.commit(Put("a:x", b"", ttl=10))
    await trio.sleep(9)
    assert await store.get("a:x") is not None
    await trio.sleep(1)
    assert await store.get("a:x") is None


async def test_a_store_that_is_full_takes_nothing_and_loses_nothing() -> None:
    store = MemoryStore(max_bytes=MEGABYTE)
    for number in range(10):
        await store.commit(Put(f"a:{number}", bytes(100_000), ttl=99))
    for too_much in (
        Put("a:10", bytes(100_000), ttl=99),
        Append("a:log", bytes(100_000), ttl=99, most=1),
    ):
        with pytest.raises(StoreFull, match="max_bytes"):
            await store.commit(too_much)
    assert await store.get("a:10") is None
    assert await value_of(store, "a:0") == bytes(100_000)
    await store.commit(News("a:x"), Delete("a:0"))
    await store.commit(Put("a:10", bytes(100_000), ttl=99))


async def test_empty_values_count_as_well() -> None:
    store = MemoryStore(max_bytes=MEGABYTE)
    with pytest.raises(StoreFull):
        for number in range(3000):
            await store.commit(Put(f"a:{number}", b"", ttl=99))
    store = MemoryStore(max_bytes=MEGABYTE)
    with pytest.raises(StoreFull):
        for _ in range(3000):
            await store.commit(Append("a:log", b"", ttl=99, most=10_000))


async def test_what_has_expired_makes_room(store: Store, time: Time) -> None:
    store = MemoryStore(max_bytes=MEGABYTE, clock=time)
    for _ in range(10):
        for number in range(1000):
            await store.commit(Put(f"a:f/{number}", b"", ttl=10))
        time.passes(10)
    assert (await store.scan("a:f")).entries == []


async def test_nothing_is_left_of_what_is_gone(time: Time) -> None:
    """Whether it was deleted, dropped, trimmed or has expired."""
    store = MemoryStore(clock=time)
    for number in range(300):
        await store.commit(
            Put(f"a:q/{number}", bytes(100), ttl=10, delay=number % 7),
            Put(f"a:deleted/{number}", bytes(100), ttl=math.inf),
            Append("a:expires", bytes(100), ttl=10, most=7),
            Append(f"a:dropped{number}", bytes(100), ttl=math.inf, most=7),
        )
        await store.commit(Delete(f"a:deleted/{number}"), Drop(f"a:dropped{number}"))
        await store.claim("a:q", 3)
    time.passes(10)
    await store.commit()
    await store.commit()
    tables = store._tables
    assert tables.size == 0
    assert not [*tables._entries, *tables._folders, *tables._logs, *tables._expiry]


@pytest.mark.long
async def test_a_hundred_thousand_entries_are_swept_without_holding_the_loop(
    store: Store, time: Time
) -> None:
    """A commit sweeps a bounded number, so none pays for all."""
    for begin in range(0, 100_000, 100):
        await store.commit(*(Put(f"a:q/{n}", b"", ttl=10) for n in range(begin, begin + 100)))
    time.passes(10)
    assert isinstance(store, MemoryStore)
    left = [store._tables.size]
    while left[-1]:
        await store.commit(News("a:x"))
        left.append(store._tables.size)
    assert len(left) > 100
