"""What a client keeps: for as long as the server says, for whom it says, and until there is news."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from attrs import frozen
from trio.testing import MockClock

from tests.compose.rough import Message, RoughServer
from tests.support.tools import echo
from trio_mcp import Client, Context, Handlers, Registry, ResourceUpdated, ResponseCache, connect
from trio_mcp.errors import UnknownTool
from trio_mcp.middleware import McpRequest, RequestNext

ERAS = ["modern", "legacy"]


@frozen
class Name:
    """What is asked for."""

    name: str


async def hello() -> str:
    """Greet."""
    return "hello"


class Counted:
    """A server in memory that counts what it is asked."""

    def __init__(self, **options: Any) -> None:
        self.asked: Counter[str] = Counter()
        self.registry = Registry("counted", middleware=[self._count], **options)
        self.registry.add_tool(echo)
        self.registry.add_prompt(hello, name="greeting")
        self.value = 1

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncIterator[Client]:
        """A client of it."""
        before = self.asked.copy()
        async with connect(self.registry, **options) as client:
            self.asked = before  # without what is asked when they meet
            yield client

    async def _count(self, request: McpRequest, call_next: RequestNext) -> Any:
        self.asked[request.method] += 1
        return await call_next(request)


LISTS: dict[str, Callable[[Client], Any]] = {
    "tools/list": lambda client: client.refresh_tools(fresh=False),
    "prompts/list": lambda client: client.list_prompts(),
    "resources/list": lambda client: client.list_resources(),
    "resources/templates/list": lambda client: client.list_resource_templates(),
}


def with_resources(counted: Counted, **options: Any) -> Counted:
    async def any(name: str) -> str:
        return name

    async def app() -> str:
        return str(counted.value)

    counted.registry.add_resource("config://{name}", any)
    counted.registry.add_resource("config://app", app, **options)
    return counted


@pytest.mark.requirement("K7")
@pytest.mark.parametrize("method", LISTS)
async def test_a_list_is_kept_for_its_time(method: str, autojump_clock: Any) -> None:
    counted = with_resources(Counted(cache_ttl=10))
    async with counted.client() as client:
        for _ in range(5):
            await LISTS[method](client)
        first = 0 if method == "tools/list" else 1  # tools were listed when it connected
        assert counted.asked[method] == first
        await trio.sleep(10)
        for _ in range(5):
            await LISTS[method](client)
        assert counted.asked[method] == first + 1


@pytest.mark.parametrize("era", ERAS)
async def test_without_a_time_nothing_is_kept(era: Any) -> None:
    """No legacy server says how long."""
    counted = Counted(cache_ttl=0 if era == "modern" else 10)
    async with counted.client(era=era) as client:
        for _ in range(3):
            await client.list_prompts()
    assert counted.asked["prompts/list"] == 3


async def test_fresh_asks_the_server(autojump_clock: Any) -> None:
    counted = Counted(cache_ttl=10)
    async with counted.client() as client:
        await client.list_prompts()
        counted.registry.add_prompt(hello, name="farewell")
        assert len(await client.list_prompts()) == 1
        assert len(await client.list_prompts(fresh=True)) == 2
        assert len(await client.list_prompts()) == 2, "the newer one is kept"
        await client.refresh_tools()
    assert counted.asked == {"prompts/list": 2, "tools/list": 1}


async def test_each_page_is_kept() -> None:
    counted = Counted(cache_ttl=10, page_size=1)
    for name in "abc":
        counted.registry.add_prompt(hello, name=name)
    async with counted.client() as client:
        for _ in range(2):
            assert len(await client.list_prompts()) == 4
    assert counted.asked["prompts/list"] == 4


async def test_resources_are_kept_one_by_one(autojump_clock: Any) -> None:
    counted = with_resources(Counted(), cache_ttl=10)
    async with counted.client() as client:
        assert [(await client.read_resource("config://app")).text for _ in range(3)] == ["1"] * 3
        assert counted.asked["resources/read"] == 1
        counted.value = 2
        assert (await client.read_resource("config://app")).text == "1"
        assert (await client.read_resource("config://app", fresh=True)).text == "2"
        for _ in range(2):
            assert (await client.read_resource("config://other")).text == "other"
        assert counted.asked["resources/read"] == 4, "the template has no time"
        await trio.sleep(10)
        counted.value = 3
        assert (await client.read_resource("config://app")).text == "3"


@pytest.mark.requirement("K7")
async def test_news_make_a_list_out_of_date() -> None:
    counted = Counted(cache_ttl=1000)
    async with (
        counted.client() as client,
        client.subscribe(lists=["prompts"]) as changes,
    ):
        await client.list_prompts()
        counted.registry.add_prompt(hello, name="farewell")
        await anext(changes)
        assert len(await client.list_prompts()) == 2
        await client.refresh_tools(fresh=False)
        assert counted.asked["tools/list"] == 0, "that is another list"


async def test_news_make_a_resource_out_of_date() -> None:
    counted = with_resources(Counted(), cache_ttl=1000)
    async with (
        counted.client() as client,
        client.subscribe(resources=["config://app"]) as changes,
    ):
        assert (await client.read_resource("config://app")).text == "1"
        counted.value = 2
        counted.registry.notify_resource_updated("config://app")
        await anext(changes)
        assert (await client.read_resource("config://app")).text == "2"


@pytest.mark.requirement("K7")
async def test_news_that_come_while_the_answer_is_on_its_way() -> None:
    """What was asked for before the change is not kept: it may be from before."""
    counted = Counted()
    reading, changed = trio.Event(), trio.Event()

    async def app() -> str:
        before = counted.value
        reading.set()
        await changed.wait()
        return str(before)

    counted.registry.add_resource("config://app", app, cache_ttl=1000)
    async with (
        counted.client() as client,
        client.subscribe(resources=["config://app"]) as changes,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(client.read_resource, "config://app")
        await reading.wait()
        counted.value = 2
        counted.registry.notify_resource_updated("config://app")
        await anext(changes)
        changed.set()
        await trio.testing.wait_all_tasks_blocked()
        assert (await client.read_resource("config://app")).text == "2"


@pytest.mark.requirement("K7")
async def test_what_depends_on_an_answer_is_not_kept() -> None:
    counted = Counted()

    async def mine(context: Context) -> str:
        answer = await context.elicit("Who are you?", Name)
        return answer.content.name if answer.content is not None else ""

    counted.registry.add_resource("config://mine", mine, cache_ttl=1000)
    names = iter(["Ada", "Bob"])

    async def answer(question: Any) -> dict[str, Any]:
        return {"action": "accept", "content": {"name": next(names)}}

    async with counted.client(handlers=Handlers(elicitation=answer)) as client:
        texts = [(await client.read_resource("config://mine")).text for _ in range(2)]
    assert texts == ["Ada", "Bob"]


@pytest.mark.parametrize(("scope", "asked"), [("public", 1), ("private", 2)])
async def test_who_shares_a_cache(scope: Any, asked: int) -> None:
    counted = Counted(cache_ttl=1000, cache_scope=scope)
    cache = ResponseCache()
    async with counted.client(cache=cache) as one, counted.client(cache=cache) as two:
        for client in (one, two, one, two):
            await client.list_prompts()
    assert counted.asked["prompts/list"] == asked
    async with counted.client(cache=cache) as three:
        await three.list_prompts()
    assert counted.asked["prompts/list"] == (1 if scope == "public" else 3)


async def test_what_is_kept_cannot_be_changed() -> None:
    counted = Counted(cache_ttl=1000)
    async with counted.client() as client:
        first = await client.list_all("prompts/list", "prompts")
        assert isinstance(first[0], dict)
        first[0]["name"] = "changed"
        first.clear()
        (again,) = await client.list_prompts()
    assert again.name == "greeting"


async def test_a_cache_is_bounded() -> None:
    counted = Counted()

    async def big(n: str) -> str:
        return n * 100_000

    counted.registry.add_resource("big://{n}", big, cache_ttl=1000)
    cache = ResponseCache(max_bytes=350_000)
    async with counted.client(cache=cache) as client:
        for n in "abca":
            await client.read_resource(f"big://{n}")
        assert counted.asked["resources/read"] == 3
        await client.read_resource("big://d")  # b goes, which was not used for the longest time
        await client.read_resource("big://a")
        assert counted.asked["resources/read"] == 4
        await client.read_resource("big://b")
        assert counted.asked["resources/read"] == 5
        for _ in range(2):
            await client.read_resource("big://eeeee")  # too large for it
        assert counted.asked["resources/read"] == 7
    with pytest.raises(ValueError, match="max_bytes must be 0 or more, not -1"):
        ResponseCache(-1)


@pytest.mark.parametrize("ttl", [-1, True, "5", None, [5]])
async def test_times_that_are_none(ttl: Any) -> None:
    from trio_mcp.client.cache import ConnectionCache

    cache = ConnectionCache()
    cache.put("tools/list", {}, {"ttlMs": ttl, "cacheScope": "public"}, cache.changes)
    assert cache.find("tools/list", {}) is None


@pytest.mark.parametrize(("values", "is_kept"), [(1000, True), (1_000_001, False)])
async def test_what_takes_long_to_read_again_is_not_kept(values: int, is_kept: bool) -> None:
    from trio_mcp.client.cache import ConnectionCache

    cache = ConnectionCache()
    cache.put("tools/list", {}, {"ttlMs": 1000, "tools": [0] * values}, cache.changes)
    assert (cache.find("tools/list", {}) is not None) is is_kept


async def test_what_would_not_come_out_as_it_went_in_is_not_kept(mock_clock: MockClock) -> None:
    from trio_mcp.client.cache import ConnectionCache

    cache = ConnectionCache()
    for number, is_kept in ((2**64, False), (2**64 - 1, True)):
        result = {"ttlMs": 1000, "number": number}
        cache.put("resources/read", {"uri": "a:"}, result, cache.changes)
        found = cache.find("resources/read", {"uri": "a:"})
        assert found == (result if is_kept else None)


async def test_a_flood_of_changes_does_not_go_through_what_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of it comes in one piece, and others would wait: so after many changes, all is old."""
    from trio_mcp.client import cache as module

    compared: list[str] = []
    concerns = module.concerns

    def counted(changed: str, uri: str) -> bool:
        compared.append(uri)
        return concerns(changed, uri)

    monkeypatch.setattr(module, "concerns", counted)
    cache = module.ConnectionCache()

    def keep(uri: str) -> None:
        cache.put("resources/read", {"uri": uri}, {"ttlMs": 1000}, cache.changes)

    def is_kept(uri: str) -> bool:
        return cache.find("resources/read", {"uri": uri}) is not None

    for number in range(100):
        keep(f"x:{number:03}")
    for number in range(100):
        cache.forget(ResourceUpdated(f"y:{number}"))
    cache.forget(ResourceUpdated("x:007"))
    assert compared == []
    assert [number for number in range(100) if not is_kept(f"x:{number:03}")] == [7]
    for number in range(10_000):
        cache.forget(ResourceUpdated(f"y:{number}"))
    compared.clear()
    assert not any(is_kept(f"x:{number:03}") for number in range(100))
    keep("x:001")
    assert is_kept("x:001")
    assert len(compared) <= 1100
    cache.forget(ResourceUpdated("x:001/part"))
    assert not is_kept("x:001")


