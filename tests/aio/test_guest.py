"""The Trio run of an app that an event loop serves: in the loop's thread, and ended with it."""

import asyncio
import os
import subprocess
import sys
import threading
from contextlib import asynccontextmanager

import httpx2
import pytest
import trio

import trio_mcp
from tests.aio.support import in_asyncio, our_threads
from tests.support.processes import ENVIRONMENT, TIME_LIMIT
from trio_mcp.aio import guest, http_app, on_asyncio
from trio_mcp.aio.http import Running
from trio_mcp.aio.run import ThreadRun

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there it is a thread")

ACCEPT = {"accept": "application/json, text/event-stream"}


async def call(app, name: str, **arguments: object) -> str:
    """Call a tool of an app in process; return the text of its result."""
    params = {"name": name, "arguments": arguments}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.post("/mcp", json=request, headers=ACCEPT)
    text: str = answer.json()["result"]["content"][0]["text"]
    return text


@pytest.mark.requirement("L1")
@in_asyncio
async def test_an_app_runs_in_the_thread_of_its_loop_which_is_no_trio_run_otherwise() -> None:
    registry, found = trio_mcp.Registry("threads"), []

    @registry.tool
    async def of_trio() -> str:
        found.append((threading.get_ident(), trio.lowlevel.in_trio_task()))
        return "done"

    @registry.tool
    @on_asyncio
    async def of_asyncio() -> str:
        found.append((threading.get_ident(), trio.lowlevel.in_trio_run()))
        return "done"

    async def seven() -> int:
        await trio.lowlevel.checkpoint()
        return 7

    app = http_app(registry)
    hooks = sys.get_asyncgen_hooks()
    async with app.running():
        assert await call(app, "of_trio") == "done"
        assert await call(app, "of_asyncio") == "done"
        assert found == [(threading.get_ident(), True), (threading.get_ident(), False)]
        assert our_threads() == []
        assert trio.run(seven) == 7
        assert sys.get_asyncgen_hooks() == hooks


@pytest.mark.requirement("L1")
@in_asyncio
async def test_the_loop_goes_on_while_trio_has_always_something_to_do() -> None:
    registry, turns, may_end = trio_mcp.Registry("busy"), [], []

    @registry.tool
    async def spin() -> str:
        token = trio.lowlevel.current_trio_token()
        while not may_end:
            token.run_sync_soon(turns.append, 1)  # which makes the descriptor ready, as threads do
            await trio.lowlevel.checkpoint()
        return "done"

    app = http_app(registry)
    async with app.running():
        calling = asyncio.ensure_future(call(app, "spin"))
        for _ in range(200):
            await asyncio.sleep(0)
        assert 0 < len(turns) <= 3 * 200  # for what is posted, the descriptor, and a deadline
        may_end.append(True)
        assert await calling == "done"


@pytest.mark.requirement("L1")
@in_asyncio
async def test_deadlines_and_threads_of_trio_wake_the_loop() -> None:
    registry = trio_mcp.Registry("waking")

    @registry.tool(timeout=0.01)
    async def late() -> None:
        await trio.sleep_forever()

    @registry.tool
    async def in_thread() -> str:
        return await trio.to_thread.run_sync(lambda: "done")

    app = http_app(registry)
    async with app.running():
        assert "timed out" in await call(app, "late")
        assert await call(app, "in_thread") == "done"


