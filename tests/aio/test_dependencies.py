"""Dependencies of a registry for asyncio: its `async def` functions run in the event loop."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated

import pytest

from tests.aio.support import in_asyncio
from trio_mcp import Context, Depends, ToolError
from trio_mcp.aio import Registry, connect
from trio_mcp.testing import override

pytestmark = pytest.mark.requirement("Q3")


async def loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def recorded(log: list[str], name: str, fails: str = ""):
    async def opened(context: Context) -> AsyncIterator[str]:
        await context.info(f"open {name}")
        try:
            yield name
        except BaseException as error:
            log.append(f"{name} {type(error).__name__}")
            if fails:
                raise ToolError(fails) from None
            raise
        finally:
            await asyncio.sleep(0)
            log.append(f"close {name}")

    return opened


@in_asyncio
async def test_they_run_in_the_event_loop_and_plain_ones_in_threads():
    registry, here = Registry("loops"), asyncio.get_running_loop()

    def plain(found: Annotated[asyncio.AbstractEventLoop, Depends(loop)]) -> Iterator[bool]:
        yield found is here and threading.current_thread() is not threading.main_thread()

    @registry.tool
    async def show(
        first: Annotated[asyncio.AbstractEventLoop, Depends(loop)],
        second: Annotated[bool, Depends(plain)],
    ) -> bool:
        return second and first is asyncio.get_running_loop() is here

    @registry.tool
    def show_plainly(found: Annotated[asyncio.AbstractEventLoop, Depends(loop)]) -> bool:
        return found is here

    assert await registry.call("show")
    assert await registry.call("show_plainly")


@in_asyncio
async def test_they_are_left_in_the_opposite_order_with_what_has_happened():
    registry, log, heard, runs = Registry("ends"), [], [], asyncio.Event()
    outer, inner = recorded(log, "outer", "rolled back"), recorded(log, "inner")
    Outer = Annotated[str, Depends(outer)]
    Inner = Annotated[str, Depends(asynccontextmanager(inner))]

    @registry.tool
    async def run(way: str, first: Outer, second: Inner) -> str:
        if way == "fail":
            raise ToolError("no")
        if way == "hang":
            runs.set()
            await asyncio.sleep(3600)
        return first + second

    def hear(level, data, *_):
        heard.append(data)

    async with connect(registry, tool_timeout=60, on_log=hear, log_level="info") as client:
        assert (await client.call_tool("run", {"way": "go"})).text == "outerinner"
        assert log == ["close inner", "close outer"]
        log.clear()
        assert (await client.call_tool("run", {"way": "fail"})).error == "rolled back"
        ends = ["inner {0}", "close inner", "outer {0}", "close outer"]
        assert log == [end.format("ToolError") for end in ends]
        log.clear()
        call = asyncio.ensure_future(client.call_tool("run", {"way": "hang"}))
        await runs.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert log == [end.format("CancelledError") for end in ends]
    assert len(heard) == 6


@in_asyncio
async def test_another_function_takes_the_place_of_one():
    registry = Registry("fake")

    @registry.tool
    async def show(found: Annotated[object, Depends(loop)]) -> bool:
        return found == "fake"

    async def fake() -> AsyncIterator[str]:
        await asyncio.sleep(0)
        yield "fake"

    with override(registry, loop, fake):
        assert await registry.call("show")
    assert not await registry.call("show")


SERVER = """
import asyncio
from typing import Annotated
from trio_mcp import Context, Depends
from trio_mcp.aio import Registry, serve

registry = Registry("stdio")

async def opened(context: Context):
    await asyncio.sleep(0)
    await context.progress(1, message="open")
    yield context.tool
    await context.progress(2, message="close")

@registry.tool
async def show(name: Annotated[str, Depends(opened)]) -> str:
    return name

asyncio.run(serve(registry))
"""


@in_asyncio
async def test_they_are_served_on_stdio():
    heard = []

    def hear(progress, total, message):
        heard.append(message)

    async with connect([sys.executable, "-W", "error", "-c", SERVER]) as client:
        assert (await client.call_tool("show", on_progress=hear)).text == "show"
        assert "Traceback" not in client.stderr()
    assert heard == ["open", "close"]
