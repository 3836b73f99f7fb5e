"""HTTP+SSE at several instances: one holds the stream, and any of them takes what is posted."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.store.contents import lose_all, values_of
from tests.store.redis_server import redis_server
from tests.support.tools import echo, registry_of, text_of
from tests.transports.http.fleet import Fleet, Unsteady, fleet
from tests.transports.http.support import Response, Worker
from tests.transports.http.test_app_sse import ALICE, BOB, PATH, TOKENS, SseClient
from trio_mcp import Context, HttpPolicy, Limits, Registry, SessionOptions
from trio_mcp.auth import Authorization
from trio_mcp.store.changes import Change, Delete
from trio_mcp.store.errors import StoreUnavailable
from trio_mcp.store.memory import MemoryStore
from trio_mcp.store.opening import open_store
from trio_mcp.store.protocol import Store

pytestmark = [pytest.mark.requirement("M3"), pytest.mark.requirement("F17")]


def echoing() -> Registry:
    return registry_of(echo)


@asynccontextmanager
async def sharing(
    make: Callable[[], Registry], policy: HttpPolicy | None = None, **options: Any
) -> AsyncIterator[Fleet]:
    """Serve clients of HTTP+SSE by several instances."""
    async with fleet(make, policy, sse_path=PATH, **options) as those:
        yield those


async def begun(those: Fleet, **options: Any) -> SseClient:
    """A client whose stream is at the first instance, and which posts to the second one."""
    client = SseClient(those.hosts[0], **options)
    await client.connect()
    client.host = those.hosts[1]
    await client.ask(client.initialize_request())
    await client.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return client


async def converse(store: Store | None) -> None:
    async with sharing(echoing, store=store) as those:
        client = await begun(those)
        for number, host in zip(range(9), itertools.cycle(those.hosts), strict=False):
            client.host = host
            assert text_of(await client.call("echo", text=str(number))) == str(number)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_any_instance_takes_a_message(kind: str, tmp_path: Any) -> None:
    async with open_store("memory:" if kind == "memory" else tmp_path / "shared.db") as store:
        await converse(store)


@pytest.mark.needs("redis-server")
async def test_any_instance_takes_a_message_by_way_of_redis(tmp_path: Any) -> None:
    with redis_server(tmp_path) as server:
        async with open_store(server.url) as store:
            await converse(store)


async def test_questions_and_cancellations_find_their_call() -> None:
    worker = Worker()

    async def places(context: Context) -> list[str]:
        return [str(each.uri) for each in await context.roots()]

    def make() -> Registry:
        registry = registry_of(places)
        registry.add_tool(worker.work)
        return registry

    async with sharing(make) as those:
        client = await begun(those, capabilities={"roots": {}})
        question = await client.ask(client.call_of("places"))
        client.host = those.hosts[2]
        await client.reply(question, {"roots": [{"uri": "file:///srv"}]})
        assert "file:///srv" in text_of(await client.stream.message())
        call = client.call_of("work")
        await client.tell(call)
        await worker.until(1)
        await client.notify("notifications/cancelled", {"requestId": call["id"]})
        await worker.until(0)
        assert worker.cancelled == 1


async def status_of(client: SseClient) -> int:
    """What a message gets."""
    return (await client.post(client.request_of("ping"))).status


async def test_a_session_is_its_owners_everywhere() -> None:
    async with sharing(echoing, TOKENS) as those:
        alice = await begun(those, headers=ALICE)
        bob = SseClient(those.hosts[1], headers=BOB)
        bob.endpoint = alice.endpoint
        assert await status_of(bob) == 404
        assert await status_of(alice) == 202
        for endpoint in (PATH, f"{PATH}?session_id=x", f"{PATH}?session_id={'a' * 43}"):
            alice.endpoint = endpoint
            assert await status_of(alice) == 404


async def test_a_message_brings_along_what_its_token_allows(autojump_clock: MockClock) -> None:
    async def verify(token: str) -> Authorization:
        scopes, claims = frozenset(token.split("+")), {"is": token, "odd": {"no JSON", 2**70}}
        deadline = trio.current_time() + (1000 if "write" in scopes else 100)
        return Authorization(subject="a", scopes=scopes, claims=claims, deadline=deadline)

    async def write(context: Context) -> str:
        found = context.authorization
        assert found is not None
        seconds = round(found.deadline - trio.current_time())
        return f"{found.claims['is']} {sorted(found.scopes)} {seconds}"

    def make() -> Registry:
        registry = Registry("test")
        registry.add_tool(write, scopes=["write"])
        return registry

    async with sharing(make, HttpPolicy(verify=verify)) as those:
        client = await begun(those, headers={"authorization": "Bearer read"})
        assert (await client.post(client.call_of("write"))).status == 403
        client.headers = {"authorization": "Bearer read+write"}
        assert text_of(await client.call("write")) == "read+write ['read', 'write'] 1000"
        await trio.sleep(500)
        assert await status_of(client) == 202, "a new token lets the session last longer"


def stalled(client: SseClient, count: int = 8) -> list[Response]:
    """Post messages that are not read from their connection, because their answers are not read."""
    client.stream.stall()
    return [client.send(client.call_of("echo", text="z" * 2000)) for _ in range(count)]


async def waiting(posts: list[Response]) -> list[Response]:
    await wait_all_tasks_blocked()
    return [each for each in posts if not each.ended.is_set()]


TIGHT = Limits(max_outgoing_bytes=1000)


async def test_a_post_waits_until_its_message_is_taken() -> None:
    async with sharing(echoing, limits=TIGHT) as those:
        client = await begun(those)
        posts = stalled(client)
        assert len(await waiting(posts)) > 1
        client.stream.resume()
        assert [(await each.end()).status for each in posts] == [202] * len(posts)
        for _ in posts:
            assert (await client.stream.message())["result"]


async def test_posts_that_wait_cost_nothing(mock_clock: MockClock) -> None:
    store = Unsteady()
    async with sharing(echoing, store=store, limits=TIGHT) as those:
        client = await begun(those)
        for number in (20, 60):
            before = store.asked
            posts = stalled(client, number)
            await wait_all_tasks_blocked()
            assert len([key for key in values_of(store) if ":posts/" in key]) == 1
            client.stream.resume()
            for each in posts:
                await each.end()
                assert (await client.stream.message())["result"]
            assert store.asked - before <= 8 * number


async def test_what_a_client_that_left_has_posted_is_not_taken() -> None:
    async with sharing(echoing, limits=TIGHT) as those:
        client = await begun(those)
        posts = stalled(client)
        left = await waiting(posts)
        for each in left:
            each.disconnect()
            await each.end()
        client.stream.resume()
        ping = client.request_of("ping")
        answer, answers = await client.ask(ping), 0
        while answer["id"] != ping["id"]:
            answer, answers = await client.stream.message(), answers + 1
        in_hand = answers - (len(posts) - len(left))
        assert in_hand <= 1 < len(left), "what was being taken, and no more"


async def test_posts_end_with_their_session() -> None:
    async with sharing(echoing, limits=TIGHT) as those:
        client = await begun(those)
        posts = stalled(client)
        assert await waiting(posts)
        client.stream.disconnect()
        assert {(await each.end()).status for each in posts} == {202, 404}
        assert await status_of(client) == 404


async def test_a_session_that_ends_slowly_takes_no_more(autojump_clock: MockClock) -> None:
    worker = Worker()
    async with sharing(lambda: worker.registry) as those:
        client = await begun(those)
        await client.tell(client.call_of("work"))
        await worker.until(1)
        those.hosts[0].app.stop()
        await wait_all_tasks_blocked()
        assert await status_of(client) == 404
        worker.go_on.set()
        assert text_of(await client.stream.message()) == "done"


async def test_posts_for_an_instance_that_died(autojump_clock: MockClock) -> None:
    async with sharing(echoing, limits=TIGHT) as those:
        client = await begun(those)
        posts = stalled(client)
        last = (await waiting(posts))[-1]
        began = trio.current_time()
        those.views[0].is_cut_off = True  # no sign of life any more
        assert (await last.end()).status == 404
        assert trio.current_time() - began <= 20
        assert await status_of(client) == 404


async def test_without_the_store_the_instance_of_the_stream_goes_on() -> None:
    store = Unsteady()
    async with sharing(echoing, store=store) as those:
        client = await begun(those)
        store.away = True
        refused = await client.post(client.request_of("ping"))
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert (await SseClient(those.hosts[0]).open().end()).status == 503
        client.host = those.hosts[0]
        assert (await client.request("ping"))["result"] == {}
        store.away = False
        client.host = those.hosts[1]
        assert (await client.request("ping"))["result"] == {}


async def test_a_store_that_loses_everything_hears_of_the_stream_again() -> None:
    store = MemoryStore()
    async with sharing(echoing, store=store) as those:
        client = await begun(those)
        await wait_all_tasks_blocked()
        lose_all(store, but="instance-")
        assert await status_of(client) == 404
        store.watches.notify_all()
        await wait_all_tasks_blocked()
        assert (await client.request("ping"))["result"] == {}


async def test_a_store_that_loses_everything_hears_of_it_before_long(
    autojump_clock: MockClock,
) -> None:
    async with sharing(echoing) as those:
        client = await begun(those)
        lose_all(those.store)
        await trio.sleep(4)
        assert (await client.request("ping"))["result"] == {}


class Failing(MemoryStore):
    """A store that is away when a message has been taken, and is to be removed."""

    fails = False

    async def commit(self, *changes: Change) -> list[int]:
        if self.fails and isinstance(changes[0], Delete):
            self.fails = False
            raise StoreUnavailable("it is away")
        return await super().commit(*changes)


async def test_a_message_is_taken_once_though_the_store_fails(autojump_clock: MockClock) -> None:
    store, taken = Failing(), []

    async def take(number: int) -> None:
        taken.append(number)

    async with sharing(lambda: registry_of(take), store=store) as those:
        client = await begun(those)
        for number in range(3):
            store.fails = True
            await client.ask(client.call_of("take", number=number))
            assert not store.fails
            await trio.sleep(200)
        assert taken == [0, 1, 2]


async def test_a_stream_lasts_as_long_as_it_is_open(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with sharing(echoing, sessions=SessionOptions(session_idle=100), store=store) as those:
        quiet, busy = await begun(those), await begun(those)
        for _ in range(100):
            await trio.sleep(7)
            assert (await busy.request("ping"))["result"] == {}
        assert (await quiet.request("ping"))["result"] == {}
        for each in (quiet, busy):
            each.stream.disconnect()
            await each.stream.end()
        assert not [key for key in values_of(store) if key.startswith("sse-")]