@pytest.mark.requirement("L1")
@pytest.mark.parametrize("elsewhere", [False, True])
def test_whatever_closes_the_loop_runs_trio_to_its_end(elsewhere: bool) -> None:
    events = []

    @asynccontextmanager
    async def lifespan(_: object):
        events.append("opened")
        try:
            yield
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
            events.append("closed")

    registry = trio_mcp.Registry("closing", lifespan=lifespan)

    @registry.tool
    async def echo(text: str) -> str:
        return text

    app = http_app(registry)
    loop = asyncio.new_event_loop()
    if elsewhere:
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        asyncio.run_coroutine_threadsafe(call(app, "echo", text="x"), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
    else:
        loop.run_until_complete(call(app, "echo", text="x"))
    assert events == ["opened"]
    loop.close()
    assert events == ["opened", "closed"]
    assert not trio.lowlevel.in_trio_run()


@pytest.mark.requirement("L1")
def test_a_process_with_many_open_files_closes_its_app_as_well() -> None:
    import resource  # which Windows does not have

    closed = []

    @asynccontextmanager
    async def lifespan(_: object):
        try:
            yield
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.001)  # so that what closes the loop has to wait
            closed.append(True)

    registry = trio_mcp.Registry("descriptors", lifespan=lifespan)

    @registry.tool
    async def echo(text: str) -> str:
        return text

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (2000, before[1]))
    files = []
    try:
        while not files or files[-1] < 1024:  # all that `select` could wait for
            files.append(os.open(os.devnull, os.O_RDONLY))
        loop = asyncio.new_event_loop()
        loop.run_until_complete(call(http_app(registry), "echo", text="x"))
        loop.close()
    finally:
        for each in files:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert closed


INTERRUPTED = """
import asyncio, signal
import trio_mcp
from tests.aio.test_guest import call
from trio_mcp.aio import http_app

registry = trio_mcp.Registry("interrupted")

@registry.tool
async def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)

async def run() -> None:
    calling = asyncio.ensure_future(call(http_app(registry), "interrupt"))
    await asyncio.wait([calling])
    calling.exception()  # the interrupt ends the request as well, in one way or another
    await asyncio.Event().wait()

loop = asyncio.new_event_loop()
try:
    loop.run_until_complete(run())
except KeyboardInterrupt:
    print("interrupted")
loop.run_until_complete(loop.shutdown_asyncgens())
loop.close()
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


@pytest.mark.long
@pytest.mark.requirement("L1")
def test_an_interrupt_that_trio_gets_is_raised_in_the_program() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(
        command, capture_output=True, text=True, env=ENVIRONMENT, timeout=TIME_LIMIT
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr


FORKED = """
import asyncio, os
import trio, trio_mcp
from tests.aio.test_guest import call
from trio_mcp.aio import guest, http_app

guest.EXIT_PATIENCE = 1e6
registry, turns, may_end = trio_mcp.Registry("forked"), [], []

@registry.tool
async def spin() -> str:
    token = trio.lowlevel.current_trio_token()
    while not may_end:
        token.run_sync_soon(turns.append, 1)
        await trio.lowlevel.checkpoint()
    return "done"

async def run() -> None:
    app = http_app(registry)
    calling = asyncio.ensure_future(call(app, "spin"))
    while not turns:
        await asyncio.sleep(0)
    child = os.fork()
    if child == 0:
        before = len(turns)
        for _ in range(10):
            await asyncio.sleep(0)
        try:
            asyncio.run(call(app, "spin"))
        except RuntimeError as error:
            print(len(turns) - before, "turns:", error, flush=True)
        os._exit(0)
    await asyncio.to_thread(os.waitpid, child, 0)
    may_end.append(True)
    print(await calling)

asyncio.run(run())
"""


@pytest.mark.long
@pytest.mark.requirement("L1")
def test_a_fork_goes_on_with_no_handler_and_waits_for_none() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(
        command, capture_output=True, text=True, env=ENVIRONMENT, timeout=TIME_LIMIT
    )
    assert done.stdout == "0 turns: this app is running already\ndone\n", done.stderr


@pytest.mark.requirement("L1")
@in_asyncio
async def test_without_the_names_of_trio_that_it_needs_there_is_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert guest.RUN_OF_SERVERS is guest.GuestRun
    for name in ("sniffio_library", "GuestState", "GuestState.runner", "TheIOManager.get_events"):
        with monkeypatch.context() as patch:
            patch.delattr(f"trio._core._run.{name}")
            assert guest.run_of_servers() is ThreadRun
    monkeypatch.setattr("trio_mcp.aio.guest._trio", None)
    assert guest.run_of_servers() is ThreadRun

    monkeypatch.setattr(Running, "kind", ThreadRun)
    registry = trio_mcp.Registry("threads")

    @registry.tool
    async def thread() -> str:
        return threading.current_thread().name

    app = http_app(registry)
    async with app.running():
        assert await call(app, "thread") == "trio-mcp"
