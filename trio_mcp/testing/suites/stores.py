"""What every store does, as tests: a test class that inherits `StoreSuite` runs them with its own.

The tests do not sleep. A store is made with a clock that they move.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Final

import pytest
import trio
from attrs import define

from trio_mcp.public import public_in
from trio_mcp.store.changes import (
    ABSENT,
    MAX_BYTES,
    MAX_CHANGES,
    Add,
    Append,
    Change,
    Check,
    Conflict,
    Delete,
    Drop,
    News,
    Put,
    Touch,
)
from trio_mcp.store.errors import StoreFull
from trio_mcp.store.protocol import Store

_MEGABYTE: Final = 1024 * 1024
_INVALID: Final = (
    "",
    "x",
    ":x",
    "x:",
    "x:y/",
    "{x}:y",
    "x:\n",
    "x:\0",
    "x:\ud800",
    "x:" + "y" * 511,
)
_VALID: Final = ("a:x y", "é:𝄞", "a:b:c", "a:{x}", "a:/x", "a:" + "y" * 510)
_MAKERS: Final[tuple[Callable[[str], Change], ...]] = (
    lambda key: Put(key, b"", ttl=1),
    lambda key: Touch(key, ttl=1),
    Delete,
    lambda key: Check(key, expect=1),
    lambda key: Add(key, ttl=1),
    lambda key: Append(key, b"", ttl=1, limit=1),
    Drop,
    News,
)


@public_in("trio_mcp.testing")
@define
class StoreClock:
    """A clock that the tests move: calling it returns the time, in seconds."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@public_in("trio_mcp.testing")
