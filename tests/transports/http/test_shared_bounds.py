"""What sessions keep in a store that instances share, and how many of one owner there are."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.store.contents import items_of, values_of
from tests.support.tools import echo, registry_of, text_of
from tests.transports.http.fleet import Fleet, Unsteady, fleet
from tests.transports.http.support import LegacyClient, progress_meta
from trio_mcp import Context, HttpPolicy, Limits, Registry, SessionOptions
from trio_mcp.store.memory import MemoryStore

pytestmark = pytest.mark.requirement("M2", "F2")

TOKENS = HttpPolicy(tokens={"a-token": "alice", "b-token": "bob"})


async def write(context: Context, size: int) -> str:
    """Say something, and much."""
    await context.progress(1)
    return "x" * size


def writing() -> Registry:
    return registry_of(write, echo)


async def begun(those: Fleet, instance: int, who: str = "a") -> LegacyClient:
    headers = {"authorization": f"Bearer {who}-token"}
    client = LegacyClient(those.hosts[instance], headers=headers)
    await client.initialize()
    return client


async def status_of(client: LegacyClient) -> int:
    return (await client.begin("ping").end()).status


def streams_in(store: MemoryStore) -> dict[str, int]:
    """The bytes of all streams that the store keeps, by their names."""
    return {
        name: sum(map(len, items)) for name, items in items_of(store).items() if ":stream/" in name
    }


async def test_an_owner_has_so_many_sessions_at_all_instances(autojump_clock: MockClock) -> None:
    options = SessionOptions(max_sessions=3, session_idle=1000)
    async with fleet(writing, TOKENS, 3, sessions=options) as those:
        bob = await begun(those, 0, "b")
        first, second, third = [await begun(those, number % 3) for number in range(3)]
        await trio.sleep(200)  # so that it is noted which of them is used
        assert [await status_of(each) for each in (bob, first, third)] == [200, 200, 200]
        fourth = await begun(those, 2)
        assert await status_of(second) == 404, "it was not used for the longest time"
        assert [await status_of(each) for each in (bob, first, third, fourth)] == 4 * [200]
        for host in those.hosts:
            second.host = host
            assert await status_of(second) == 404
        for _ in range(10):
            await begun(those, 1)
            await trio.sleep(1)
        assert await status_of(bob) == 200
        abouts = [key for key in values_of(those.store) if key.endswith(":about")]
        assert sum(values_of(those.store)[key] != b"" for key in abouts) == 4


async def test_what_has_ended_or_expired_is_not_counted(autojump_clock: MockClock) -> None:
    options = SessionOptions(max_sessions=2, session_idle=100)
    async with fleet(writing, TOKENS, 2, sessions=options) as those:
        kept = await begun(those, 0)
        for _ in range(5):
            assert await (await begun(those, 1)).delete() == 200
        assert await status_of(kept) == 200
        for _ in range(5):
            other = await begun(those, 1)
            for _ in range(15):
                await trio.sleep(10)  # in which the other one expires
                assert await status_of(kept) == 200
            assert await status_of(other) == 404


async def test_a_session_keeps_so_many_bytes_for_those_who_come_back(mock_clock: Any) -> None:
    options = SessionOptions(max_event_bytes=20_000, max_total_event_bytes=1_000_000)
    async with fleet(writing, TOKENS, 2, sessions=options) as those:
        client = await begun(those, 0)
        ids = []
        for _ in range(8):
            response = client.begin_call("write", progress_meta(), size=6000)
            assert len(await response.messages()) == 2
            ids.append(response.events[0].id)
        await wait_all_tasks_blocked()
        assert sum(streams_in(those.store).values()) <= 20_000
        client.host = those.hosts[1]
        assert (await client.get(after=ids[0]).end()).status == 400
        assert text_of((await client.get(after=ids[-1]).messages())[-1]) == 6000 * "x"


async def test_a_stream_that_goes_on_may_lose_its_place_to_later_ones(mock_clock: Any) -> None:
    go_on = trio.Event()

    async def wait(context: Context) -> str:
        await context.progress(1)
        await go_on.wait()
        for number in range(2, 5):
            await context.progress(number)
        return "waited"

    options = SessionOptions(max_event_bytes=20_000)
    async with fleet(lambda: registry_of(wait, write), TOKENS, 2, sessions=options) as those:
        client = await begun(those, 0)
        call = client.begin_call("wait", progress_meta())
        await call.message()
        first = call.events[0].id
        for _ in range(4):
            await client.begin_call("write", progress_meta(), size=9000).messages()
        await wait_all_tasks_blocked()
        go_on.set()
        assert text_of((await call.messages())[-1]) == "waited"
        await wait_all_tasks_blocked()
        kept = streams_in(those.store)
        assert not [name for name in kept if name.endswith(str(first).partition("-")[0])]
        client.host = those.hosts[1]
        assert (await client.get(after=first).end()).status == 400


@pytest.mark.parametrize("how", ["deleted", "pushed out"])
async def test_nothing_is_kept_of_a_session_that_has_ended(how: str, mock_clock: Any) -> None:
    options = SessionOptions(max_sessions=1)
    async with AsyncExitStack() as stack:
        those = await stack.enter_async_context(fleet(writing, TOKENS, 2, sessions=options))
        client = await begun(those, 0)
        for number in range(3):
            client.host = those.hosts[number % 2]
            await client.begin_call("write", progress_meta(), size=6000).messages()
        await wait_all_tasks_blocked()
        assert len(streams_in(those.store)) == 3
        if how == "deleted":
            nursery = await stack.enter_async_context(trio.open_nursery())
            nursery.start_soon(client.delete)
            await wait_all_tasks_blocked()
            mock_clock.jump(2)
        else:
            mock_clock.jump(1)
            await begun(those, 1)
        await wait_all_tasks_blocked()
        assert streams_in(those.store) == {}
        assert not [key for key in values_of(those.store) if ":call/" in key]


def news(made: list[Registry]) -> Registry:
    """Make the registry of another instance, and note it."""
    made.append(registry := Registry("news"))
    registry.add_resource("news://today", lambda: "news", name="today")
    return registry


def bytes_of_changes(store: MemoryStore) -> int:
    logs = items_of(store).items()
    return sum(sum(map(len, items)) for name, items in logs if name.startswith("changes:"))


async def test_of_what_none_can_be_subscribed_to_others_hear_nothing() -> None:
    made: list[Registry] = []
    limits = Limits(max_subscription_bytes=100)
    async with fleet(partial(news, made), size=2, limits=limits) as those:
        client = those.client()
        await client.initialize()
        for number in range(100):
            made[0].notify_resource_updated(f"news://{number}/{'x' * 100}")
        await wait_all_tasks_blocked()
        assert bytes_of_changes(those.store) == 0


async def test_few_bytes_of_changes_wait_for_the_store_and_none_is_missed(
    autojump_clock: MockClock,
) -> None:
    made: list[Registry] = []
    async with fleet(partial(news, made), size=2) as those:
        client = those.client()
        await client.initialize()
        await client.request("resources/subscribe", {"uri": "news://today"})
        stream = client.get()  # at the second
        await stream.started()
        await wait_all_tasks_blocked()
        there, _ = those.views
        there.is_cut_off = True
        for number in range(10_000):
            made[0].notify_resource_updated(f"news://{number}/{'x' * 1000}")
            if number == 5_000:
                made[0].notify_resource_updated("news://today")
        await trio.sleep(5)
        there.is_cut_off = False
        with trio.fail_after(60):
            while (await stream.message())["method"] != "notifications/resources/updated":
                pass
        assert bytes_of_changes(those.store) < 4096


async def test_streams_that_cannot_be_kept_leave_one_task(autojump_clock: MockClock) -> None:
    async with fleet(writing, store=(store := Unsteady()), size=1) as those:
        client = those.client()
        await client.initialize()
        await trio.sleep(1)
        store.away = True
        before = trio.lowlevel.current_statistics().tasks_living
        for _ in range(50):
            await client.call("write", progress_meta(), size=1)
        await trio.sleep(1)
        assert trio.lowlevel.current_statistics().tasks_living <= before + 1
        store.away = False
        await trio.sleep(5)
        assert not streams_in(store)
        assert trio.lowlevel.current_statistics().tasks_living == before
