"""The store in memory."""

from __future__ import annotations

import math
import tracemalloc
from random import Random
from time import thread_time

import pytest
import trio
import trio.testing

from tests.store.contents import items_of, values_of
from tests.store.values import MEGABYTE, value_of
from trio_mcp.store.changes import Add, Append, Delete, Drop, News, Put, Touch
from trio_mcp.store.errors import StoreFull
from trio_mcp.store.memory import MemoryStore
from trio_mcp.store.memory_tables import MemoryTables
from trio_mcp.store.protocol import Store
from trio_mcp.testing import StoreClock, StoreSuite


@pytest.fixture
def clock() -> StoreClock:
    return StoreClock()


@pytest.fixture
def store(clock: StoreClock) -> Store:
    return MemoryStore(clock=clock)


class TestMemory(StoreSuite):
    """It does what every store does."""


async def test_time_is_that_of_trio(autojump_clock: trio.testing.MockClock) -> None:
    store = MemoryStore()
    await store.commit(Put("a:x", b"", ttl=10))
    await trio.sleep(9)
    assert await store.get("a:x") is not None
    await trio.sleep(1)
    assert await store.get("a:x") is None


async def test_a_store_that_is_full_takes_nothing_and_loses_nothing() -> None:
    store, large = MemoryStore(max_bytes=2 * MEGABYTE), bytes(200_000)
    for number in range(10):
        await store.commit(Put(f"a:{number}", large, ttl=99))
    for too_much in (
        Put("a:10", large, ttl=99),
        Append("a:log", large, ttl=99, limit=1),
    ):
        with pytest.raises(StoreFull, match="max_bytes"):
            await store.commit(too_much)
    assert await store.get("a:10") is None
    assert await value_of(store, "a:0") == large
    await store.commit(News("a:x"), Delete("a:0"))
    await store.commit(Put("a:10", large, ttl=99))


async def test_empty_values_count_as_well() -> None:
    store = MemoryStore(max_bytes=MEGABYTE)
    with pytest.raises(StoreFull):
        for begin in range(0, 50_000, 100):
            await store.commit(*(Put(f"a:{n}", b"", ttl=99) for n in range(begin, begin + 100)))
    store = MemoryStore(max_bytes=MEGABYTE)
    with pytest.raises(StoreFull):
        for begin in range(0, 50_000, 100):
            logs = (f"a:log-{number}" for number in range(begin, begin + 100))
            await store.commit(*(Append(log, b"", ttl=99, limit=1) for log in logs))


async def test_ctrl_c_leaves_no_half_of_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_protected(*_: object) -> bool:
        return trio.lowlevel.currently_ki_protected()

    store = MemoryStore()
    monkeypatch.setattr(store.tables, "commit", is_protected)
    assert not is_protected()
    assert await store.commit()


async def test_old_times_take_up_no_room(store: Store, clock: StoreClock) -> None:
    """An entry that is used all the time expires at one time, and is due at one time."""
    await store.commit(Put("a:q/x", b"", ttl=10, delay=5))
    tracemalloc.start()
    for _ in range(5000):
        clock.advance(0.001)
        await store.commit(Touch("a:q/x", ttl=10, delay=5), Append("a:x", b"", ttl=10, limit=1))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 100_000  # one that kept them would have 500,000
    clock.advance(5)
    assert [entry.key for entry in (await store.claim("a:q", 1, limit=9)).entries] == ["a:q/x"]


async def test_a_sum_is_not_due(store: Store, clock: StoreClock) -> None:
    await store.commit(Put("a:q/sum", b"1", ttl=9, delay=5))
    assert await store.commit(Add("a:q/sum", 1, ttl=9)) == [2]
    clock.advance(5)
    assert not (await store.claim("a:q", 1)).entries


async def test_folders_that_are_empty_take_up_no_room(store: Store) -> None:
    tracemalloc.start()
    for number in range(1000):
        await store.commit(Put(f"a:{number}/x", b"", ttl=math.inf, delay=5))
        await store.commit(Delete(f"a:{number}/x"))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 100_000  # if they were kept: 500,000


async def test_what_has_expired_makes_room(store: Store, clock: StoreClock) -> None:
    store = MemoryStore(max_bytes=MEGABYTE, clock=clock)
    for _ in range(10):
        for number in range(1000):
            await store.commit(Put(f"a:f/{number}", b"", ttl=10))
        clock.advance(10)
    assert (await store.scan("a:f")).entries == []


