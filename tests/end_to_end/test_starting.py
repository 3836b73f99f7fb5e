"""A process that is told to end while it starts, or told so twice."""

import re
import signal
import sys
from pathlib import Path

import pytest
import trio

from tests.support.client import RawClient
from tests.support.processes import running

pytestmark = pytest.mark.requirement("B9")

EXIT_STUCK = 70

PROGRAM = """
import asyncio, logging, sys, trio
from contextlib import asynccontextmanager
from functools import partial
import trio_mcp, trio_mcp.aio, trio_mcp.server.lifecycle
from trio_mcp import Limits, connect
from trio_mcp.transports.process import ProcessOptions

how, opens = sys.argv[1:]
HANGING = [sys.executable, "-c", "import os, sys; print('child', os.getpid(), '.', file=sys.stderr); sys.stdin.read()"]

FORWARD = ProcessOptions(stderr="forward")

def say(text):
    sys.stderr.write(text + "\\n")  # at once: another thread may log, too

@asynccontextmanager
async def lifespan(registry):
    try:
        say("opening")
        if opens == "never":
            await (asyncio if how == "asyncio" else trio).sleep(1000)
        elif opens == "ignoring":
            with trio.CancelScope(shield=True):
                await trio.sleep(1000)
        elif opens == "client":
            async with connect(HANGING, connect_timeout=1000, process_options=FORWARD):
                pass
        yield
    finally:
        if how != "asyncio":
            with trio.CancelScope(shield=True):
                await trio.sleep(0)
        say("closed")

Registry = trio_mcp.aio.Registry if how == "asyncio" else trio_mcp.Registry
registry = Registry("slow", lifespan=lifespan)

@registry.tool
async def wait() -> None:
    try:
        say("waiting")
        await (asyncio if how == "asyncio" else trio).sleep(1000)
    finally:
        say("cleaned up")

logging.basicConfig(level=logging.INFO, format="%(message)s")
seconds = 0.1 if opens == "ignoring" else 100
limits = Limits(shutdown_grace=1000, cancel_timeout=seconds, lifespan_timeout=seconds)
trio_mcp.server.lifecycle._MOMENT = 100  # however slow this machine is
if how == "stdio":
    trio.run(partial(trio_mcp.serve, registry, limits=limits))
elif how == "asyncio":
    asyncio.run(trio_mcp.aio.serve(registry, limits=limits))
else:
    serve = partial(trio_mcp.serve_http, registry, port=0, limits=limits, own_process=True)
    trio.run(serve)
say("the end")
"""


def program(how: str, opens: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, how, opens]


@pytest.mark.parametrize(
    ("how", "number"),
    [("stdio", signal.SIGTERM), ("http", signal.SIGINT), ("asyncio", signal.SIGINT)],
)
async def test_a_signal_ends_a_process_that_starts(how: str, number: int) -> None:
    async with running(program(how, "never")) as server:
        await server.said(b"opening")
        server.signal(number)
        assert await server.exit() == 0
    assert b"closed\n" in server.stderr
    assert b"the end\n" in server.stderr


async def test_the_end_of_input_ends_a_process_that_starts() -> None:
    async with running(program("stdio", "never")) as server:
        await server.client.send(server.client.request_of("ping"))
        await server.said(b"opening")
        await server.client.send_eof()
        [answer] = await server.client.receive_all()
        assert answer["error"]["code"] == -32603
        assert await server.exit() == 0
    assert b"closed\n" in server.stderr


@pytest.mark.parametrize("end", ["eof", "signal"])
async def test_what_a_server_has_started_ends_with_it(end: str) -> None:
    async with running(program("stdio", "client")) as server:
        await server.said(b"child")
        await server.said(b" .\n")
        if end == "eof":
            await server.client.send_eof()
        else:
            server.signal(signal.SIGTERM)
        assert await server.exit() == 0
    assert b"closed\n" in server.stderr
    [child] = re.findall(rb"child (\d+) \.", server.stderr)
    assert not Path(f"/proc/{int(child)}/exe").exists()


@pytest.mark.parametrize("how", ["stdio", "http"])
async def test_a_lifespan_that_ignores_it_does_not_keep_the_process(how: str) -> None:
    async with running(program(how, "ignoring")) as server:
        await server.said(b"opening")
        server.signal(signal.SIGTERM)
        assert await server.exit() == EXIT_STUCK
    last = b"The lifespan of slow ignores its cancellation; the process exits"
    assert server.stderr.splitlines()[-1] == last


@pytest.mark.parametrize(("how", "number"), [("stdio", signal.SIGINT), ("asyncio", signal.SIGTERM)])
async def test_a_second_signal_does_not_skip_what_can_be_finished(how: str, number: int) -> None:
    async with running(program(how, "at once")) as server:
        client = RawClient(server.client.stream, "2026-07-28")
        await client.start("wait")
        await server.said(b"waiting")
        listening = client.request_of("subscriptions/listen", {"notifications": {}})
        await client.send(listening)
        assert "acknowledged" in (await client.receive())["method"]
        server.signal(number)
        assert (await client.receive())["id"] == listening["id"]  # which ends it at once
        server.signal(number)
        assert await server.exit() == -number
    said = bytes(server.stderr).splitlines()
    assert {b"cleaned up", b"closed", b"the end"} <= set(said)


STUBBORN = """
import os, signal, sys, time
from functools import partial
import trio
from contextlib import asynccontextmanager
from trio_mcp import Limits, Registry, serve
from trio_mcp.transports.process import ProcessOptions, open_process

CHILD = "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); " \\
    "print('child', os.getpid(), '.', file=sys.stderr); time.sleep(3600)"

@asynccontextmanager
async def lifespan(registry):
    options = ProcessOptions(stderr="forward", close_timeout=1000)
    async with open_process([sys.executable, "-c", CHILD], options):
        if sys.argv[1] == "stuck":
            with trio.CancelScope(shield=True):
                await trio.sleep(1000)
        yield

trio.run(partial(serve, Registry("parent", lifespan=lifespan),
                 limits=Limits(lifespan_timeout=0.1, cancel_timeout=0.1)))
"""


@pytest.mark.parametrize("how", ["stuck", "signals"])
async def test_a_process_that_is_left_at_once_takes_its_servers_along(how: str) -> None:
    async with running([sys.executable, "-c", STUBBORN, how]) as server:
        await server.said(b" .\n")
        [child] = re.findall(rb"child (\d+) \.", server.stderr)
        if how == "stuck":
            server.signal(signal.SIGTERM)
        while how == "signals" and server.process.poll() is None:
            server.signal(signal.SIGTERM)  # more than two: those that come too close merge
            await trio.lowlevel.checkpoint()
        assert await server.exit() in (EXIT_STUCK, -signal.SIGTERM)
        while Path(f"/proc/{int(child)}/exe").exists():
            await trio.lowlevel.checkpoint()
