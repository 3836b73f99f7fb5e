"""The store in a file, in one process."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
import trio
import trio.testing

from tests.store.values import MEGABYTE, value_of
from trio_mcp.store import sqlite
from trio_mcp.store.changes import ABSENT, Add, Append, Check, Conflict, Delete, Drop, News, Put
from trio_mcp.store.errors import StoreError, StoreFull, StoreUnavailable, StoreUnusable
from trio_mcp.store.protocol import Store
from trio_mcp.store.sqlite import SQLiteStore
from trio_mcp.store.wakeup import wake
from trio_mcp.testing import StoreClock, StoreSuite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def clock() -> StoreClock:
    return StoreClock()


@pytest.fixture
async def store(path: Path, clock: StoreClock) -> AsyncIterator[Store]:
    async with SQLiteStore(path, clock=clock).open() as store:
        yield store


class TestSQLite(StoreSuite):
    """It does what every store does."""


# -- what is there the next time ------------------------------------------------------------------


async def test_all_of_it_is_there_when_it_is_opened_again(path: Path, clock: StoreClock) -> None:
    async with SQLiteStore(path, clock=clock).open() as store:
        (version, *_) = await store.commit(
            Put("a:q/x", b"one", ttl=10, delay=0), Append("a:log", b"line", ttl=10, limit=5)
        )
    assert not list(path.parent.glob("*-wal")), "it was not written back"
    async with SQLiteStore(path, clock=clock).open() as store:
        assert (await store.read("a:log")).items == [(1, b"line")]
        (entry,) = (await store.claim("a:q", 30)).entries
        assert entry.version > version


async def test_only_its_user_can_read_it(path: Path) -> None:
    async with SQLiteStore(path).open() as store, store.watch("a:x"):
        await store.commit(Put("a:x", b"one", ttl=10))
        modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
    assert set(modes.values()) == {0o600}
    assert len(modes) == 4  # the database, its log, its index, and the pipe


async def test_nothing_is_left_beside_it(path: Path) -> None:
    async with SQLiteStore(path).open() as store, store.watch("a:x"):
        pass
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM listeners").fetchone() == (0,)


# -- expiry ---------------------------------------------------------------------------------------


def count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (number,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(number)


async def test_the_room_of_what_has_expired_is_given_back(
    store: Store, path: Path, clock: StoreClock
) -> None:
    for number in range(300):
        await store.commit(
            Put(f"a:{number}", b"x", ttl=10), Append("a:log", b"", ttl=10, limit=999)
        )
    await store.commit(Append("a:dropped", b"", ttl=math.inf, limit=9))
    await store.commit(Drop("a:dropped"), Put("a:stays", b"x", ttl=99))
    clock.advance(10)
    for _ in range(5):  # a little with each
        await store.commit(News("a:x"))
    assert (count(path, "entries"), count(path, "logs"), count(path, "items")) == (1, 0, 0)
    assert await value_of(store, "a:stays") == b"x"


async def test_a_long_log_is_swept_little_by_little(
    store: Store, path: Path, clock: StoreClock
) -> None:
    for _ in range(50):
        await store.commit(*(Append(f"a:log{n}", b"", ttl=10, limit=9999) for n in range(100)))
    with closing(sqlite3.connect(path)) as connection:  # as if there had been as many items
        connection.execute("INSERT INTO logs VALUES (999, 'a:long', 1, 10000, 0, 1000001)")
        connection.executemany(
            "INSERT INTO items VALUES (999, ?, '')", ((n,) for n in range(1, 10001))
        )
        connection.commit()
    clock.advance(1)
    left = []
    for _ in range(3):
        await store.commit(News("a:x"))
        left.append(count(path, "items WHERE id = 999"))
    assert left[0] > left[1] > left[2] == 0


# -- news of others -------------------------------------------------------------------------------


async def test_two_stores_of_the_same_file_hear_of_each_other(path: Path) -> None:
    """As if they were in two processes. What a store was told itself is not told again."""
    async with SQLiteStore(path).open() as one, SQLiteStore(path).open() as other:
        async with one.watch("a:x", "a:y", "a:z") as mine, other.watch("a:x", "a:y") as others:
            await one.commit(News("a:x"))
            assert await mine.wait() == {"a:x"}
            assert await others.wait() == {"a:x"}
            with pytest.raises(Conflict):
                await one.commit(News("a:x"), Check("a:missing", expect=1))
            await other.commit(News("a:y"))
            assert await mine.wait() == {"a:y"}
            await one.commit(News("a:y"))
            assert await others.wait() == {"a:y"}


@pytest.mark.parametrize("kind", ["file", "link", "nothing"])
def test_what_stands_in_the_place_of_a_pipe_is_not_written_to(path: Path, kind: str) -> None:
    notes = path.parent / "notes"
    notes.write_bytes(b"mine")
    if kind != "nothing":
        (path.symlink_to if kind == "link" else path.hardlink_to)(notes)
    assert wake(str(path)) == (kind == "link")  # it may be there, for all we know
    assert notes.read_bytes() == b"mine"


async def test_who_waits_for_news_looks_again_when_the_store_fails(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LATEST_NEWS", 0.01)
    async with SQLiteStore(path).open() as store, store.watch("a:x") as news:
        path.unlink()
        assert await news.wait() == {"a:x"}
        with pytest.raises(StoreUnavailable, match="moved or deleted"):
            await store.get("a:x")


async def test_nobody_listens_to_a_store_that_is_locked(path: Path) -> None:
    async with SQLiteStore(path, timeout=0.25).open() as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="another process"):
                async with store.watch("a:x"):
                    pass
            other.execute("ROLLBACK")
        assert not list(path.parent.glob("*-news-*"))
        async with store.watch("a:x") as news:
            await store.commit(News("a:x"))
            assert await news.wait() == {"a:x"}


# -- what fails -----------------------------------------------------------------------------------


async def test_a_store_that_is_full_takes_nothing_and_loses_nothing(path: Path) -> None:
    async with SQLiteStore(path, max_bytes=MEGABYTE).open() as store:
        kept = []
        with pytest.raises(StoreFull, match=r"store\.db.*max_bytes"):
            for number in range(100):
                await store.commit(Put(f"a:{number}", bytes(50_000), ttl=99))
                kept.append(number)
        assert len(kept) > 10
        assert await store.get("a:100") is None
        for number in kept:
            assert await value_of(store, f"a:{number}") == bytes(50_000)
        await store.commit(Delete("a:0"), Delete("a:1"))
        await store.commit(Put("a:100", bytes(50_000), ttl=99))
    assert path.stat().st_size <= MEGABYTE


async def test_what_is_too_much_harms_nobody_beside_it(path: Path) -> None:
    outcomes: dict[str, object] = {}

    async with SQLiteStore(path, max_bytes=MEGABYTE).open() as store:

        async def put(key: str, length: int) -> None:
            try:
                outcomes[key] = await store.commit(Put(key, bytes(length), ttl=9))
            except StoreFull as error:
                outcomes[key] = error

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(put, f"a:small{number}", 1000)
                nursery.start_soon(put, f"a:large{number}", 2 * MEGABYTE)
        for key, outcome in outcomes.items():
            assert isinstance(outcome, StoreFull) == key.startswith("a:large")
            assert (await store.get(key) is None) == key.startswith("a:large")


async def test_room_that_has_expired_is_there_beside_what_is_too_much(
    path: Path, clock: StoreClock
) -> None:
    async with SQLiteStore(path, max_bytes=MEGABYTE, clock=clock).open() as store:
        await store.commit(Put("a:old", bytes(MEGABYTE * 3 // 4), ttl=9))
        clock.advance(10)
        with pytest.raises(StoreFull):
            await store.commit(Put("a:large", bytes(2 * MEGABYTE), ttl=9))
        await store.commit(Put("a:new", bytes(MEGABYTE * 3 // 4), ttl=9))


async def test_a_log_that_was_dropped_makes_room_at_once(path: Path, clock: StoreClock) -> None:
    async with SQLiteStore(path, max_bytes=MEGABYTE, clock=clock).open() as store:
        for _ in range(3):
            await store.commit(Append("a:log", bytes(MEGABYTE * 3 // 4), ttl=99, limit=9))
            await store.commit(Drop("a:log"))


async def test_a_store_that_is_locked_is_waited_for(path: Path, store: Store) -> None:
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.commit, Put("a:x", b"one", ttl=10))
            assert await store.get("a:x") is None  # readers do not wait
            other.execute("COMMIT")
    assert await value_of(store, "a:x") == b"one"


async def test_a_store_that_stays_locked_is_unavailable(path: Path) -> None:
    async with SQLiteStore(path, timeout=0.01).open() as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match=r"store\.db.*another process"):
                await store.commit(Put("a:x", b"one", ttl=10))
            with pytest.raises(StoreUnavailable, match="another process"):
                await store.claim("a:q", 1)
            other.execute("ROLLBACK")
        assert await store.get("a:x") is None
        await store.commit(Put("a:x", b"one", ttl=10))


async def test_a_store_that_is_locked_from_the_start_cannot_be_opened(path: Path) -> None:
    async with SQLiteStore(path).open():
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="another process"):
            async with SQLiteStore(path, timeout=0.01).open():
                pass


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_is_gone_takes_no_more(
    path: Path, tmp_path: Path, replaced: bool
) -> None:
    async with SQLiteStore(path).open() as store:
        await store.commit(Put("a:x", b"one", ttl=10))
        path.rename(tmp_path / "elsewhere.db")
        if replaced:
            path.write_bytes(b"")
        with pytest.raises(StoreUnavailable, match="moved or deleted"):
            await store.commit(Put("a:x", b"two", ttl=10))
        with pytest.raises(StoreUnavailable, match="moved or deleted"):
            await store.get("a:x")


def scribble(path: Path, where: int) -> None:
    with path.open("r+b") as file:
        file.seek(where)
        file.write(b"\xff" * 4096)


async def test_a_file_that_is_something_else_is_not_touched(path: Path) -> None:
    path.write_bytes(b"notes of mine\n" * 1000)
    with pytest.raises(StoreUnusable, match="not a SQLite database"):
        async with SQLiteStore(path).open():
            pass
    assert path.read_bytes() == b"notes of mine\n" * 1000


async def test_a_database_of_another_program_is_not_touched(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes (text)")
    before = path.read_bytes()
    with pytest.raises(StoreUnusable, match="another program"):
        async with SQLiteStore(path).open():
            pass
    assert path.read_bytes() == before


async def test_a_newer_format_is_not_touched(path: Path) -> None:
    async with SQLiteStore(path).open():
        pass
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    before = path.read_bytes()
    with pytest.raises(StoreUnusable, match=r"format is 2.*the version that wrote it"):
        async with SQLiteStore(path).open():
            pass
    assert path.read_bytes() == before


async def test_a_damaged_header_is_told(path: Path) -> None:
    async with SQLiteStore(path).open():
        pass
    scribble(path, 0)
    with pytest.raises(StoreUnusable, match="damaged"):
        async with SQLiteStore(path).open():
            pass


async def test_damage_inside_is_told_to_those_whom_it_concerns(path: Path) -> None:
    async with SQLiteStore(path).open() as store:
        for number in range(200):
            await store.commit(Put(f"a:{number:03}", bytes(2000), ttl=99))
    size = path.stat().st_size
    for where in range(size // 2, size // 2 + 20 * 4096, 4096):
        scribble(path, where)
    outcomes: list[object] = []
    async with SQLiteStore(path).open() as store:

        async def get(number: int) -> None:
            try:
                outcomes.append(await store.get(f"a:{number:03}"))
            except StoreError as error:
                outcomes.append(error)

        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(get, number)
    failures = [each for each in outcomes if isinstance(each, StoreError)]
    assert 0 < len(failures) < 200
    assert {type(each) for each in failures} == {StoreUnusable}
    assert all("damaged" in str(each) for each in failures)


@pytest.mark.parametrize("kind", ["folder", "pipe", "nowhere"])
async def test_what_is_no_file_is_refused(path: Path, kind: str) -> None:
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path = path / "deeper" / "store.db"
    with pytest.raises(StoreUnusable, match=str(path)):
        async with SQLiteStore(path).open():
            pass


# -- cancellation and the end ---------------------------------------------------------------------


class Gate(StoreClock):
    """A clock that stops who asks for the time, until it may go on: in the thread, with the lock."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.may_pass = threading.Event()

    def __call__(self) -> float:
        self.reached.set()
        assert self.may_pass.wait(30)
        return self.now


