"""Plain functions around async ones, as decorators make them."""

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest
import trio

from trio_mcp import Context, Registry, aio, connect

pytestmark = pytest.mark.requirement("B1")


def passed_on(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a plain function that returns what an async one does: something to be awaited."""

    @functools.wraps(function)
    def call(**options: Any) -> Any:
        return function(**options)

    return call


async def test_what_it_returns_is_awaited() -> None:
    registry = Registry("shop")

    @registry.tool(max_concurrent=1)
    @passed_on
    async def order(book: str, context: Context) -> str:
        await trio.lowlevel.checkpoint()
        await context.info("ordered")
        return f"{book} from {context.tool}"

    @registry.resource("shop://stock")
    @passed_on
    async def stock() -> str:
        return "3"

    async with connect(registry) as client:
        assert (await client.call_tool("order", {"book": "Emma"})).text == "Emma from order"
        assert (await client.read_resource("shop://stock")).text == "3"
    assert await registry.call("order", {"book": "Emma"}) == "Emma from order"


async def test_on_asyncio_it_is_awaited_there() -> None:
    registry = aio.Registry("shop")

    @registry.tool
    @passed_on
    async def order(book: str, context: Context) -> str:
        await asyncio.sleep(0)
        await context.info("ordered")
        return book

    async with connect(registry) as client:
        assert (await client.call_tool("order", {"book": "Emma"})).text == "Emma"


async def test_one_that_has_run_it_itself_returns_the_result() -> None:
    def ran(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(**options: Any) -> Any:
            return asyncio.run(function(**options))

        return call

    registry = Registry("shop")

    @registry.tool
    @ran
    async def order(book: str) -> str:
        await asyncio.sleep(0)
        return book

    assert await registry.call("order", {"book": "Emma"}) == "Emma"
