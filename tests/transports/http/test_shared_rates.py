"""Rates of clients whose requests reach several instances."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.store.redis_server import redis_server
from tests.support.tools import echo, registry_of
from tests.transports.http.fleet import Fleet, Unsteady, fleet
from tests.transports.http.support import ModernClient
from trio_mcp import HttpPolicy, Registry
from trio_mcp.store.opening import open_store

pytestmark = pytest.mark.requirement("M2")

REFUSED = 429


def echoing() -> Registry:
    return registry_of(echo)


async def send(those: Fleet, number: int, address: str = "10.0.0.1", token: str = "") -> int:
    """Send a request to one of the instances; return the status."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    client = ModernClient(those.hosts[number % len(those.hosts)], headers)
    client.address = (address, 5000)
    return (await client.begin("tools/list").end()).status


async def served(those: Fleet, count: int, **options: str) -> int:
    """Send some requests, to one instance after the other; return how many were served."""
    statuses = [await send(those, number, **options) for number in range(count)]
    assert set(statuses) <= {200, REFUSED, 401}
    return count - statuses.count(REFUSED)


async def test_a_rate_is_one_for_all_instances(autojump_clock: Any) -> None:
    async with fleet(echoing, HttpPolicy(rate=2, burst=30)) as those:
        assert await served(those, 100) == 30
        assert await served(those, 100, address="10.0.0.2") == 30
        await trio.sleep(5)
        assert await served(those, 30) == 10
        await trio.sleep(1000)
        assert await served(those, 100) == 30


async def test_how_far_above_the_rate_a_client_gets(autojump_clock: Any) -> None:
    rate, burst, portion, seconds = 4.0, 40, 4, 60
    async with fleet(echoing, HttpPolicy(rate=rate, burst=burst)) as those:
        count = 0
        for _ in range(seconds):
            count += await served(those, 9)
            await trio.sleep(1)
        assert rate * (seconds - 1) <= count <= burst + rate * seconds + 3 * portion


async def test_who_keeps_to_the_rate_is_never_refused(autojump_clock: Any) -> None:
    async with fleet(echoing, HttpPolicy(rate=1, burst=20)) as those:
        for number in range(300):
            assert await send(those, number) == 200
            await trio.sleep(1.01)


async def test_many_at_the_same_time(autojump_clock: Any) -> None:
    async with fleet(echoing, HttpPolicy(rate=0.001, burst=20)) as those:
        statuses: list[int] = []

        async def one(number: int) -> None:
            statuses.append(await send(those, number))

        async with trio.open_nursery() as nursery:
            for number in range(90):
                nursery.start_soon(one, number)
        assert statuses.count(200) == 20


async def test_a_principal_has_one_rate_wherever_it_is(autojump_clock: Any) -> None:
    policy = HttpPolicy(tokens={"a": "alice", "a2": "alice", "b": "bob"}, rate=0.01, burst=20)
    async with fleet(echoing, policy) as those:
        assert await served(those, 15, token="a") == 15
        assert await served(those, 30, token="a2", address="10.0.0.9") == 5
        assert await served(those, 30, token="b") == 20


async def test_guesses_count_at_all_instances(autojump_clock: Any) -> None:
    policy = HttpPolicy(tokens={"right": "alice"}, guess_rate=1, burst=20)
    async with fleet(echoing, policy) as those:
        assert await served(those, 30, token="right") == 30, "these are not guesses"
        assert 20 - 3 * 2 <= await served(those, 60, token="wrong") <= 20
        assert await served(those, 3, token="right") == 0
        assert await served(those, 3, token="right", address="10.0.0.2") == 3
        await trio.sleep(30)
        assert await served(those, 30, token="right") == 30


async def test_what_guesses_at_one_instance_owe_counts_at_the_others(autojump_clock: Any) -> None:
    async def verify(token: str) -> str | None:
        await trio.sleep(1)
        return None

    policy = HttpPolicy(verify=verify, guess_rate=1, burst=5)
    async with fleet(echoing, policy) as those:
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(send, those, 0, "10.0.0.1", "wrong")
        assert [await send(those, number, token="wrong") for number in range(3)] == 3 * [REFUSED]


async def test_each_instance_counts_while_the_store_is_away(autojump_clock: Any) -> None:
    store = Unsteady()
    async with fleet(echoing, HttpPolicy(rate=1, burst=10), store=store) as those:
        store.away = True
        assert await served(those, 60) == 30
        asked = store.asked
        await served(those, 60)
        assert store.asked <= asked + 3, "it is left alone"
        store.away = False
        await trio.sleep(100)
        assert await served(those, 60) == 10


@pytest.mark.long
async def test_the_store_is_not_asked_about_each_request(autojump_clock: Any) -> None:
    store = Unsteady()
    async with fleet(echoing, HttpPolicy(rate=100, burst=100), store=store) as those:
        before = store.asked
        for _ in range(10):
            assert await served(those, 30) == 30
            await trio.sleep(0.5)
        assert store.asked - before <= 300 / 10 * 2 + 50
        before = store.asked
        assert await served(those, 300) <= 100 + 3 * 10, (
            "the bucket, and what each instance has taken"
        )
        flooded = store.asked - before
        await served(those, 300)
        assert store.asked - before - flooded <= 6, "who is refused asks nothing"


@pytest.mark.needs("redis-server")
async def test_a_rate_in_redis(tmp_path: Any) -> None:
    with redis_server(tmp_path) as server:
        async with open_store(server.url) as store:
            async with fleet(echoing, HttpPolicy(rate=0.001, burst=30), store=store) as those:
                assert await served(those, 60) == 30