# -- tools ------------------------------------------------------------------------------------


@asynccontextmanager
async def listing(**members: Any) -> AsyncIterator[tuple[RoughServer, Client]]:
    """A server that lists a tool, and says how long the list is good; and a client of it."""

    async def call(wire: Any, request: Message) -> Message:
        return {"content": [{"type": "text", "text": request["params"]["name"]}]}

    def listed(name: str) -> Message:
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}}], **members}

    about = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    answers = {"server/discover": about, "tools/list": listed("old"), "tools/call": call}
    server = RoughServer("modern", answers)
    async with trio.open_nursery() as server.nursery:
        async with server.open() as client:
            answers["tools/list"] = listed("new")
            yield server, client
        server.nursery.cancel_scope.cancel()


def asked(server: RoughServer) -> int:
    return [message.get("method") for message in server.heard].count("tools/list")


@pytest.mark.requirement("K7")
async def test_tools_are_asked_for_again_when_their_time_is_over(autojump_clock) -> None:
    async with listing(ttlMs=60_000, cacheScope="private") as (server, client):
        await trio.sleep(59)
        assert (await client.call_tool("old")).text == "old"
        assert asked(server) == 1
        await trio.sleep(2)
        results: list[str] = []

        async def call() -> None:
            results.append((await client.call_tool("new")).text)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(call)
        assert (results, asked(server)) == (5 * ["new"], 2)
        with pytest.raises(UnknownTool):
            await client.call_tool("old")


