"""Middleware of a registry for asyncio: its `async def` functions run in the event loop."""

import asyncio
import threading

import pytest
import trio
from attrs import evolve

from tests.aio.support import in_asyncio
from trio_mcp import Context, ToolError
from trio_mcp.aio import Registry, connect
from trio_mcp.middleware import McpCall, McpRequest, ShowErrors

pytestmark = pytest.mark.requirement("S5")


@in_asyncio
async def test_it_runs_in_the_event_loop_around_calls_and_requests():
    seen: list[object] = []

    async def around_requests(request: McpRequest, call_next):
        await asyncio.sleep(0)
        seen.append((request.method, request.context.client.name))
        return await call_next(request)

    async def around_calls(call: McpCall, call_next):
        await asyncio.sleep(0)
        await call.context.info("before")
        result = await call_next(evolve(call, arguments={"book": call.arguments["book"].upper()}))
        return f"{result}!"

    registry = Registry("shop", middleware=[around_requests, around_calls])

    @registry.tool
    async def order(book: str, context: Context) -> str:
        await context.info("within")
        return f"{book} from {context.tool}"

    told: list[object] = []
    async with connect(registry, on_log=lambda level, data, logger: told.append(data)) as client:
        await client.set_log_level("info")
        assert (await client.call_tool("order", {"book": "Emma"})).text == "EMMA from order!"
    assert ("tools/call", "trio-mcp") in seen
    assert told == ["before", "within"]


@in_asyncio
async def test_a_lock_of_asyncio_has_calls_take_turns():
    lock, running, most = asyncio.Lock(), 0, 0

    async def one_at_a_time(call: McpCall, call_next):
        async with lock:
            return await call_next(call)

    registry = Registry("shop", middleware=[one_at_a_time])

    @registry.tool
    async def order() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    async with connect(registry) as client:
        await asyncio.gather(*(client.call_tool("order") for _ in range(5)))
    assert (most, running) == (1, 0)


@in_asyncio
async def test_errors_pass_through_it_and_objects_stay_beside_it():
    seen: list[BaseException] = []

    async def watch(call: McpCall, call_next):
        try:
            return await call_next(call)
        except ToolError as error:
            seen.append(error)
            raise

    registry = Registry("shop", middleware=[watch, ShowErrors(ValueError)])

    @registry.tool
    async def order() -> None:
        raise ValueError("Sold out.")

    async with connect(registry) as client:
        assert (await client.call_tool("order")).error == "Sold out."
    assert [str(error) for error in seen] == ["Sold out."]


@in_asyncio
async def test_what_is_cancelled_is_cancelled_in_it_and_within():
    began, ended = asyncio.Event(), asyncio.Event()
    cancelled: list[str] = []

    async def watch(call: McpCall, call_next):
        try:
            return await call_next(call)
        except asyncio.CancelledError:
            cancelled.append("middleware")
            ended.set()
            raise

    registry = Registry("shop", middleware=[watch])

    @registry.tool
    async def order() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("tool")
            raise

    async with connect(registry) as client:
        call = asyncio.create_task(client.call_tool("order"))
        await began.wait()
        call.cancel()
        await ended.wait()
    assert cancelled == ["tool", "middleware"]


def test_under_trio_it_has_a_loop_of_its_own():
    async def watch(call: McpCall, call_next):
        await asyncio.sleep(0)
        return f"{await call_next(call)} {threading.current_thread() is threading.main_thread()}"

    registry = Registry("shop", middleware=[watch])

    @registry.tool
    async def order() -> str:
        return "ordered"

    assert trio.run(registry.call, "order") == "ordered False"
