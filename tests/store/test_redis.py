"""The store in Redis, with real servers."""

from __future__ import annotations

import gc
import logging
import math
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import coredis
import pytest
import trio
from attrs import evolve

from tests.store.redis_server import RedisServer, redis_cluster, redis_server
from tests.store.values import value_of
from tests.support.relay import Relay, Way
from trio_mcp.store.changes import (
    ABSENT,
    Add,
    Append,
    Change,
    Check,
    Conflict,
    Delete,
    Drop,
    Entry,
    News,
    Put,
    Touch,
)
from trio_mcp.store.errors import StoreFull, StoreUnavailable, StoreUnusable
from trio_mcp.store.memory import MemoryStore
from trio_mcp.store.opening import open_store
from trio_mcp.store.protocol import Store
from trio_mcp.store.redis import RedisStore
from trio_mcp.testing import StoreClock, StoreSuite

pytestmark = [
    pytest.mark.needs("redis-server"),
    pytest.mark.requirement("M2"),
]

T = TypeVar("T")

_names = count()


@pytest.fixture(autouse=True)
def _nothing_is_left_for_other_tests_to_collect() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def url(server: RedisServer) -> str:
    return f"{server.url}?prefix=test{next(_names)}"


@pytest.fixture
def clock() -> StoreClock:
    return StoreClock()


@pytest.fixture
async def store(url: str, clock: StoreClock) -> AsyncIterator[Store]:
    async with RedisStore(url, clock=clock).open() as store:
        yield store


