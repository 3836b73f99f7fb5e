"""`RateLimit(store=…)`: a rate that several processes count together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.store.redis_server import redis_server
from tests.support.tools import echo, registry_of
from tests.transports.http.fleet import Unsteady, fleet
from tests.transports.http.support import LegacyClient, ModernClient
from trio_mcp import Client, McpError, Registry, connect
from trio_mcp.errors import LifespanError
from trio_mcp.middleware import McpRequest, RateLimit
from trio_mcp.registry import catalogue_of
from trio_mcp.store.memory import MemoryStore
from trio_mcp.store.protocol import StoreLike

pytestmark = pytest.mark.requirement("M2")


def everybody(given: Any) -> str:
    return "everybody"


def limit_of(store: StoreLike, burst: float = 10, rate: float = 0.001, **options: Any) -> RateLimit:
    return RateLimit(rate, **{"burst": burst, "store": store, "name": "calls", **options})


def limited(store: StoreLike, **options: Any) -> Registry:
    return registry_of(echo, middleware=[limit_of(store, by=everybody, around="calls", **options)])


async def served(clients: list[Client], count: int) -> int:
    """Call in turns; return how many calls were served."""
    found = 0
    for number in range(count):
        result = await clients[number % len(clients)].call_tool("echo", {"text": "a"})
        found += result.error is None
    return found


async def served_by_two(store: StoreLike, count: int) -> int:
    """Call two servers that share a store, in turns."""
    async with connect(limited(store)) as one, connect(limited(store)) as two:
        return await served([one, two], count)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_rate_is_one_for_all_that_share_the_store(kind: str, tmp_path: Path) -> None:
    store: StoreLike = MemoryStore() if kind == "memory" else tmp_path / "rates.db"
    assert await served_by_two(store, 30) == 10
    assert await served_by_two(store, 3) == 0, "it is in the store, not in the servers"


@pytest.mark.needs("redis-server")
async def test_a_rate_in_redis(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        assert await served_by_two(server.url, 30) == 10


async def test_each_counts_for_itself_while_the_store_is_away(autojump_clock: Any) -> None:
    store = Unsteady()
    async with AsyncExitStack() as stack:
        two = [await stack.enter_async_context(connect(limited(store))) for _ in range(2)]
        store.away = True
        assert await served(two, 50) == 20
        asked = store.asked
        assert await served(two, 50) == 0
        assert store.asked == asked, "it is left alone for a while"
        store.away = False
        await trio.sleep(20_000)
        assert await served(two, 50) == 10


async def test_a_session_without_a_token_has_one_rate_at_all_instances() -> None:
    store = MemoryStore()

    def make() -> Registry:
        return registry_of(echo, middleware=[limit_of(store, around="calls")])

    async def calls(client: LegacyClient) -> int:
        answers = [await client.call("echo", text="a") for _ in range(30)]
        return [bool(answer["result"].get("isError")) for answer in answers].count(False)

    async with fleet(make, store=store) as those:
        for client in (those.client(), those.client()):
            await client.initialize()
            assert await calls(client) == 10


async def test_a_rate_with_a_name_is_in_the_store_of_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def calls_served(**options: Any) -> int:
        def make() -> Registry:
            return registry_of(echo, middleware=[RateLimit(0.001, burst=10, **options)])

        async with fleet(make) as those:
            answers = [await ModernClient(host).call("echo", text="a") for host in 10 * those.hosts]
        return [bool(answer["result"].get("isError")) for answer in answers].count(False)

    assert await calls_served(name="calls") == 10
    assert "counts in each process" not in caplog.text
    assert await calls_served() == 30
    assert "RateLimit(0.001) counts in each process for itself: give it a name" in caplog.text


def test_what_is_no_store_is_refused_where_it_is_named() -> None:
    with pytest.raises(TypeError, match="store must be a URL, a path or an open store, not bool"):
        RateLimit(5, store=True, name="shop")  # type: ignore[arg-type]


async def test_names_and_keys_tell_rates_apart() -> None:
    store = MemoryStore()

    async def takes(key: Hashable = "a", **options: Any) -> bool:
        async def answer(given: Any) -> None:
            pass

        limit = limit_of(store, burst=1, by=lambda given: key, **options)
        async with limit.lifespan():
            try:
                await limit(McpRequest(method="ping"), answer)
            except McpError:
                return False
        return True

    assert await takes()
    assert not await takes()
    assert await takes(name="others")
    assert await takes(("a", 1))
    assert await takes(("a", "1"))
    assert not await takes(("a", 1))
    assert await takes(None), "it is not counted"
    assert await takes(None)
    with pytest.raises(TypeError, match="must return text, a number or a tuple"):
        await takes(object())


async def test_it_is_opened_with_whatever_has_it() -> None:
    store = MemoryStore()
    part = limited(store)
    whole = Registry("whole")
    whole.mount(part, "part")
    assert catalogue_of(whole).needs_running
    await whole.call("part_echo", {"text": "a"})
    registry = registry_of(echo, middleware=[limit_of(store, by=everybody)])
    requests = limit_of(store, burst=5, by=everybody, name="requests")
    async with connect(registry, middleware=[requests]) as client:
        with pytest.raises(McpError, match="Too many requests"):
            for _ in range(20):
                await client.request("tools/list")
    async with whole.running(), connect(whole) as client:
        assert (await client.call_tool("part_echo", {"text": "a"})).error is None


async def test_middleware_is_opened_within_the_lifespan_and_once() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def noting(name: str) -> AsyncIterator[None]:
        events.append(f"{name} opens")
        yield
        events.append(f"{name} closes")

    class Journal:
        around = "calls"

        def lifespan(self) -> AbstractAsyncContextManager[None]:
            return noting("middleware")

        async def __call__(self, given: Any, call_next: Any) -> Any:
            return await call_next(given)

    journal = Journal()
    registry = Registry(
        "test",
        lifespan=lambda registry: noting("registry"),
        middleware=[journal, journal],
    )
    async with registry.running(), connect(registry), connect(registry):
        pass
    assert events == ["registry opens", "middleware opens", "middleware closes", "registry closes"]


async def test_what_is_wrong_with_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"needs a name.*RateLimit\(\.\.\., name="):
        RateLimit(1, store="memory:")
    with pytest.raises(RuntimeError, match=r"is not open: give the RateLimit to a Registry"):
        await limit_of("memory:", by=everybody)(None, echo)
    with pytest.raises(LifespanError, match="lifespan of test failed: StoreUnusable"):
        async with connect(limited(tmp_path)):
            pass
