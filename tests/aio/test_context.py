"""The context of a handler for asyncio, once its request has ended: nobody waits for ever."""

import asyncio

import pytest

from tests.aio.support import in_asyncio
from trio_mcp import Context, Handlers
from trio_mcp.aio import Registry, connect
from trio_mcp.errors import McpError


@pytest.mark.requirement("L1")
@pytest.mark.parametrize("is_connected", [True, False])
@in_asyncio
async def test_a_task_that_outlives_its_handler_says_nothing_and_cannot_ask(is_connected):
    registry, tasks, may_go_on, heard = Registry("leaving"), [], asyncio.Event(), []

    @registry.tool
    async def leave(context: Context) -> None:
        async def go_on():
            await may_go_on.wait()
            await context.progress(1)
            await context.log("info", "late")
            await context.warning("late")
            with pytest.raises(McpError, match="request has ended"):
                await context.elicit("Really?", bool)

        tasks.append(asyncio.create_task(go_on()))

    def hear(*args):
        heard.append(args)

    async with connect(registry, on_log=hear, log_level="info") as client:
        await client.call_tool("leave", on_progress=hear)
        if is_connected:
            may_go_on.set()
            await tasks[0]
    may_go_on.set()
    await tasks[0]
    assert heard == []


@pytest.mark.requirement("L1")
@in_asyncio
async def test_a_handler_that_is_cancelled_may_say_so_and_goes_on_with_its_end():
    registry, began, cleaned = Registry("tidy"), asyncio.Event(), asyncio.Event()

    @registry.tool
    async def nap(context: Context) -> None:
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            await context.info("cancelled")
            cleaned.set()

    async with connect(registry, tool_timeout=60) as client:
        call = asyncio.ensure_future(client.call_tool("nap"))
        await began.wait()
        call.cancel()
        await cleaned.wait()
        await asyncio.wait([call])


@pytest.mark.requirement("L1")
@in_asyncio
async def test_a_question_of_another_task_ends_with_the_request_that_is_cancelled():
    registry, asked, tasks = Registry("asking"), asyncio.Event(), []

    @registry.tool
    async def ask(context: Context) -> None:
        tasks.append(asyncio.create_task(context.elicit("Really?", bool)))
        await asyncio.sleep(3600)

    async def hesitate(params):
        asked.set()
        await asyncio.sleep(3600)

    options = {"revision": "2025-11-25", "handlers": Handlers(elicitation=hesitate)}
    async with connect(registry, tool_timeout=60, **options) as client:
        call = asyncio.ensure_future(client.call_tool("ask"))
        await asked.wait()
        call.cancel()
        await asyncio.wait([call])
        with pytest.raises(McpError, match="request has ended"):
            await tasks[0]