async def test_a_write_that_has_begun_is_finished_and_told(path: Path) -> None:
    gate = Gate()
    async with SQLiteStore(path, clock=gate).open() as store:
        told: list[object] = []

        async def put() -> None:
            told.append(await store.commit(Put("a:x", b"one", ttl=10)))
            told.append("went on")
            await trio.lowlevel.checkpoint()
            told.append("was not cancelled")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(put)
            await trio.to_thread.run_sync(gate.reached.wait)
            nursery.cancel_scope.cancel()
            gate.may_pass.set()
        assert told == [[1], "went on"]
        assert await value_of(store, "a:x") == b"one"


async def test_a_write_that_waits_its_turn_is_not_done_when_it_is_cancelled(path: Path) -> None:
    gate = Gate()
    async with SQLiteStore(path, clock=gate).open() as store:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.commit, Put("a:first", b"", ttl=10))
            await trio.to_thread.run_sync(gate.reached.wait)
            async with trio.open_nursery() as inner:
                inner.start_soon(store.commit, Put("a:second", b"", ttl=10))
                await trio.testing.wait_all_tasks_blocked()
                inner.cancel_scope.cancel()
            assert inner.cancel_scope.cancelled_caught
            gate.may_pass.set()
        await store.commit(Put("a:third", b"", ttl=10))  # those before it have had their turn
        assert await store.get("a:first") is not None
        assert await store.get("a:second") is None


