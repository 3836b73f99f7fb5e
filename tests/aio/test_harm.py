"""Handlers for asyncio that would end, or keep, more than their own call."""

import asyncio
import signal
import sys
import threading

import httpx2
import pytest
import trio

import trio_mcp
from tests.aio.support import in_asyncio
from tests.support.processes import running
from trio_mcp import Context, McpError
from trio_mcp.aio import Registry, connect, http_app

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"accept": "application/json, text/event-stream"}


# -- sys.exit ---------------------------------------------------------------------------------


@pytest.mark.requirement("B6", "L1")
@in_asyncio
async def test_sys_exit_fails_a_call_as_it_does_under_trio():
    registry = Registry("leaving")

    @registry.tool
    async def leave() -> None:
        sys.exit(3)

    @registry.tool
    async def leave_politely(context: Context) -> None:
        await context.info("Goodbye")
        sys.exit("Goodbye")

    @registry.tool
    async def stay() -> str:
        return "here"

    async with connect(registry) as client:
        for name in ("leave", "leave_politely"):
            failed = await client.call_tool(name)
            assert failed.error == f"Tool {name} failed: internal error (see the server's log)"
        assert (await client.call_tool("stay")).text == "here"


# -- cancellation that is ignored -------------------------------------------------------------

STUBBORN = """
import asyncio, logging, sys, uvicorn
from contextlib import asynccontextmanager
from trio_mcp import Limits
from trio_mcp.aio import Registry, http_app

how, port = sys.argv[1:]

async def ignore():
    print("stubborn runs", file=sys.stderr, flush=True)
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

@asynccontextmanager
async def lifespan(registry):
    yield
    if how == "lifespan":
        await ignore()

registry = Registry("stubborn", lifespan=lifespan)

@registry.tool
async def stubborn() -> None:
    if how != "lifespan":
        await ignore()

limits = Limits(shutdown_grace=0.1, cancel_timeout=0.1, flush_timeout=0.1, lifespan_timeout=0.1)
app = http_app(registry, limits=limits)
logging.basicConfig(level=logging.INFO, format="%(message)s")
config = uvicorn.Config(app, port=int(port), lifespan="off" if how == "mounted" else "on")
server = uvicorn.Server(config)
server.run()
"""


@pytest.mark.requirement("F5", "L1")
@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "era", "number"),
    [
        ("served", "modern", signal.SIGTERM),
        ("served", "legacy", signal.SIGINT),
        ("mounted", "modern", signal.SIGINT),
        ("mounted", "legacy", signal.SIGINT),
        ("lifespan", "modern", signal.SIGTERM),
    ],
)
async def test_what_ignores_its_cancellation_does_not_keep_the_process(
    how: str, era: str, number: int
) -> None:
    async def call(client: trio_mcp.Client) -> None:
        with pytest.raises(McpError, match="Request cancelled"):
            await client.call_tool("stubborn")

    async with running([sys.executable, "-c", STUBBORN, how, "0"]) as server:
        await server.said(b"Uvicorn running on http://")
        url = bytes(server.stderr).partition(b"running on ")[2].split()[0].decode() + "/mcp"
        async with trio.open_nursery() as nursery:
            async with trio_mcp.connect(url, era=era, tool_timeout=60) as client:
                if how != "lifespan":
                    nursery.start_soon(call, client)
                    await server.said(b"stubborn runs")
                server.signal(number)
                assert await server.exit() in (0, -number)
    if how != "mounted":  # without a lifespan, uvicorn ends the process by the signal
        assert b"ignores its cancellation; it is left to itself" in server.stderr


# -- starting -----------------------------------------------------------------------------------

STARTING = """
import asyncio, sys, uvicorn
from contextlib import asynccontextmanager
from trio_mcp.aio import Registry, http_app

@asynccontextmanager
async def lifespan(registry):
    print("opening", file=sys.stderr, flush=True)
    try:
        await asyncio.sleep(3600)
        yield
    finally:
        sys.stderr.write("closed\\n")  # at once: another thread may log, too

uvicorn.run(http_app(Registry("slow", lifespan=lifespan)), port=0)
"""


@pytest.mark.long
@pytest.mark.requirement("B9", "L1")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_an_app_that_starts(number: int) -> None:
    async with running([sys.executable, "-c", STARTING]) as server:
        await server.said(b"opening")
        server.signal(number)
        assert await server.exit() in (-number, 3)  # as uvicorn has it
    assert b"closed\n" in server.stderr


# -- two event loops --------------------------------------------------------------------------


@pytest.mark.requirement("L1")
def test_an_app_is_served_in_one_loop_at_a_time_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = http_app(Registry("once"))
    ready, done = threading.Event(), threading.Event()

    async def ask() -> tuple[int, str]:
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = await client.post("/mcp", json=LIST, headers=ACCEPT)
            return answer.status_code, answer.text

    async def hold() -> None:
        assert (await ask())[0] == 200
        ready.set()
        await asyncio.to_thread(done.wait)

    async def start() -> str:
        sent = []
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def receive():
            return next(messages)

        async def send(message):
            sent.append(message)

        await app({"type": "lifespan"}, receive, send)
        return sent[0].get("message", "it started")

    thread = threading.Thread(target=asyncio.run, args=(hold(),))
    thread.start()
    try:
        ready.wait()
        status, text = asyncio.run(ask())
        assert (status, "in use elsewhere" in text) == (503, True)
        assert "make one for each loop: call http_app again" in asyncio.run(start())
    finally:
        done.set()
        thread.join()
    assert "make one for each loop: call http_app again" in caplog.text
    assert asyncio.run(ask())[0] == 200
    assert asyncio.run(start()) == "it started"


@pytest.mark.requirement("L1")
def test_it_is_served_again_after_a_loop_that_was_only_closed() -> None:
    app = http_app(Registry("again"))

    async def ask() -> int:
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.post("/mcp", json=LIST, headers=ACCEPT)).status_code

    for _ in range(3):
        loop = asyncio.new_event_loop()
        assert loop.run_until_complete(ask()) == 200
        loop.close()
    assert asyncio.run(ask()) == 200
