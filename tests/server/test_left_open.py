"""A function that leaves a cancel scope or a nursery open fails, and harms nothing after it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tests.transports.http.sockets import served
from trio_mcp import Client, Registry, connect
from trio_mcp.middleware import McpRequest

pytestmark = pytest.mark.requirement("B1", "B6")

FAILED = "Tool careless failed: internal error (see the server's log)"

kept: list[Any] = []
"""What would otherwise be ended when it is collected."""


async def scope() -> None:
    kept.append(trio.CancelScope())
    kept[-1].__enter__()


async def timer() -> None:
    kept.append(trio.move_on_after(0.001))
    kept[-1].__enter__()


async def nursery() -> None:
    kept.append(trio.open_nursery())
    (await kept[-1].__aenter__()).start_soon(trio.sleep_forever)


async def two_nurseries() -> None:
    await nursery()
    await nursery()


async def generator() -> None:
    async def numbers() -> AsyncIterator[int]:
        async with trio.open_nursery():
            yield 1

    kept.append(numbers())
    await anext(kept[-1])


Leave = Callable[[], Awaitable[None]]
each_leaving = pytest.mark.parametrize(
    "leave", [scope, timer, nursery, two_nurseries, generator], ids=lambda leave: leave.__name__
)


@asynccontextmanager
async def client_of(registry: Registry, way: str) -> AsyncIterator[Client]:
    if way == "in-process":
        async with connect(registry) as client:
            yield client
    else:
        async with served(registry) as server:
            async with connect(server.handle.url, era=way) as client:  # type: ignore[arg-type]
                yield client


def registry_with(leave: Leave, **options: Any) -> Registry:
    registry = Registry("careless", **options)

    @registry.tool
    async def careless(raises: bool) -> str:
        await leave()
        if raises:
            raise ValueError("on top of it")
        return "returned"

    @registry.tool
    async def careful() -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 0.002)  # longer than what was left open
        return "all is well"

    return registry


async def through(request: McpRequest, call_next: Any) -> Any:
    return await call_next(request)


@each_leaving
@pytest.mark.parametrize("way", ["in-process", "modern", "legacy"])
@pytest.mark.parametrize("raises", [False, True])
async def test_it_fails_and_what_follows_does_not(
    leave: Leave, way: str, raises: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with client_of(registry_with(leave), way) as client:
        for _ in range(2):
            assert (await client.call_tool("careless", {"raises": raises})).error == FAILED
            assert (await client.call_tool("careful")).text == "all is well"
    assert "Tool careless left a cancel scope or a nursery open" in caplog.messages


@each_leaving
async def test_also_within_middleware(leave: Leave) -> None:
    registry = registry_with(leave, middleware=[through])
    async with connect(registry) as client:
        for _ in range(2):
            assert (await client.call_tool("careless", {"raises": False})).error == FAILED
            assert (await client.call_tool("careful")).text == "all is well"


async def test_what_ran_in_a_nursery_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    ended = trio.Event()

    async def linger() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async def leave() -> None:
        kept.append(trio.open_nursery())
        (await kept[-1].__aenter__()).start_soon(linger)

    async with connect(registry_with(leave)) as client:
        assert (await client.call_tool("careless", {"raises": False})).error == FAILED
        await ended.wait()
    assert "Tool careless left a nursery open; what ran in it is cancelled" in caplog.messages