async def test_a_read_can_be_left_at_any_time(path: Path) -> None:
    gate = Gate()
    async with SQLiteStore(path, clock=gate).open() as store:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.get, "a:x")
            await trio.to_thread.run_sync(gate.reached.wait)
            nursery.cancel_scope.cancel()
        assert nursery.cancel_scope.cancelled_caught, "it waited for the thread"
        gate.may_pass.set()
        assert await store.get("a:x") is None


async def test_a_store_that_is_closed_is_unavailable(path: Path) -> None:
    gate = Gate()
    store = SQLiteStore(path, clock=gate)
    outcomes: list[object] = []

    async def put(key: str) -> None:
        try:
            outcomes.append(await store.commit(Put(key, b"", ttl=10)))
        except StoreUnavailable as error:
            outcomes.append(str(error))

    async with trio.open_nursery() as nursery:
        async with store.open():
            nursery.start_soon(put, "a:begun")
            await trio.to_thread.run_sync(gate.reached.wait)
            nursery.start_soon(put, "a:waiting")
            await trio.testing.wait_all_tasks_blocked()
            gate.may_pass.set()
    await put("a:late")
    assert outcomes == [[1], "the store was closed meanwhile", "the store is closed"]


async def test_what_the_block_raises_comes_out_as_it_is(path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with SQLiteStore(path).open():
            raise ZeroDivisionError


async def test_a_block_that_is_cancelled_closes_the_store(path: Path) -> None:
    with trio.CancelScope() as scope:
        async with SQLiteStore(path).open():
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert [each.name for each in path.parent.iterdir()] == [path.name]


async def test_what_changes_nothing_is_not_written(store: Store, path: Path) -> None:
    """So it costs no flush to the disk: waiting for jobs, and losing a race for one."""
    await store.commit(Put("a:x", b"", ttl=99))
    with closing(sqlite3.connect(path)) as other:

        def written() -> int:
            (number,) = other.execute("PRAGMA data_version").fetchone()
            return int(number)

        before = written()
        assert (await store.claim("a:q", 30)).entries == []
        with pytest.raises(Conflict):
            await store.commit(Put("a:x", b"", ttl=99, expect=ABSENT))
        await store.commit(News("a:x"), Check("a:y", expect=ABSENT))
        assert written() == before
        await store.commit(Delete("a:x"))
        assert written() != before


async def test_others_who_use_up_all_threads_do_not_hold_it_up(path: Path) -> None:
    limiter = trio.to_thread.current_default_thread_limiter()
    async with limiter:
        before, limiter.total_tokens = limiter.total_tokens, 1
        try:
            async with SQLiteStore(path).open() as store:
                await store.commit(Put("a:x", b"", ttl=10))
                assert await store.get("a:x") is not None
        finally:
            limiter.total_tokens = before


# -- much at once ---------------------------------------------------------------------------------


async def test_writers_share_transactions(path: Path) -> None:
    """So they share the flush to the disk, which is what a commit costs."""
    gate = Gate()
    async with SQLiteStore(path, clock=gate).open() as store:
        versions: list[int] = []

        async def put(number: int) -> None:
            versions.extend(await store.commit(Put(f"a:{number}", b"", ttl=10)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(put, 0)
            await trio.to_thread.run_sync(gate.reached.wait)
            for number in range(1, 100):
                nursery.start_soon(put, number)
            await trio.testing.wait_all_tasks_blocked()
            rounds = count_rounds(store)
            gate.may_pass.set()
        assert rounds == [1, 99]
        assert sorted(versions) == list(range(1, 101))


def count_rounds(store: SQLiteStore) -> list[int]:
    """Note how many jobs each transaction has."""
    rounds: list[int] = []
    run = store.write_tables.sweep

    def sweep(now: float, jobs: int) -> None:
        rounds.append(jobs)
        run(now, jobs)

    store.write_tables.sweep = sweep  # type: ignore[method-assign]
    return rounds


async def test_a_condition_that_fails_harms_nobody_in_the_same_transaction(store: Store) -> None:
    await store.commit(Add("a:n", 5, ttl=9))
    failed: list[object] = []

    async def add(number: int) -> None:
        try:
            await store.commit(
                Put(f"a:x{number}", b"", ttl=9),
                Check("a:odd", expect=0 if number % 2 else 1),
                Add("a:n", 1, ttl=9),
            )
        except Conflict:
            failed.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(add, number)
    assert sorted(map(str, failed)) == sorted(map(str, range(0, 20, 2)))
    assert await value_of(store, "a:n") == b"15"
    assert await store.get("a:x2") is None