async def test_nothing_is_left_of_what_is_gone(clock: StoreClock) -> None:
    """Whether it was deleted, dropped, trimmed, changed or has expired."""
    store = MemoryStore(clock=clock)
    for number in range(300):
        await store.commit(
            Put(f"a:q/{number}", bytes(100), ttl=10, delay=number % 7),
            Put("a:again", bytes(number), ttl=5 + number % 2),
            Add("a:sum", 1, ttl=10),
            Put(f"a:deleted/{number}", bytes(100), ttl=math.inf),
            Append("a:expires", bytes(100), ttl=10, limit=7),
            Append(f"a:dropped{number}", bytes(100), ttl=math.inf, limit=7),
        )
        await store.commit(Delete(f"a:deleted/{number}"), Drop(f"a:dropped{number}"))
        await store.claim("a:q", 3)
    clock.advance(10)
    for _ in range(600):  # each sweeps one log
        await store.commit()
    assert not values_of(store)
    assert not items_of(store)
    assert store.tables.size == 0


async def test_a_folder_is_listed_in_order_whatever_has_changed_in_it(store: Store) -> None:
    async def listed() -> str:
        return "".join(entry.key[-1] for entry in (await store.scan("a:f")).entries)

    await store.commit(Put("a:f/b", b"", ttl=9), Put("a:f/d", b"", ttl=9))
    assert await listed() == "bd"
    await store.commit(Put("a:f/c", b"", ttl=9), Put("a:f/a", b"", ttl=9))
    assert await listed() == "abcd"
    await store.commit(Delete("a:f/b"), Put("a:f/a", b"", ttl=9))
    assert await listed() == "acd"
    await store.commit(Put("a:f/b", b"", ttl=9))
    assert await listed() == "abcd"


async def test_what_has_expired_keeps_no_claim_from_what_is_due(
    store: Store, clock: StoreClock
) -> None:
    for number in range(500):  # more than a transaction sweeps
        await store.commit(Put(f"a:q/{number}", b"", ttl=1, delay=0))
    await store.commit(Put("a:q/good", b"", ttl=9, delay=0.5))
    clock.advance(1)
    assert [entry.key for entry in (await store.claim("a:q", 1)).entries] == ["a:q/good"]


@pytest.mark.long
async def test_a_hundred_thousand_entries_are_swept_without_holding_the_loop(
    store: Store, clock: StoreClock
) -> None:
    """A commit sweeps a bounded number, so none pays for all."""
    for begin in range(0, 100_000, 100):
        await store.commit(*(Put(f"a:q/{n}", b"", ttl=10) for n in range(begin, begin + 100)))
    clock.advance(10)
    assert isinstance(store, MemoryStore)
    left = [len(values_of(store))]
    while left[-1]:
        await store.commit(News("a:x"))
        left.append(len(values_of(store)))
    assert len(left) > 100


def test_many_entries_are_due_in_order_whatever_has_changed() -> None:
    tables, random, due = MemoryTables(), Random(7), dict[str, int]()
    for number in range(8000):
        key = f"a:q/{number if number < 4000 else random.randrange(4000)}"
        if key in due and number % 3 == 0:
            tables.commit([Delete(key)], 0)
            del due[key]
        else:
            due[key] = random.randrange(1, 3000)
            tables.commit([Put(key, b"", ttl=9000, delay=due[key])], 0)
    in_order = sorted((time, key) for key, time in due.items())
    assert tables.due("a:q", 0, 5000) == in_order
    claimed = tables.claim("a:q", 1, 5000, 1500)
    assert [entry.key for entry in claimed.entries] == [
        key for time, key in in_order if time <= 1500
    ]
    tables.sweep(9000, 5000)
    assert not tables.entries
    assert tables.size == 0


@pytest.mark.long
def test_no_change_of_a_time_looks_at_all_entries() -> None:
    """A heap with the old times of 100,000 was made again at once, which took 220 ms."""
    tables, now = MemoryTables(), 0.0
    for number in range(100_000):
        tables.commit([Put(f"a:q/{number}", b"", ttl=1000, delay=5)], now)
    longest = 0.0
    for number in range(100_100):
        now += 0.0001
        began = thread_time()
        tables.sweep(now)
        tables.commit([Touch(f"a:q/{number % 100_000}", ttl=1000, delay=5)], now)
        longest = max(longest, thread_time() - began)
    assert longest < 0.1