async def test_tools_are_asked_for_again_when_they_have_changed(autojump_clock) -> None:
    async with listing(ttlMs=60_000) as (server, client):
        await server.wires[0].send(method="notifications/tools/list_changed")
        await trio.testing.wait_all_tasks_blocked()
        assert (await client.call_tool("new")).text == "new"


async def test_tools_without_a_time_are_asked_for_once(autojump_clock) -> None:
    async with listing() as (server, client):
        await server.wires[0].send(method="notifications/tools/list_changed")
        await trio.sleep(1e6)
        assert (await client.call_tool("old")).text == "old"
        assert asked(server) == 1


async def test_tools_that_cannot_be_had_again_stay(autojump_clock, caplog) -> None:
    async with listing(ttlMs=1000) as (server, client):
        server.answers["tools/list"] = {"code": -32000, "message": "not now"}
        await trio.sleep(2)
        assert (await client.call_tool("old")).text == "old"
        assert "The server's tools are out of date: not now (-32000)" in caplog.text


async def test_a_result_that_is_kept_says_what_is_left_of_its_time(autojump_clock) -> None:
    registry = Registry("r", cache_ttl=10)
    registry.add_resource("r://one", hello, name="one", cache_ttl=10)
    async with connect(registry) as client:
        assert (await client.read_resource("r://one")).ttl == 10
        await trio.sleep(4)
        assert (await client.read_resource("r://one")).ttl == 6