class StoreSuite:
    """The tests of a store (`trio_mcp.store.protocol.Store`), to be inherited by a test class.

    The class, or its module, provides the fixture `store`: an open store that is empty and counts
    time by the fixture `clock`, a `StoreClock`. A store whose time cannot be moved overrides
    `clock` with a fixture that skips the test.

    Example:
        >>> class TestMemoryStore(StoreSuite):
        ...     @pytest.fixture
        ...     def store(self, clock: StoreClock) -> Store:
        ...         return MemoryStore(clock=clock)
    """

    @pytest.fixture
    def clock(self) -> StoreClock:
        """The time of the store."""
        return StoreClock()

    # -- entries ------------------------------------------------------------------------------

    async def test_what_was_put_is_there_until_its_time_is_over(
        self, store: Store, clock: StoreClock
    ) -> None:
        (version,) = await store.commit(Put("a:x", b"one", ttl=10))
        clock.advance(9.5)
        entry = await store.get("a:x")
        assert entry is not None
        assert (entry.key, entry.value, entry.version) == ("a:x", b"one", version)
        assert entry.ttl == pytest.approx(0.5)
        clock.advance(0.5)
        assert await store.get("a:x") is None

    async def test_what_has_no_end_is_there_for_ever(self, store: Store, clock: StoreClock) -> None:
        await store.commit(Put("a:x", b"one", ttl=math.inf), Put("a:y", b"two", ttl=1e308))
        clock.advance(1e9)
        entry, other = await store.get("a:x"), await store.get("a:y")
        assert entry is not None
        assert entry.ttl == math.inf
        assert other is not None

    async def test_a_second_put_replaces_all_of_the_first(
        self, store: Store, clock: StoreClock
    ) -> None:
        await store.commit(Put("a:q/x", b"one", ttl=10, delay=0))
        await store.commit(Put("a:q/x", b"two", ttl=20))
        assert (await store.claim("a:q", 1)).entries == []
        clock.advance(15)
        assert await _value(store, "a:q/x") == b"two"

    @pytest.mark.parametrize("value", [b"", b"\0", bytes(range(256)), b"x" * _MEGABYTE])
    async def test_values_are_kept_byte_for_byte(self, store: Store, value: bytes) -> None:
        await store.commit(Put("a:x", value, ttl=1))
        assert await _value(store, "a:x") == value

    async def test_delete_says_what_it_deleted(self, store: Store) -> None:
        (version,) = await store.commit(Put("a:x", b"", ttl=1))
        assert await store.commit(Delete("a:x")) == [version]
        assert await store.commit(Delete("a:x")) == [ABSENT]
        assert await store.get("a:x") is None

    # -- conditions ---------------------------------------------------------------------------

    async def test_of_tasks_that_expect_absence_one_succeeds(self, store: Store) -> None:
        won: list[int] = []

        async def put(number: int) -> None:
            try:
                await store.commit(Put("a:x", b"%d" % number, ttl=10, expect=ABSENT))
            except Conflict:
                return
            won.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(put, number)
        assert len(won) == 1
        assert await _value(store, "a:x") == b"%d" % won[0]

    async def test_what_has_expired_is_absent(self, store: Store, clock: StoreClock) -> None:
        await store.commit(Put("a:x", b"one", ttl=10))
        await _refused(store, Put("a:x", b"two", ttl=10, expect=ABSENT))
        clock.advance(10)
        await store.commit(Put("a:x", b"two", ttl=10, expect=ABSENT))
        assert await _value(store, "a:x") == b"two"

    async def test_every_change_may_depend_on_a_version(self, store: Store) -> None:
        (old,) = await store.commit(Put("a:x", b"one", ttl=10))
        (new,) = await store.commit(Put("a:x", b"two", ttl=10, expect=old))
        assert new > old
        for change in (
            Put("a:x", b"three", ttl=10, expect=old),
            Touch("a:x", ttl=99, expect=old),
            Delete("a:x", expect=old),
            Check("a:x", expect=old),
            Check("a:x", expect=ABSENT),
            Check("a:y", expect=old),
            Touch("a:y", ttl=99),
            Touch("a:y", ttl=99, expect=ABSENT),
        ):
            assert await _refused(store, change) is change
        entry = await store.get("a:x")
        assert entry is not None
        assert (entry.value, entry.version) == (b"two", new)
        assert entry.ttl <= 10
        assert await store.commit(Check("a:x", expect=new)) == [new]
        assert await store.commit(Check("a:y", expect=ABSENT)) == [ABSENT]
        assert await store.commit(Touch("a:x", ttl=99, expect=new)) == [new]
        assert await store.commit(Delete("a:x", expect=new)) == [new]

    async def test_no_version_comes_twice_even_after_deletion(
        self, store: Store, clock: StoreClock
    ) -> None:
        versions = []
        for _ in range(3):
            versions += await store.commit(Put("a:x", b"same", ttl=10))
            await store.commit(Delete("a:x"))
            versions += await store.commit(Put("a:x", b"same", ttl=10))
            clock.advance(10)
        assert versions == sorted(set(versions))

    async def test_touch_changes_times_and_nothing_else(
        self, store: Store, clock: StoreClock
    ) -> None:
        (version,) = await store.commit(Put("a:q/x", b"one", ttl=10, delay=0))
        await store.commit(Touch("a:q/x", delay=5))
        assert (await store.claim("a:q", 1)).wait == pytest.approx(5)
        await store.commit(Touch("a:q/x", ttl=100))
        clock.advance(50)
        entry = await store.get("a:q/x")
        assert entry is not None
        assert (entry.value, entry.version) == (b"one", version)
        assert entry.ttl == pytest.approx(50)
        assert [entry.key for entry in (await store.claim("a:q", 1)).entries] == ["a:q/x"]

    # -- commits ------------------------------------------------------------------------------

    async def test_all_changes_are_made_and_tell_their_results(self, store: Store) -> None:
        results = await store.commit(
            Put("a:x", b"one", ttl=1),
            Add("a:n", 7, ttl=1),
            Append("a:x", b"line", ttl=1, limit=5),
            Check("a:y", expect=ABSENT),
            Delete("a:z"),
            News("a:x"),
            Drop("a:other"),
        )
        assert results[1:] == [7, 1, ABSENT, ABSENT, 0, 0]
        assert await store.commit(Check("a:x", expect=results[0])) == [results[0]]
        assert await store.commit() == []

    async def test_none_is_made_if_one_condition_does_not_hold(self, store: Store) -> None:
        await store.commit(Add("a:n", 1, ttl=10), Put("a:there", b"", ttl=10))
        changes: list[Change] = [
            Put("a:x", b"one", ttl=1),
            Add("a:n", 7, ttl=1),
            Append("a:log", b"line", ttl=1, limit=5),
            Delete("a:there"),
            News("a:news"),
        ]
        async with store.watch("a:news") as news:
            last = Check("a:missing", expect=1)
            assert await _refused(store, *changes, last) is last
            too_much = Add("a:sum", 2, ttl=1, limit=1)
            assert await _refused(store, *changes, too_much) is too_much
            with pytest.raises(ValueError, match="no number"):
                await store.commit(Put("a:x", b"one", ttl=1), Add("a:there", ttl=1))
            await _nothing_is_told(news.wait)
        assert await store.get("a:x") is None
        assert await _value(store, "a:n") == b"1"
        assert await store.get("a:there") is not None
        assert (await store.read("a:log")).last == 0

    async def test_changes_that_do_not_go_together_are_refused(self, store: Store) -> None:
        with pytest.raises(ValueError, match="one partition"):
            await store.commit(Put("a:x", b"", ttl=1), Put("b:x", b"", ttl=1))
        with pytest.raises(ValueError, match="one partition"):
            await store.commit(Put("a:x", b"", ttl=1), News("b:x"))
        with pytest.raises(ValueError, match="once, not twice"):
            await store.commit(Put("a:x", b"", ttl=1), Check("a:x", expect=ABSENT))
        with pytest.raises(ValueError, match="once, not twice"):
            await store.commit(*[Append("a:x", b"", ttl=1, limit=1)] * 2)
        with pytest.raises(ValueError, match="at most"):
            await store.commit(*[News("a:x")] * (MAX_CHANGES + 1))
        with pytest.raises(StoreFull, match="the most is"):
            await store.commit(Put("a:x", bytes(MAX_BYTES + 1), ttl=1))
        assert await store.get("a:x") is None

    async def test_as_many_changes_as_may_be_are_made(self, store: Store) -> None:
        keys = [f"a:f/{number:03}" for number in range(MAX_CHANGES)]
        await store.commit(*(Put(key, key.encode(), ttl=1) for key in keys))
        page = await store.scan("a:f", limit=1000)
        assert [entry.value.decode() for entry in page.entries] == keys

    # -- numbers ------------------------------------------------------------------------------

    async def test_additions_of_many_tasks_add_up(self, store: Store) -> None:
        async def add() -> None:
            for _ in range(10):
                await store.commit(Add("a:n", 1, ttl=10))

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(add)
        assert await _value(store, "a:n") == b"100"
        assert await store.commit(Add("a:n", -101, ttl=10)) == [-1]

    async def test_a_number_that_is_0_again_is_no_entry(
        self, store: Store, clock: StoreClock
    ) -> None:
        await store.commit(Add("a:n", 2, ttl=10))
        clock.advance(6)
        assert await store.commit(Add("a:n", -2, ttl=10)) == [0]
        assert await store.get("a:n") is None
        assert await store.commit(Add("a:n", ttl=10)) == [1]
        clock.advance(6)
        assert await store.commit(Add("a:n", ttl=10)) == [2]

    async def test_a_number_lives_from_its_first_addition_on(
        self, store: Store, clock: StoreClock
    ) -> None:
        await store.commit(Add("a:n", ttl=10))
        clock.advance(6)
        assert await store.commit(Add("a:n", ttl=10)) == [2]
        clock.advance(6)
        assert await store.commit(Add("a:n", ttl=10)) == [1]

    async def test_a_number_has_a_bound(self, store: Store) -> None:
        for _ in range(3):
            await store.commit(Add("a:n", ttl=10, limit=3))
        await _refused(store, Add("a:n", ttl=10, limit=3))
        await store.commit(Add("a:n", -1, ttl=10))
        await store.commit(Add("a:n", ttl=10, limit=3))

    @pytest.mark.parametrize("value", [b"x", b"", b"1.5", b"9" * 5000])
    async def test_only_numbers_can_be_added_to(self, store: Store, value: bytes) -> None:
        await store.commit(Put("a:n", value, ttl=10))
        with pytest.raises(ValueError, match="no number"):
            await store.commit(Add("a:n", ttl=10))
        assert await _value(store, "a:n") == value

    async def test_a_sum_has_64_bits(self, store: Store) -> None:
        largest = 2**63 - 1
        assert await store.commit(Add("a:n", largest, ttl=10)) == [largest]
        with pytest.raises(ValueError, match="64 bits"):
            await store.commit(Add("a:n", ttl=10))
        assert await store.commit(Add("a:n", -largest, ttl=10)) == [0]

    # -- folders ------------------------------------------------------------------------------

    async def test_a_folder_is_listed_page_by_page_in_the_order_of_keys(self, store: Store) -> None:
        names = sorted(["a", "b", "c", "é", "z", "Z", "10", "9", "𝄞"])
        for name in reversed(names):
            await store.commit(Put(f"a:f/{name}", name.encode(), ttl=10))
        await store.commit(Put("a:f", b"", ttl=10), Put("a:fa/x", b"", ttl=10))
        await store.commit(Put("a:f/x/y", b"", ttl=10), Put("a:e/x", b"", ttl=10))
        found: list[str] = []
        cursor: str | None = ""
        pages = 0
        while cursor is not None:
            page = await store.scan("a:f", cursor, limit=2)
            found += [entry.value.decode() for entry in page.entries]
            cursor, pages = page.cursor, pages + 1
        assert found == names
        assert pages == 5

    async def test_a_full_last_page_is_known_to_be_the_last(self, store: Store) -> None:
        await store.commit(Put("a:f/1", b"", ttl=10), Put("a:f/2", b"", ttl=10))
        assert (await store.scan("a:f", limit=2)).cursor is None
        assert (await store.scan("a:nothing")).entries == []

    async def test_what_is_deleted_or_expired_is_not_listed(
        self, store: Store, clock: StoreClock
    ) -> None:
        await store.commit(*(Put(f"a:f/{n}", b"", ttl=n) for n in range(1, 6)))
        await store.commit(Delete("a:f/4"))
        clock.advance(2)
        assert [entry.key for entry in (await store.scan("a:f")).entries] == ["a:f/3", "a:f/5"]

    async def test_a_page_of_long_values_is_shorter(self, store: Store) -> None:
        for number in range(12):
            await store.commit(Put(f"a:f/{number:02}", bytes(_MEGABYTE), ttl=10))
        page = await store.scan("a:f")
        assert 0 < len(page.entries) < 12
        rest = await store.scan("a:f", page.cursor or "")
        assert len(page.entries) + len(rest.entries) == 12
        assert rest.cursor is None

    # -- claims -------------------------------------------------------------------------------

    async def test_what_is_due_first_is_claimed_first(
        self, store: Store, clock: StoreClock
    ) -> None:
        await store.commit(
            Put("a:q/late", b"", ttl=99, delay=5),
            Put("a:q/soon", b"", ttl=99, delay=1),
            Put("a:q/never", b"", ttl=99),
            Put("a:q/gone", b"", ttl=1, delay=0),
        )
        clock.advance(1)
        claimed = await store.claim("a:q", 30, limit=10)
        assert [entry.key for entry in claimed.entries] == ["a:q/soon"]
        assert claimed.wait == pytest.approx(4)
        clock.advance(4)
        claimed = await store.claim("a:q", 30, limit=10)
        assert [entry.key for entry in claimed.entries] == ["a:q/late"]
        assert claimed.wait == pytest.approx(26)

    async def test_there_is_nothing_to_wait_for_where_nothing_will_be_due(
        self, store: Store
    ) -> None:
        await store.commit(Put("a:q/never", b"", ttl=99))
        assert (await store.claim("a:q", 30)).wait == math.inf
        assert (await store.claim("a:none", 30)).wait == math.inf

    async def test_more_than_is_asked_for_is_due_now(self, store: Store) -> None:
        await store.commit(*(Put(f"a:q/{n}", b"%d" % n, ttl=99, delay=0) for n in range(5)))
        claimed = await store.claim("a:q", 30, limit=3)
        assert len(claimed.entries) == 3
        assert claimed.wait == 0
        assert len((await store.claim("a:q", 30, limit=3)).entries) == 2

    async def test_nothing_is_claimed_twice_at_once(self, store: Store) -> None:
        for n in range(50):
            await store.commit(Put(f"a:q/{n}", b"", ttl=99, delay=0))
        got: list[str] = []

        async def work() -> None:
            while entries := (await store.claim("a:q", 30, limit=3)).entries:
                got.extend(entry.key for entry in entries)
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(work)
        assert sorted(got) == sorted(f"a:q/{n}" for n in range(50))

    async def test_a_claim_that_is_not_renewed_is_void_once_another_is_made(
        self, store: Store, clock: StoreClock
    ) -> None:
        (put,) = await store.commit(Put("a:q/x", b"job", ttl=999, delay=0))
        (first,) = (await store.claim("a:q", 30)).entries
        assert first.version > put
        assert first.value == b"job"
        clock.advance(29)
        await store.commit(Touch("a:q/x", delay=30, expect=first.version))
        clock.advance(29)
        assert (await store.claim("a:q", 30)).entries == []
        clock.advance(1)
        (second,) = (await store.claim("a:q", 30)).entries
        await _refused(store, Touch("a:q/x", delay=30, expect=first.version))
        await _refused(
            store, Delete("a:q/x", expect=first.version), Put("a:result", b"mine", ttl=9)
        )
        await store.commit(Delete("a:q/x", expect=second.version), Put("a:result", b"mine", ttl=9))
        clock.advance(999)
        assert (await store.claim("a:q", 30)).entries == []

    @pytest.mark.parametrize("lease", [0, -1, math.nan])
    async def test_a_claim_is_for_a_time(self, store: Store, lease: float) -> None:
        with pytest.raises(ValueError, match="more than 0"):
            await store.claim("a:q", lease)

    # -- logs ---------------------------------------------------------------------------------

    async def test_a_log_that_begins_again_is_another_one(
        self, store: Store, clock: StoreClock
    ) -> None:
        append = Append("a:log", b"item", ttl=10, limit=100)
        began = [(await store.read("a:log")).began]
        assert began == [0]
        for times in (3, 1, 2):
            for _ in range(times):
                await store.commit(append)
            page = await store.read("a:log")
            began.append(page.began)
            clock.advance(9)
            await store.commit(append)
            again = await store.read("a:log")
            assert (again.began, again.last) == (page.began, times + 1)
            if times == 1:
                await store.commit(Drop("a:log"))
            clock.advance(10)
        assert all(one + 4 < other for one, other in pairwise(began))

    async def test_a_log_is_read_on_from_a_position(self, store: Store) -> None:
        for number in range(1, 6):
            assert await store.commit(Append("a:log", b"%d" % number, ttl=9, limit=9)) == [number]
        page = await store.read("a:log", limit=2)
        assert page.items == [(1, b"1"), (2, b"2")]
        assert (page.first, page.last) == (1, 5)
        page = await store.read("a:log", 2)
        assert page.items == [(3, b"3"), (4, b"4"), (5, b"5")]
        assert not page.missed(2)
        assert (await store.read("a:log", 5)).items == []

    async def test_a_log_keeps_its_last_items(self, store: Store) -> None:
        for number in range(1, 11):
            await store.commit(Append("a:log", b"%d" % number, ttl=9, limit=3))
        page = await store.read("a:log", 4)
        assert page.items == [(8, b"8"), (9, b"9"), (10, b"10")]
        assert (page.first, page.last) == (8, 10)
        assert page.missed(4)
        assert not page.missed(7)

    async def test_a_log_keeps_so_many_bytes_and_the_last_item_in_any_case(
        self, store: Store
    ) -> None:
        for length in (10, 20, 30, 40):
            await store.commit(Append("a:log", bytes(length), ttl=9, limit=9, max_bytes=70))
        assert [len(item) for _, item in (await store.read("a:log")).items] == [30, 40]
        await store.commit(Append("a:log", bytes(500), ttl=9, limit=9, max_bytes=70))
        assert (await store.read("a:log")).items == [(5, bytes(500))]
        await store.commit(Append("a:log", b"", ttl=9, limit=9, max_bytes=600))
        assert (await store.read("a:log")).first == 5

    async def test_a_log_lives_on_with_each_item_and_then_begins_at_one(
        self, store: Store, clock: StoreClock
    ) -> None:
        for _ in range(3):
            await store.commit(Append("a:log", b"old", ttl=10, limit=9))
            clock.advance(9)
        assert (await store.read("a:log")).last == 3
        clock.advance(1)
        page = await store.read("a:log", 3)
        assert (page.items, page.first, page.last) == ([], 1, 0)
        assert page.missed(3)
        assert await store.commit(Append("a:log", b"new", ttl=10, limit=9)) == [1]
        page = await store.read("a:log", 3)
        assert page.items == []
        assert page.missed(3)
        assert (await store.read("a:log")).items == [(1, b"new")]

    async def test_a_dropped_log_is_gone(self, store: Store) -> None:
        await store.commit(Append("a:log", b"old", ttl=9, limit=9), Put("a:log", b"entry", ttl=9))
        assert await store.commit(Drop("a:log")) == [1]
        assert await store.commit(Drop("a:log")) == [0]
        assert (await store.read("a:log")).last == 0
        assert await _value(store, "a:log") == b"entry"
        assert await store.commit(Append("a:log", b"new", ttl=9, limit=9)) == [1]
        assert (await store.read("a:log")).items == [(1, b"new")]

    async def test_a_log_is_read_in_pages_of_so_many_bytes(self, store: Store) -> None:
        """Ten MiB, and an item that is longer than a page."""
        item = bytes(_MEGABYTE // 4)
        for _ in range(40):
            await store.commit(Append("a:log", item, ttl=9, limit=99))
        await store.commit(Append("a:log", bytes(3 * _MEGABYTE), ttl=9, limit=99))
        page = await store.read("a:log")
        assert [position for position, _ in page.items] == [1, 2, 3, 4]
        assert len((await store.read("a:log", 4, max_bytes=20 * _MEGABYTE)).items) == 37
        assert [len(each) for _, each in (await store.read("a:log", 40)).items] == [3 * _MEGABYTE]

    # -- news ---------------------------------------------------------------------------------

    async def test_a_burst_of_news_wakes_once(self, store: Store) -> None:
        async with store.watch("a:x", "a:y") as news, store.watch("a:z") as others:
            for _ in range(100):
                await store.commit(News("a:x"))
            assert await news.wait() == {"a:x"}
            await _nothing_is_told(news.wait)
            await store.commit(News("a:x"), News("a:y"), News("a:unwatched"))
            assert await news.wait() == {"a:x", "a:y"}
            await _nothing_is_told(others.wait)

    async def test_news_wakes_all_that_wait(self, store: Store) -> None:
        heard: list[frozenset[str]] = []

        async def listen(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            async with store.watch("a:x") as news:
                task_status.started()
                heard.append(await news.wait())

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                await nursery.start(listen)
            await store.commit(News("a:x"))
        assert heard == [{"a:x"}] * 100

    async def test_news_arrives_after_what_it_is_about_was_written(self, store: Store) -> None:
        async with store.watch("a:x") as news:
            await store.commit(Put("a:x", b"there", ttl=9), News("a:x"))
            await news.wait()
            assert await _value(store, "a:x") == b"there"

    async def test_news_outlives_a_wait_that_is_cancelled(self, store: Store) -> None:
        async with store.watch("a:x") as news:
            await store.commit(News("a:x"))
            with trio.CancelScope() as scope:
                scope.cancel()
                await news.wait()
            assert scope.cancelled_caught
            assert await news.wait() == {"a:x"}

    async def test_something_has_to_be_watched(self, store: Store) -> None:
        with pytest.raises(ValueError, match="at least one"):
            async with store.watch():
                pass

    # -- names, times and cancellation ----------------------------------------------------------

    @pytest.mark.parametrize("key", _INVALID)
    async def test_what_is_no_key_is_refused(self, store: Store, key: str) -> None:
        with pytest.raises(ValueError, match="a key is like"):
            await store.get(key)
        for make in _MAKERS:
            with pytest.raises(ValueError, match="a key is like"):
                make(key)
        for ask in (store.scan(key), store.claim(key, 1), store.read(key)):
            with pytest.raises(ValueError, match="a key is like"):
                await ask
        with pytest.raises(ValueError, match="a key is like"):
            async with store.watch(key):
                pass

    @pytest.mark.parametrize("key", _VALID)
    async def test_what_is_a_key_is_one_everywhere(self, store: Store, key: str) -> None:
        await store.commit(Put(key, b"x", ttl=9, delay=0), Append(key, b"y", ttl=9, limit=1))
        assert await _value(store, key) == b"x"
        assert (await store.read(key)).items == [(1, b"y")]

    async def test_something_has_to_be_asked_for(self, store: Store) -> None:
        for ask in (
            store.scan("a:f", limit=0),
            store.claim("a:q", 1, limit=0),
            store.read("a:log", limit=-1),
            store.read("a:log", max_bytes=0),
        ):
            with pytest.raises(ValueError, match="more than 0"):
                await ask

    async def test_what_is_cancelled_before_it_begins_is_not_done(self, store: Store) -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await store.commit(Put("a:x", b"", ttl=9))
        assert scope.cancelled_caught
        assert await store.get("a:x") is None


async def _refused(store: Store, *changes: Change) -> Change:
    """Expect a commit to be refused, and return the change whose condition failed."""
    with pytest.raises(Conflict) as caught:
        await store.commit(*changes)
    return caught.value.change


async def _value(store: Store, key: str) -> bytes | None:
    entry = await store.get(key)
    return None if entry is None else entry.value


async def _nothing_is_told(wait: Callable[[], Awaitable[object]]) -> None:
    with trio.CancelScope() as scope:

        async def stop() -> None:
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop)
            await wait()
            raise AssertionError("there was news")
    assert scope.cancelled_caught
