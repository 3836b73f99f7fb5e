"""What every store does. A test module of a store inherits `Contract` and provides a `store`.

Nothing here sleeps: the time of the store is moved by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import trio

from tests.store.times import Time
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

MEGABYTE = 1024 * 1024


async def refused(store: Store, *changes: Change) -> Change:
    """Make sure that a commit is refused, and return which change it was for."""
    with pytest.raises(Conflict) as caught:
        await store.commit(*changes)
    return caught.value.change


async def value_of(store: Store, key: str) -> bytes | None:
    entry = await store.get(key)
    return None if entry is None else entry.value


class Contract:
    # -- entries ------------------------------------------------------------------------------

    async def test_what_was_put_is_there_until_its_time_is_over(
        self, store: Store, time: Time
    ) -> None:
        (version,) = await store.commit(Put("a:x", b"one", ttl=10))
        time.passes(9.5)
        entry = await store.get("a:x")
        assert entry is not None
        assert (entry.key, entry.value, entry.version) == ("a:x", b"one", version)
        assert entry.ttl == pytest.approx(0.5)
        time.passes(0.5)
        assert await store.get("a:x") is None

    async def test_what_has_no_end_is_there_for_ever(self, store: Store, time: Time) -> None:
        await store.commit(Put("a:x", b"one", ttl=math.inf))
        time.passes(1e9)
        entry = await store.get("a:x")
        assert entry is not None
        assert entry.ttl == math.inf

    async def test_a_second_put_replaces_all_of_the_first(self, store: Store, time: Time) -> None:
        await store.commit(Put("a:q/x", b"one", ttl=10, delay=0))
        await store.commit(Put("a:q/x", b"two", ttl=20))
        assert (await store.claim("a:q", 1)).entries == []
        time.passes(15)
        assert await value_of(store, "a:q/x") == b"two"

    @pytest.mark.parametrize("value", [b"", b"\0", bytes(range(256)), b"x" * MEGABYTE])
    async def test_values_are_kept_byte_for_byte(self, store: Store, value: bytes) -> None:
        await store.commit(Put("a:x", value, ttl=1))
        assert await value_of(store, "a:x") == value

    async def test_delete_says_what_it_deleted(self, store: Store) -> None:
        (version,) = await store.commit(Put("a:x", b"", ttl=1))
        assert await store.commit(Delete("a:x")) == [version]
        assert await store.commit(Delete("a:x")) == [ABSENT]
        assert await store.get("a:x") is None

    # -- conditions ---------------------------------------------------------------------------

    async def test_of_those_who_expect_nothing_one_succeeds(self, store: Store) -> None:
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
        assert await value_of(store, "a:x") == b"%d" % won[0]

    async def test_what_has_expired_is_absent(self, store: Store, time: Time) -> None:
        await store.commit(Put("a:x", b"one", ttl=10))
        await refused(store, Put("a:x", b"two", ttl=10, expect=ABSENT))
        time.passes(10)
        await store.commit(Put("a:x", b"two", ttl=10, expect=ABSENT))
        assert await value_of(store, "a:x") == b"two"

    async def test_every_change_can_depend_on_a_version(self, store: Store) -> None:
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
            assert await refused(store, change) is change
        entry = await store.get("a:x")
        assert entry is not None
        assert (entry.value, entry.version) == (b"two", new)
        assert entry.ttl <= 10
        assert await store.commit(Check("a:x", expect=new)) == [new]
        assert await store.commit(Check("a:y", expect=ABSENT)) == [ABSENT]
        assert await store.commit(Touch("a:x", ttl=99, expect=new)) == [new]
        assert await store.commit(Delete("a:x", expect=new)) == [new]

    async def test_no_version_comes_twice_even_after_deletion(
        self, store: Store, time: Time
    ) -> None:
        versions = []
        for _ in range(3):
            versions += await store.commit(Put("a:x", b"same", ttl=10))
            await store.commit(Delete("a:x"))
            versions += await store.commit(Put("a:x", b"same", ttl=10))
            time.passes(10)
        assert versions == sorted(set(versions))

    async def test_touch_changes_times_and_nothing_else(self, store: Store, time: Time) -> None:
        (version,) = await store.commit(Put("a:q/x", b"one", ttl=10, delay=0))
        await store.commit(Touch("a:q/x", delay=5))
        assert (await store.claim("a:q", 1)).wait == pytest.approx(5)
        await store.commit(Touch("a:q/x", ttl=100))
        time.passes(50)
        entry = await store.get("a:q/x")
        assert entry is not None
        assert (entry.value, entry.version) == (b"one", version)
        assert entry.ttl == pytest.approx(50)
        assert [each.key for each in (await store.claim("a:q", 1)).entries] == ["a:q/x"]

    # -- commits ------------------------------------------------------------------------------

    async def test_all_changes_are_made_and_tell_their_results(self, store: Store) -> None:
        results = await store.commit(
            Put("a:x", b"one", ttl=1),
            Add("a:n", 7, ttl=1),
            Append("a:x", b"line", ttl=1, most=5),
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
            Append("a:log", b"line", ttl=1, most=5),
            Delete("a:there"),
            News("a:news"),
        ]
        async with store.watch("a:news") as news:
            last = Check("a:missing", expect=1)
            assert await refused(store, *changes, last) is last
            too_much = Add("a:sum", 2, ttl=1, most=1)
            assert await refused(store, *changes, too_much) is too_much
            with pytest.raises(ValueError, match="no number"):
                await store.commit(Put("a:x", b"one", ttl=1), Add("a:there", ttl=1))
            await nothing_is_told(news.wait)
        assert await store.get("a:x") is None
        assert await value_of(store, "a:n") == b"1"
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
            await store.commit(*[Append("a:x", b"", ttl=1, most=1)] * 2)
        with pytest.raises(ValueError, match="at most"):
            await store.commit(*[News("a:x")] * (MAX_CHANGES + 1))
        with pytest.raises(StoreFull, match="the most is"):
            await store.commit(Put("a:x", bytes(MAX_BYTES + 1), ttl=1))
        assert await store.get("a:x") is None

    async def test_as_many_changes_as_may_be_are_made(self, store: Store) -> None:
        keys = [f"a:f/{number:03}" for number in range(MAX_CHANGES)]
        await store.commit(*(Put(key, key.encode(), ttl=1) for key in keys))
        page = await store.scan("a:f", most=1000)
        assert [each.value.decode() for each in page.entries] == keys

    # -- numbers ------------------------------------------------------------------------------

    async def test_numbers_are_added_up_by_everybody(self, store: Store) -> None:
        async def add() -> None:
            for _ in range(10):
                await store.commit(Add("a:n", 1, ttl=10))

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(add)
        assert await value_of(store, "a:n") == b"100"
        assert await store.commit(Add("a:n", -101, ttl=10)) == [-1]

    async def test_a_number_lives_from_its_first_addition_on(
        self, store: Store, time: Time
    ) -> None:
        await store.commit(Add("a:n", ttl=10))
        time.passes(6)
        assert await store.commit(Add("a:n", ttl=10)) == [2]
        time.passes(6)
        assert await store.commit(Add("a:n", ttl=10)) == [1]

    async def test_a_number_has_a_bound(self, store: Store) -> None:
        for _ in range(3):
            await store.commit(Add("a:n", ttl=10, most=3))
        await refused(store, Add("a:n", ttl=10, most=3))
        await store.commit(Add("a:n", -1, ttl=10))
        await store.commit(Add("a:n", ttl=10, most=3))

    @pytest.mark.parametrize("value", [b"x", b"", b"1.5", b"9" * 5000])
    async def test_only_numbers_can_be_added_to(self, store: Store, value: bytes) -> None:
        await store.commit(Put("a:n", value, ttl=10))
        with pytest.raises(ValueError, match="no number"):
            await store.commit(Add("a:n", ttl=10))
        assert await value_of(store, "a:n") == value

    async def test_a_sum_has_64_bits(self, store: Store) -> None:
        most = 2**63 - 1
        assert await store.commit(Add("a:n", most, ttl=10)) == [most]
        with pytest.raises(ValueError, match="64 bits"):
            await store.commit(Add("a:n", ttl=10))
        assert await store.commit(Add("a:n", -most, ttl=10)) == [0]

    # -- folders ------------------------------------------------------------------------------

    async def test_a_folder_is_listed_page_by_page_in_the_order_of_keys(self, store: Store) -> None:
        names = sorted(["a", "b", "c", "é", "z", "Z", "10", "9", "𝄞"])
        for name in reversed(names):
            await store.commit(Put(f"a:f/{name}", name.encode(), ttl=10))
        await store.commit(Put("a:f", b"", ttl=10), Put("a:fa/x", b"", ttl=10))
        await store.commit(Put("a:f/x/y", b"", ttl=10), Put("a:e/x", b"", ttl=10))
        found, cursor, pages = [], "", 0
        while cursor is not None:
            page = await store.scan("a:f", cursor, most=2)
            found += [each.value.decode() for each in page.entries]
            cursor, pages = page.cursor, pages + 1
        assert found == names
        assert pages == 5

    async def test_a_full_last_page_is_known_to_be_the_last(self, store: Store) -> None:
        await store.commit(Put("a:f/1", b"", ttl=10), Put("a:f/2", b"", ttl=10))
        assert (await store.scan("a:f", most=2)).cursor is None
        assert (await store.scan("a:nothing")).entries == []

    async def test_what_is_deleted_or_expired_is_not_listed(self, store: Store, time: Time) -> None:
        await store.commit(*(Put(f"a:f/{n}", b"", ttl=n) for n in range(1, 6)))
        await store.commit(Delete("a:f/4"))
        time.passes(2)
        assert [each.key for each in (await store.scan("a:f")).entries] == ["a:f/3", "a:f/5"]

    async def test_a_page_of_long_values_is_shorter(self, store: Store) -> None:
        for number in range(12):
            await store.commit(Put(f"a:f/{number:02}", bytes(MEGABYTE), ttl=10))
        page = await store.scan("a:f")
        assert 0 < len(page.entries) < 12
        rest = await store.scan("a:f", page.cursor or "")
        assert len(page.entries) + len(rest.entries) == 12
        assert rest.cursor is None

    # -- claims -------------------------------------------------------------------------------

    async def test_what_is_due_first_is_claimed_first(self, store: Store, time: Time) -> None:
        await store.commit(
            Put("a:q/late", b"", ttl=99, delay=5),
            Put("a:q/soon", b"", ttl=99, delay=1),
            Put("a:q/never", b"", ttl=99),
            Put("a:q/gone", b"", ttl=1, delay=0),
        )
        time.passes(1)
        claimed = await store.claim("a:q", 30, most=10)
        assert [each.key for each in claimed.entries] == ["a:q/soon"]
        assert claimed.wait == pytest.approx(4)
        time.passes(4)
        claimed = await store.claim("a:q", 30, most=10)
        assert [each.key for each in claimed.entries] == ["a:q/late"]
        assert claimed.wait == pytest.approx(26)

    async def test_there_is_nothing_to_wait_for_where_nothing_will_be_due(
        self, store: Store
    ) -> None:
        await store.commit(Put("a:q/never", b"", ttl=99))
        assert (await store.claim("a:q", 30)).wait == math.inf
        assert (await store.claim("a:none", 30)).wait == math.inf

    async def test_more_than_is_asked_for_is_due_now(self, store: Store) -> None:
        await store.commit(*(Put(f"a:q/{n}", b"%d" % n, ttl=99, delay=0) for n in range(5)))
        claimed = await store.claim("a:q", 30, most=3)
        assert len(claimed.entries) == 3
        assert claimed.wait == 0
        assert len((await store.claim("a:q", 30, most=3)).entries) == 2

    async def test_nothing_is_claimed_twice_at_once(self, store: Store) -> None:
        for n in range(50):
            await store.commit(Put(f"a:q/{n}", b"", ttl=99, delay=0))
        got: list[str] = []

        async def work() -> None:
            while entries := (await store.claim("a:q", 30, most=3)).entries:
                got.extend(each.key for each in entries)
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(work)
        assert sorted(got) == sorted(f"a:q/{n}" for n in range(50))

    async def test_what_nobody_renews_is_claimed_again_and_the_first_claim_is_void(
        self, store: Store, time: Time
    ) -> None:
        (put,) = await store.commit(Put("a:q/x", b"job", ttl=999, delay=0))
        (first,) = (await store.claim("a:q", 30)).entries
        assert first.version > put
        assert first.value == b"job"
        time.passes(29)
        await store.commit(Touch("a:q/x", delay=30, expect=first.version))
        time.passes(29)
        assert (await store.claim("a:q", 30)).entries == []
        time.passes(1)
        (second,) = (await store.claim("a:q", 30)).entries
        await refused(store, Touch("a:q/x", delay=30, expect=first.version))
        await refused(store, Delete("a:q/x", expect=first.version), Put("a:result", b"mine", ttl=9))
        await store.commit(Delete("a:q/x", expect=second.version), Put("a:result", b"mine", ttl=9))
        time.passes(999)
        assert (await store.claim("a:q", 30)).entries == []

    @pytest.mark.parametrize("lease", [0, -1, math.nan])
    async def test_a_claim_is_for_a_time(self, store: Store, lease: float) -> None:
        with pytest.raises(ValueError, match="more than 0"):
            await store.claim("a:q", lease)

    # -- logs ---------------------------------------------------------------------------------

    async def test_a_log_is_read_on_from_where_one_was(self, store: Store) -> None:
        for number in range(1, 6):
            assert await store.commit(Append("a:log", b"%d" % number, ttl=9, most=9)) == [number]
        page = await store.read("a:log", most=2)
        assert page.items == [(1, b"1"), (2, b"2")]
        assert (page.first, page.last) == (1, 5)
        page = await store.read("a:log", 2)
        assert page.items == [(3, b"3"), (4, b"4"), (5, b"5")]
        assert not page.missed(2)
        assert (await store.read("a:log", 5)).items == []

    async def test_a_log_keeps_its_last_items(self, store: Store) -> None:
        for number in range(1, 11):
            await store.commit(Append("a:log", b"%d" % number, ttl=9, most=3))
        page = await store.read("a:log", 4)
        assert page.items == [(8, b"8"), (9, b"9"), (10, b"10")]
        assert (page.first, page.last) == (8, 10)
        assert page.missed(4)
        assert not page.missed(7)

    async def test_a_log_keeps_so_many_bytes_and_the_last_item_in_any_case(
        self, store: Store
    ) -> None:
        for length in (10, 20, 30, 40):
            await store.commit(Append("a:log", bytes(length), ttl=9, most=9, most_bytes=70))
        assert [len(item) for _, item in (await store.read("a:log")).items] == [30, 40]
        await store.commit(Append("a:log", bytes(500), ttl=9, most=9, most_bytes=70))
        assert (await store.read("a:log")).items == [(5, bytes(500))]
        await store.commit(Append("a:log", b"", ttl=9, most=9, most_bytes=600))
        assert (await store.read("a:log")).first == 5

    async def test_a_log_lives_on_with_each_item_and_begins_anew_when_it_is_gone(
        self, store: Store, time: Time
    ) -> None:
        for _ in range(3):
            await store.commit(Append("a:log", b"old", ttl=10, most=9))
            time.passes(9)
        assert (await store.read("a:log")).last == 3
        time.passes(1)
        page = await store.read("a:log", 3)
        assert (page.items, page.first, page.last) == ([], 1, 0)
        assert page.missed(3)
        assert await store.commit(Append("a:log", b"new", ttl=10, most=9)) == [1]
        page = await store.read("a:log", 3)
        assert page.items == []
        assert page.missed(3)
        assert (await store.read("a:log")).items == [(1, b"new")]

    async def test_a_dropped_log_is_gone(self, store: Store) -> None:
        await store.commit(Append("a:log", b"old", ttl=9, most=9), Put("a:log", b"entry", ttl=9))
        assert await store.commit(Drop("a:log")) == [1]
        assert await store.commit(Drop("a:log")) == [0]
        assert (await store.read("a:log")).last == 0
        assert await value_of(store, "a:log") == b"entry"
        assert await store.commit(Append("a:log", b"new", ttl=9, most=9)) == [1]
        assert (await store.read("a:log")).items == [(1, b"new")]

    async def test_a_log_is_read_in_pages_of_so_many_bytes(self, store: Store) -> None:
        """Ten MiB, and an item that is longer than a page."""
        item = bytes(MEGABYTE // 4)
        for _ in range(40):
            await store.commit(Append("a:log", item, ttl=9, most=99))
        await store.commit(Append("a:log", bytes(3 * MEGABYTE), ttl=9, most=99))
        page = await store.read("a:log")
        assert [position for position, _ in page.items] == [1, 2, 3, 4]
        assert len((await store.read("a:log", 4, most_bytes=20 * MEGABYTE)).items) == 37
        assert [len(each) for _, each in (await store.read("a:log", 40)).items] == [3 * MEGABYTE]

    # -- news ---------------------------------------------------------------------------------

    async def test_a_burst_of_news_is_told_once(self, store: Store) -> None:
        async with store.watch("a:x", "a:y") as news, store.watch("a:z") as others:
            for _ in range(100):
                await store.commit(News("a:x"))
            assert await news.wait() == {"a:x"}
            await nothing_is_told(news.wait)
            await store.commit(News("a:x"), News("a:y"), News("a:unwatched"))
            assert await news.wait() == {"a:x", "a:y"}
            await nothing_is_told(others.wait)

    async def test_news_wakes_all_who_wait(self, store: Store) -> None:
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

    async def test_news_is_told_after_what_it_is_about_was_written(self, store: Store) -> None:
        async with store.watch("a:x") as news:
            await store.commit(Put("a:x", b"there", ttl=9), News("a:x"))
            await news.wait()
            assert await value_of(store, "a:x") == b"there"

    async def test_news_that_nobody_took_because_of_cancellation_is_still_there(
        self, store: Store
    ) -> None:
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

    @pytest.mark.parametrize(
        "key", ["", "x", ":x", "x:", "x:y/", "{x}:y", "x:\n", "x:\0", "x:\ud800", "x:" + "y" * 511]
    )
    async def test_what_is_no_key_is_refused(self, store: Store, key: str) -> None:
        with pytest.raises(ValueError, match="a key is like"):
            await store.get(key)
        for make in MAKE:
            with pytest.raises(ValueError, match="a key is like"):
                make(key)
        for ask in (store.scan(key), store.claim(key, 1), store.read(key)):
            with pytest.raises(ValueError, match="a key is like"):
                await ask
        with pytest.raises(ValueError, match="a key is like"):
            async with store.watch(key):
                pass

    @pytest.mark.parametrize("key", ["a:x y", "é:𝄞", "a:b:c", "a:{x}", "a:/x", "a:" + "y" * 510])
    async def test_what_is_a_key_is_one_everywhere(self, store: Store, key: str) -> None:
        await store.commit(Put(key, b"x", ttl=9, delay=0), Append(key, b"y", ttl=9, most=1))
        assert await value_of(store, key) == b"x"
        assert (await store.read(key)).items == [(1, b"y")]

    async def test_something_has_to_be_asked_for(self, store: Store) -> None:
        for ask in (
            store.scan("a:f", most=0),
            store.claim("a:q", 1, most=0),
            store.read("a:log", most=-1),
            store.read("a:log", most_bytes=0),
        ):
            with pytest.raises(ValueError, match="more than 0"):
                await ask

    async def test_what_is_cancelled_before_it_begins_is_not_done(self, store: Store) -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await store.commit(Put("a:x", b"", ttl=9))
        assert scope.cancelled_caught
        assert await store.get("a:x") is None


async def nothing_is_told(wait: Callable[[], object]) -> None:
    with trio.CancelScope() as scope:

        async def stop() -> None:
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop)
            await wait()  # type: ignore[misc]
            raise AssertionError("there was news")
    assert scope.cancelled_caught


MAKE: list[Callable[[str], object]] = [
    lambda key: Put(key, b"", ttl=1),
    lambda key: Touch(key, ttl=1),
    Delete,
    lambda key: Check(key, expect=1),
    lambda key: Add(key, ttl=1),
    lambda key: Append(key, b"", ttl=1, most=1),
    Drop,
    News,
]
