"""Handlers for asyncio where Trio serves: they get an event loop beside it, and it ends with them."""

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest
import trio

from trio_mcp import Context, Handlers, connect
from trio_mcp import Registry as TrioRegistry
from trio_mcp.aio import Registry


def loops() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "trio-mcp asyncio"]


def registry_for_asyncio(name: str = "napping") -> Registry:
    @asynccontextmanager
    async def lifespan(_: TrioRegistry):
        yield asyncio.get_running_loop()

    registry = Registry(name, lifespan=lifespan)

    @registry.tool
    async def nap(seconds: float, context: Context) -> bool:
        await context.progress(1, total=2)
        await asyncio.sleep(seconds)
        return context.lifespan is asyncio.get_running_loop()

    @registry.tool
    async def confirm(context: Context) -> bool:
        await asyncio.sleep(0)
        return (await context.elicit("Really?", bool)).value

    @registry.resource("napping://{name}")
    async def resource(name: str) -> str:
        await asyncio.sleep(0)
        return name

    return registry


@pytest.mark.requirement("S5")
@pytest.mark.parametrize("is_mounted", [False, True])
async def test_all_that_a_handler_does_on_asyncio_it_does_under_trio(is_mounted: bool) -> None:
    registry: TrioRegistry = registry_for_asyncio()
    if is_mounted:
        outer = TrioRegistry("outer")
        outer.mount(registry)
        registry = outer

    async def yes(_: object) -> dict[str, object]:
        return {"action": "accept", "content": {"value": True}}

    heard = []

    def hear(*progress: object) -> None:
        heard.append(progress)

    async with connect(registry, handlers=Handlers(elicitation=yes)) as client:
        napped = await client.call_tool("nap", {"seconds": 0.01}, on_progress=hear, returns=bool)
        assert napped
        assert await client.call_tool("confirm", returns=bool)
        assert (await client.read_resource("napping://x")).text == "x"
        assert len(loops()) == 1
    assert heard == [(1, 2, None)]
    assert loops() == []


@pytest.mark.requirement("S5")
async def test_several_registries_share_a_loop_until_the_last_one_is_closed() -> None:
    async with connect(registry_for_asyncio("second")) as second:
        async with connect(registry_for_asyncio("first")) as first:
            assert await first.call_tool("nap", {"seconds": 0}, returns=bool)
            assert len(loops()) == 1
        assert await second.call_tool("nap", {"seconds": 0}, returns=bool)
    assert loops() == []


@pytest.mark.requirement("S5")
async def test_a_call_that_is_cancelled_or_too_late_ends_in_the_loop() -> None:
    registry, ended, running = Registry("waiting"), [], set()
    token, begun = trio.lowlevel.current_trio_token(), trio.Event()

    @registry.tool(timeout=0.05)
    async def wait() -> None:
        running.add("wait")  # unless its time is over before its turn
        try:
            await asyncio.sleep(3600)
        finally:
            running.remove("wait")

    @registry.tool
    async def swallow() -> str:
        token.run_sync_soon(begun.set)
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("swallow")
        return "on"

    async with connect(registry) as client, trio.open_nursery() as nursery:
        assert "0.05 s" in str((await client.call_tool("wait")).error)
        nursery.start_soon(client.call_tool, "swallow")
        await begun.wait()
        nursery.cancel_scope.cancel()
    assert not running
    assert ended == ["swallow"]
    assert loops() == []


@pytest.mark.requirement("S5")
async def test_tasks_that_are_left_in_the_loop_are_cancelled_at_its_end() -> None:
    registry, ended, tasks = Registry("leaving"), [], []

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("work")

    @registry.tool
    async def leave() -> None:
        tasks.append(asyncio.create_task(work()))
        await asyncio.sleep(0)

    async with connect(registry) as client:
        await client.call_tool("leave")
        assert ended == []
    assert ended == ["work"]


@pytest.mark.requirement("S5")
async def test_a_registry_is_called_directly_under_trio() -> None:
    registry = registry_for_asyncio()
    async with registry.running():
        assert await registry.call("nap", {"seconds": 0}) is True
    assert await registry.call("nap", {"seconds": 0}) is True
    assert loops() == []


@pytest.mark.requirement("S5")
async def test_a_task_that_ignores_its_cancellation_does_not_keep_the_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("trio_mcp.aio.beside._PATIENCE", 0.01)
    registry, ways, tasks = Registry("leaving"), [], []

    async def ignore(may_end: asyncio.Event) -> None:
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue

    @registry.tool
    async def leave() -> None:
        may_end = asyncio.Event()
        ways.append((asyncio.get_running_loop(), may_end))
        tasks.append(asyncio.create_task(ignore(may_end)))
        await asyncio.sleep(0)

    async with connect(registry) as client:
        await client.call_tool("leave")
        (thread,) = loops()
    assert "its event loop is left to itself" in caplog.text
    ((loop, may_end),) = ways
    loop.call_soon_threadsafe(may_end.set)
    await trio.to_thread.run_sync(thread.join)
