"""Both sides have more to send than is read: neither waits for ever for the other one to read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import lockstep_stream_pair, wait_all_tasks_blocked

from tests.client.support import line_of
from tests.compose.support import named, remote_to
from tests.support.processes import TIME_LIMIT, workshop
from trio_mcp import Client, Context, Handlers, Limits, Registry, connect, serve_stream
from trio_mcp.client.negotiation import Era

TIGHT = Limits(max_outgoing_bytes=1000)
LONG = "x" * 900
CALLS = 64
MIB = 1024 * 1024

pytestmark = pytest.mark.requirement("B2")

both_eras = pytest.mark.parametrize("era", ["modern", "legacy"])
each_way = pytest.mark.parametrize(
    "way", ["memory", "stream", pytest.param("proxy", marks=pytest.mark.long), "chain"]
)


async def echo(text: str) -> str:
    """Say it again."""
    return text


async def ask(text: str, context: Context) -> str:
    """Ask the caller something long, whose answer is long as well."""
    return str((await context.elicit(text, str)).value)


@asynccontextmanager
async def connected(way: str, era: Era, limits: Limits = TIGHT) -> AsyncIterator[Client]:
    """A client of a server, with proxies between them, all of them with the same limits."""

    async def answer(params: Any) -> Any:
        return {"action": "accept", "content": {"value": params["message"]}}

    registry = named("server", echo, ask)
    for _ in range({"proxy": 1, "chain": 3}.get(way, 0)):
        front = Registry("front")
        front.mount(remote_to(registry, era=era, limits=limits))
        registry = front
    options: Any = {"limits": limits, "era": era, "handlers": Handlers(elicitation=answer)}
    async with AsyncExitStack() as stack:
        target: Any = registry
        if way == "stream":
            target, theirs = lockstep_stream_pair()
            nursery = await stack.enter_async_context(trio.open_nursery())
            nursery.start_soon(partial(serve_stream, registry, theirs, limits=limits))
        yield await stack.enter_async_context(connect(target, **options))


async def at_once(*calls: Callable[[], Awaitable[Any]]) -> list[str]:
    """Make calls at the same time, and return their texts."""
    texts = []

    async def make(call: Callable[[], Awaitable[Any]]) -> None:
        texts.append((await call()).text)

    async with trio.open_nursery() as nursery:
        for call in calls:
            nursery.start_soon(make, call)
    return texts


@each_way
@both_eras
async def test_long_calls_with_long_results(way: str, era: Era, autojump_clock: object) -> None:
    async with connected(way, era) as client:
        call = partial(client.call_tool, "echo", {"text": LONG})
        assert await at_once(*[call] * CALLS) == [LONG] * CALLS


@each_way
@both_eras
async def test_many_short_ones(way: str, era: Era, autojump_clock: object) -> None:
    async with connected(way, era, Limits()) as client:
        call = partial(client.call_tool, "echo", {"text": "x"})
        assert await at_once(*[call] * 700) == ["x"] * 700


@each_way
@both_eras
async def test_long_questions_with_long_answers(way: str, era: Era, autojump_clock: object) -> None:
    async with connected(way, era) as client:
        calls = [partial(client.call_tool, name, {"text": LONG}) for name in ("ask", "echo")]
        assert await at_once(*calls * CALLS) == [LONG] * 2 * CALLS


@each_way
async def test_calls_that_are_given_up_at_once(way: str, autojump_clock: object) -> None:
    """What takes them back cannot wait, and is no reason to stop reading."""
    async with connected(way, "modern") as client:
        call = partial(client.call_tool, "echo", {"text": LONG})
        for _ in range(3):
            async with trio.open_nursery() as nursery:
                for _ in range(100):
                    nursery.start_soon(call)
                await wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
            assert await at_once(*[call] * CALLS) == [LONG] * CALLS


@pytest.mark.parametrize("line", ["ping", "duplicate"])
async def test_a_server_that_asks_and_does_not_read_makes_no_client_grow(
    line: str, autojump_clock: object
) -> None:
    """Responses are read meanwhile, but what has to be answered is bounded as well."""
    ours, theirs = lockstep_stream_pair()
    method = {"ping": "ping", "duplicate": "elicitation/create"}[line]
    question = {"jsonrpc": "2.0", "id": "q" * 1000, "method": method, "params": {}}
    taken = 0

    async def serve() -> None:
        nonlocal taken
        asked = json.loads(await theirs.receive_some())
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {}}
        await theirs.send_all(line_of({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
        while True:
            await theirs.send_all(line_of(question))
            taken += 1

    async def wait(params: Any) -> Any:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        limits = Limits(max_outgoing_bytes=10_000, flush_timeout=0)
        handlers = Handlers(elicitation=wait)
        async with connect(ours, limits=limits, handlers=handlers):
            await wait_all_tasks_blocked()
            assert 10 < taken < 30
            nursery.cancel_scope.cancel()


async def test_over_pipes() -> None:
    limits = {"max_outgoing_bytes": MIB // 4}
    with trio.fail_after(TIME_LIMIT):
        async with connect(workshop(**limits), limits=Limits(**limits), tool_timeout=60) as client:
            text = "x" * 100_000
            call = partial(client.call_tool, "echo", {"text": text})
            assert await at_once(*[call] * CALLS) == [text] * CALLS


async def test_megabytes_through_a_proxy() -> None:
    registry, front = named("server", echo), Registry("front")
    front.mount(remote_to(registry))
    with trio.fail_after(TIME_LIMIT):
        async with connect(front, tool_timeout=60) as client:
            text = "x" * 1_000_000
            call = partial(client.call_tool, "echo", {"text": text})
            assert await at_once(*[call] * CALLS) == [text] * CALLS
