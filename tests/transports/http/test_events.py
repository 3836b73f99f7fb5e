"""What is kept of the events of sessions: bounds for each, for all, and shares of it."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp import SessionOptions
from trio_mcp.transports.http.events import EventMemory, MemoryEventStore

KIB = 1024


def store_of(memory: EventMemory, owner: str) -> MemoryEventStore:
    return MemoryEventStore(1000, 1000 * KIB, memory, owner)


def kept(store: MemoryEventStore, stream: str = "1") -> list[int]:
    return [number for number, _ in store.since(stream, 0)]


def test_what_all_sessions_keep_is_bounded() -> None:
    memory = EventMemory(10 * KIB)
    stores = [store_of(memory, "alice") for _ in range(4)]
    for _ in range(4):
        for store in stores:
            store.append("1", b"x" * KIB)
    assert sum(len(kept(store)) for store in stores) == 10
    assert [kept(store) for store in stores] == [[3, 4], [3, 4], [2, 3, 4], [2, 3, 4]]


def test_whoever_has_most_loses_the_oldest() -> None:
    memory = EventMemory(10 * KIB)
    alice, bob, carol = (store_of(memory, owner) for owner in ("alice", "bob", "carol"))
    for _ in range(100):
        alice.append("1", b"x" * KIB)
    assert len(kept(alice)) == 10
    for _ in range(4):
        bob.append("1", b"x" * KIB)
    assert (kept(alice), kept(bob)) == (list(range(95, 101)), [1, 2, 3, 4])
    for _ in range(100):
        alice.append("1", b"x" * KIB)
        alice.append("2", b"x" * KIB)
    assert kept(bob) == [1, 2, 3, 4], "who has less loses nothing to who has more"
    for _ in range(2):
        carol.append("1", b"x" * KIB)
    assert (len(kept(bob)), len(kept(carol))) == (4, 2)


def test_what_is_dropped_makes_room() -> None:
    memory = EventMemory(4 * KIB)
    alice, bob = store_of(memory, "alice"), store_of(memory, "bob")
    for _ in range(2):
        alice.append("1", b"x" * KIB)
        alice.append("2", b"x" * KIB)
    alice.drop("1")
    for _ in range(2):
        bob.append("1", b"x" * KIB)
    assert (kept(alice), kept(alice, "2"), kept(bob)) == ([], [1, 2], [1, 2])


def test_the_last_event_is_kept_however_long_it_is() -> None:
    memory = EventMemory(4 * KIB)
    alice, bob = store_of(memory, "alice"), store_of(memory, "bob")
    alice.append("1", b"x")
    bob.append("1", b"x" * 9 * KIB)
    assert (kept(alice), kept(bob)) == ([], [1])
    alice.append("1", b"x")
    assert (kept(alice), kept(bob)) == ([2], [])


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.sampled_from("12"), st.integers(1, 5 * KIB), st.booleans()
        ),
        max_size=60,
    )
)
def test_the_account_is_always_right(steps: list[tuple[str, str, int, bool]]) -> None:
    memory = EventMemory(10 * KIB)
    stores = {owner: MemoryEventStore(5, 8 * KIB, memory, owner) for owner in "abc"}
    for owner, stream, size, dropped in steps:
        store = stores[owner]
        if dropped:
            store.drop(stream)
        else:
            number = store.append(stream, b"x" * size)
            assert kept(store, stream)[-1] == number
        sizes = [
            max(len(line), KIB)
            for each in stores.values()
            for name in "12"
            for _, line in each.since(name, 0)
        ]
        assert sum(sizes) <= 10 * KIB
    for store in stores.values():
        for stream in "12":
            store.drop(stream)
    assert memory.size == 0


def test_many_short_events_take_no_more_memory_than_allowed() -> None:
    memory = EventMemory(1000 * KIB)
    stores = [store_of(memory, f"owner {number}") for number in range(100)]
    tracemalloc.start()
    try:
        for _ in range(200):
            for store in stores:
                store.append("1", b"{}")
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert size < 1000 * KIB
    assert {len(kept(store)) for store in stores} == {10}, "each has a share"


@pytest.mark.parametrize(
    "options",
    [
        {"max_total_event_bytes": 1000},
        {"max_event_bytes": 2**30},
        {"max_total_event_bytes": 2**30, "event_store": dict},
    ],
)
def test_bounds_that_contradict_each_other_are_refused(options: dict) -> None:
    with pytest.raises(ValueError, match="event_bytes"):
        SessionOptions(**options)