class TestRedis(StoreSuite):
    """It does what every store does."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as url:
        yield url


class TestCluster(StoreSuite):
    """So does a cluster of three, whichever of them has the partition."""

    @pytest.fixture
    async def store(self, cluster: str, clock: StoreClock) -> AsyncIterator[Store]:
        url = f"{cluster}?prefix=test{next(_names)}"
        async with RedisStore(url, clock=clock).open() as store:
            yield store

    async def test_partitions_are_spread(self, store: Store) -> None:
        for number in range(50):
            await store.commit(Put(f"p{number}:x", b"%d" % number, ttl=99))
        for number in range(50):
            assert await value_of(store, f"p{number}:x") == b"%d" % number


async def test_the_time_is_that_of_the_server(url: str) -> None:
    async with open_store(url) as store:
        await store.commit(Put("a:x", b"", ttl=0.001), Put("a:y", b"", ttl=99))
        while await store.get("a:x") is not None:
            await trio.lowlevel.checkpoint()
        entry = await store.get("a:y")
        assert entry is not None
        assert 90 < entry.ttl < 99


async def keys_of(url: str) -> dict[str, int]:
    """Return all keys with the milliseconds that each has to live; -1 without an end."""
    plain, _, prefix = url.partition("?prefix=")
    async with coredis.Redis.from_url(plain, decode_responses=True) as client:
        keys = [key async for key in client.scan_iter(match=f"{prefix}:*")]
        return {key: await client.pttl(key) for key in keys}


async def test_every_key_has_a_time_to_live(url: str) -> None:
    async with open_store(url) as store:
        await store.commit(
            Put("a:q/x", b"", ttl=10, delay=0),
            Put("a:q/y", b"", ttl=1000),
            Add("a:n", ttl=10),
            Append("a:log", b"", ttl=10, limit=9),
        )
        await store.commit(Touch("a:q/x", ttl=2000))
    left = await keys_of(url)
    assert len(left) == 9
    assert all(each > 0 for each in left.values())
    folders = [ms for key, ms in left.items() if ":f:" in key or ":x:" in key]
    assert all(ms > 1_900_000 for ms in folders)


async def test_nothing_is_left_of_what_is_gone(url: str, clock: StoreClock) -> None:
    """Whether it was deleted, dropped, trimmed, claimed or has expired."""
    async with RedisStore(url, clock=clock).open() as store:
        for number in range(100):
            await store.commit(
                Put(f"a:q/{number}", bytes(100), ttl=10, delay=number % 7),
                Put(f"a:deleted/{number}", bytes(100), ttl=math.inf),
            )
            await store.commit(Delete(f"a:deleted/{number}"))
            await store.claim("a:q", 3)
        clock.advance(10)
        for _ in range(20):
            await store.commit(Put("a:q/last", b"", ttl=1))
        await store.commit(Delete("a:q/last"))
    assert [key.rpartition("}")[2] for key in await keys_of(url)] == [":v"]


async def test_two_machines_share_it(url: str) -> None:
    async with open_store(url) as one, open_store(url) as other:
        (version,) = await one.commit(Put("a:q/x", b"one", ttl=99, delay=0))
        assert await value_of(other, "a:q/x") == b"one"
        (entry,) = (await other.claim("a:q", 30)).entries
        with pytest.raises(Conflict):
            await one.commit(Check("a:q/x", expect=version))
        async with one.watch("a:x") as mine, other.watch("a:x", "a:y") as theirs:
            await one.commit(News("a:x"))
            assert await theirs.wait() == {"a:x"}
            assert await mine.wait() == {"a:x"}
            await other.commit(Delete("a:q/x", expect=entry.version), News("a:x"))
            assert await mine.wait() == {"a:x"}
        async with one.watch("a:x") as again:
            await other.commit(News("a:x"))
            assert await again.wait() == {"a:x"}


async def test_a_thousand_tasks_at_once(url: str) -> None:
    async with open_store(url) as store:

        async def use(number: int) -> None:
            await store.commit(Put(f"a:f/{number}", b"", ttl=99), Add("a:n", ttl=99))

        async with trio.open_nursery() as nursery:
            for number in range(1000):
                nursery.start_soon(use, number)
        assert await value_of(store, "a:n") == b"1000"
        assert len((await store.scan("a:f", limit=2000)).entries) == 1000


async def test_many_watch_and_stop(url: str) -> None:
    async with open_store(url) as store, open_store(url) as other:

        async def watch(number: int, task_status: trio.TaskStatus[None]) -> None:
            async with store.watch(f"a:{number % 50}", "a:all") as news:
                task_status.started()
                assert "a:all" in await news.wait()

        async with trio.open_nursery() as nursery:
            for number in range(200):
                await nursery.start(watch, number)
            await other.commit(News("a:all"))
        async with store.watch("a:1") as news:
            await other.commit(News("a:1"))
            assert await news.wait() == {"a:1"}


# -- what goes wrong ---------------------------------------------------------------------------------


async def test_a_server_that_is_started_again(tmp_path: Path) -> None:
    """Nothing was kept, and all goes on: who watches is told to look again."""
    with redis_server(tmp_path) as server:
        async with open_store(server.url) as store, open_store(server.url) as other:
            async with store.watch("a:x") as news:
                version, _ = await store.commit(Put("a:x", b"one", ttl=99), News("a:x"))
                await news.wait()
                server.kill()
                with pytest.raises(StoreUnavailable, match="no connection"):
                    await store.commit(Put("a:x", b"two", ttl=99))
                server.start()
                assert await news.wait() == {"a:x"}
                assert await store.get("a:x") is None
                (again,) = await store.commit(Put("a:x", b"three", ttl=99, expect=ABSENT))
                assert again > version
                await other.get("a:x")
                await other.commit(News("a:x"))
                assert await news.wait() == {"a:x"}


async def test_an_operation_waits_for_a_server_that_comes_back(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        async with open_store(server.url) as store:
            server.kill()
            with pytest.raises(StoreUnavailable):
                await store.commit(Put("a:x", b"", ttl=99))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.commit, Put("a:x", b"there", ttl=99))
                server.start()
            assert await value_of(store, "a:x") == b"there"


async def test_a_server_that_hangs_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        async with RedisStore(server.url, timeout=1.0).open() as store:
            server.send_signal(signal.SIGSTOP)
            for ask in (store.get("a:x"), store.commit(Put("a:x", b"", ttl=99))):
                with pytest.raises(StoreUnavailable, match=r"in time|no connection"):
                    await ask
            server.send_signal(signal.SIGCONT)
            await once_it_is_back(lambda: store.commit(Put("a:x", b"late", ttl=99)))
            assert await once_it_is_back(lambda: value_of(store, "a:x")) == b"late"


async def once_it_is_back(ask: Callable[[], Awaitable[T]]) -> T:
    with trio.fail_after(60):
        while True:
            try:
                return await ask()
            except StoreUnavailable:
                await trio.sleep(0.01)


@pytest.fixture
async def relay(server: RedisServer, nursery: trio.Nursery) -> Relay:
    relay = Relay(server.port)
    await nursery.start(relay.run)
    return relay


def through(relay: Relay, options: str = "") -> RedisStore:
    url = f"redis://127.0.0.1:{relay.port}/0?prefix=test{next(_names)}{options}"
    return RedisStore(url, timeout=2.0)


@pytest.mark.parametrize("forget", [False, True], ids=["held back", "forgotten"])
async def test_a_network_that_splits_and_is_whole_again(relay: Relay, forget: bool) -> None:
    """Nobody is told that a connection is good for nothing any more, and it is noticed."""
    async with through(relay).open() as store, store.watch("a:x") as news:
        relay.cut()
        with pytest.raises(StoreUnavailable):
            await store.commit(Put("a:x", b"", ttl=99))
        relay.heal(forget=forget)
        await once_it_is_back(lambda: store.get("a:x"))
        await once_it_is_back(lambda: store.commit(Put("a:x", b"", ttl=99)))
        if forget:
            assert await news.wait() == {"a:x"}  # as there may have been some


@pytest.mark.parametrize("way", ["requests", "answers"])
async def test_what_was_sent_as_the_network_split_is_done_once_at_most(
    relay: Relay, way: str
) -> None:
    async with through(relay).open() as store:
        cut: Way = getattr(relay, way)
        for log in ("a:one", "a:other"):
            # Redis knows the script from here on, so what commits is one request.
            await once_it_is_back(lambda: store.commit(Put("a:x", b"", ttl=99)))
            cut.cut()
            with pytest.raises(StoreUnavailable):
                await store.commit(Append(log, b"", ttl=99, limit=99), Add("a:n", ttl=99))
            await cut.held.wait()
            relay.heal()
            page = await once_it_is_back(lambda log=log: store.read(log))
            assert page.last in ((1,) if way == "answers" else (0, 1))


async def test_a_connection_for_news_that_breaks_often(server: RedisServer, relay: Relay) -> None:
    """More often than the pool of coredis has room for connections that break."""
    async with through(relay, "&max_connections=3").open() as store, store.watch("a:x") as news:
        for _ in range(9):
            relay.reset()
            assert await news.wait() == {"a:x"}
            await once_it_is_back(lambda: store.get("a:x"))


async def test_connections_that_break_under_hundreds_of_operations(relay: Relay) -> None:
    """Each is told in words of ours, and is done once at most."""
    ended = 0

    async def add(number: int) -> None:
        nonlocal ended
        with suppress(StoreUnavailable):
            await store.commit(Add(f"a:{number}", ttl=99))
        ended += 1
        if ended % 100 == 0:
            relay.reset()

    async with through(relay).open() as store:
        async with trio.open_nursery() as nursery:
            for number in range(1000):
                nursery.start_soon(add, number)
        for number in range(0, 1000, 7):
            assert await once_it_is_back(lambda n=number: value_of(store, f"a:{n}")) in (b"1", None)


async def test_whoever_is_cancelled_gets_its_commit_done_or_not_at_all(url: str) -> None:
    async with open_store(url) as store:
        for number in range(50):
            done = False
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:

                    async def put(number: int = number) -> None:
                        nonlocal done
                        await store.commit(Put(f"a:{number}", b"", ttl=99))
                        done = True

                    nursery.start_soon(put)
                    for _ in range(number % 7):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
            assert (await store.get(f"a:{number}") is not None) == done


async def test_a_server_without_memory_changes_nothing(tmp_path: Path) -> None:
    with redis_server(tmp_path, "--maxmemory", "4mb") as server:
        async with open_store(server.url) as store:
            await store.commit(Put("a:x", b"kept", ttl=99))
            stored = []
            with pytest.raises(StoreFull, match="maxmemory"):
                for number in range(1000):
                    await store.commit(Put(f"a:{number}", bytes(10_000), ttl=99))
                    stored.append(f"a:{number}")
            with pytest.raises(StoreFull):
                await store.commit(Delete("a:x"), Put("a:y", bytes(100_000), ttl=99))
            assert await value_of(store, "a:x") == b"kept"
            await store.commit(*map(Delete, stored[:100]))
            await store.commit(Put("a:y", b"", ttl=99))


async def test_a_server_that_forgets_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with redis_server(tmp_path, "--maxmemory-policy", "allkeys-lru") as server:
        with caplog.at_level(logging.WARNING, "trio_mcp.store"):
            async with open_store(server.url):
                pass
    assert "noeviction" in caplog.text


async def test_passwords(tmp_path: Path) -> None:
    with redis_server(tmp_path, "--requirepass", "secret") as server:
        host = f"127.0.0.1:{server.port}/0"
        async with open_store(f"redis://:secret@{host}") as store:
            await store.commit(Put("a:x", b"", ttl=99))
        for url in (f"redis://{host}", f"redis://:wrong@{host}"):
            with pytest.raises(StoreUnusable, match="password") as caught:
                async with open_store(url):
                    pass
            assert "wrong" not in str(caught.value)


async def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "redis.sock"
    with redis_server(tmp_path, "--unixsocket", str(path)):
        async with open_store(f"redis+unix://{path}") as store:
            await store.commit(Put("a:x", b"", ttl=99))
            assert await value_of(store, "a:x") == b""


async def test_keys_of_something_else_are_left_alone(server: RedisServer, url: str) -> None:
    prefix = url.partition("?prefix=")[2]
    async with coredis.Redis.from_url(server.url) as client:
        await client.set(f"{prefix}:{{a}}:e:x", b"not ours")
        async with open_store(url) as store:
            with pytest.raises(StoreUnusable, match="prefix"):
                await store.get("a:x")
        assert await client.get(f"{prefix}:{{a}}:e:x") == b"not ours"


async def test_a_closed_store_says_so(url: str) -> None:
    async with open_store(url) as store:
        pass
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.get("a:x")


@pytest.mark.long
async def test_a_hundred_thousand_entries(url: str) -> None:
    async with open_store(url) as store:
        for begin in range(0, 100_000, 100):
            await store.commit(
                *(Put(f"a:q/{n:06}", b"", ttl=99, delay=0) for n in range(begin, begin + 100))
            )
        seen, cursor = 0, ""
        while cursor is not None:
            page = await store.scan("a:q", cursor, limit=1000)
            seen, cursor = seen + len(page.entries), page.cursor
        assert seen == 100_000
        claimed = 0
        while entries := (await store.claim("a:q", 99, limit=100)).entries:
            claimed += len(entries)
        assert claimed == 100_000


# -- beside the store in memory ----------------------------------------------------------------------


class Twins:
    """Does the same with two stores, and compares what they say; versions only by their order."""

    def __init__(self, memory: Store, redis: Store, seed: int) -> None:
        self.stores = memory, redis
        self.random = Random(seed)
        self.versions: dict[str, list[tuple[int, int]]] = {}

    async def both(self, ask: Callable[[Store], Awaitable[Any]]) -> list[Any]:
        results = []
        for store in self.stores:
            try:
                results.append(await ask(store))
            except (Conflict, ValueError) as error:
                results.append(type(error))
        return results

    def change(self, which: int, kind: int, key: str, number: int, stale: int) -> Change:
        """Make a change for one of the stores; what is expected is a version of its own."""
        known = self.versions.get(key, [])
        expect = known[-1 - stale][which] if stale < len(known) else (None, ABSENT)[number % 2]
        value, ttl, delay = b"%d" % number, number % 5 + 1, (None, 0, number % 4)[number % 3]
        return (
            Put(key, value, ttl=ttl, expect=expect, delay=delay),
            Put(key, value, ttl=ttl, delay=delay),
            Touch(key, ttl=ttl, expect=expect, delay=delay),
            Delete(key, expect=expect),
            Check(key, expect=expect or ABSENT),
            Add(key, number - 50, ttl=ttl, limit=60),
            Append(key, bytes(number), ttl=ttl, limit=3, max_bytes=100),
            Drop(key),
        )[kind]

    async def commit(self) -> None:
        keys = self.random.sample(["a:q/x", "a:q/y", "a:q/z/1", "a:n"], self.random.randint(1, 3))
        rolls = [(self.random.randrange(8), key, self.random.randrange(100)) for key in keys]
        stale = self.random.choice([0, 0, 0, 1, 9])
        results: list[Any] = []
        for which, store in enumerate(self.stores):
            changes = [self.change(which, *roll, stale) for roll in rolls]
            try:
                results.append(await store.commit(*changes))
            except Conflict as conflict:
                results.append(changes.index(conflict.change))
            except ValueError as error:
                results.append(str(error))
        if not isinstance(results[0], list):
            assert results[0] == results[1]
            return
        for (kind, key, _), *pair in zip(rolls, *results, strict=True):
            if kind >= 5:  # sums and positions
                assert pair[0] == pair[1]
            elif kind < 2:
                self.versions.setdefault(key, []).append((pair[0], pair[1]))
            else:
                assert (pair[0] == ABSENT) == (pair[1] == ABSENT)

    async def look(self) -> None:
        def told(entries: list[Entry]) -> list[tuple[str, bytes, float]]:
            return [(each.key, each.value, round(each.ttl, 3)) for each in entries]

        limit = self.random.randint(1, 3)
        pages = await self.both(lambda store: store.scan("a:q", limit=limit))
        assert told(pages[0].entries) == told(pages[1].entries)
        assert pages[0].cursor == pages[1].cursor
        for log in ("a:q/x", "a:n"):
            logs = await self.both(lambda store, log=log: store.read(log, 1, limit=2))
            assert (logs[0].began == 0) == (logs[1].began == 0)
            assert evolve(logs[0], began=0) == evolve(logs[1], began=0)
        claims = await self.both(lambda store: store.claim("a:q", 2, limit=limit))
        assert told(claims[0].entries) == told(claims[1].entries)
        assert round(claims[0].wait, 3) == round(claims[1].wait, 3)
        for one, other in zip(claims[0].entries, claims[1].entries, strict=True):
            self.versions.setdefault(one.key, []).append((one.version, other.version))


@pytest.mark.parametrize("seed", range(8))
async def test_it_does_what_memory_does(seed: int, url: str, clock: StoreClock) -> None:
    async with RedisStore(url, clock=clock).open() as redis:
        twins = Twins(MemoryStore(clock=clock), redis, seed)
        for _ in range(300):
            await twins.commit()
            if twins.random.random() < 0.3:
                clock.advance(twins.random.choice([0.25, 1, 3]))
            if twins.random.random() < 0.3:
                await twins.look()
