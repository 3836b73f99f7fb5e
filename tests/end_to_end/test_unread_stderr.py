"""A host that does not read a server's stderr, which has room for 4 KiB."""

import fcntl
import os
import signal
import sys
from collections.abc import Iterator

import pytest
import trio

from tests.store.redis_server import free_port
from tests.support.processes import call, lines, running, text_of
from trio_mcp import connect
from trio_mcp.system.capabilities import POLLS

pytestmark = [
    pytest.mark.requirement("G1", "B8", "B9"),
    pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="pipes cannot be made smaller"),
    pytest.mark.skipif(not POLLS, reason="stderr is written to as it is"),
]

PROGRAM = """
import asyncio, logging, sys, trio
from functools import partial
import trio_mcp, trio_mcp.aio

logging.basicConfig(level=logging.INFO)
registry = trio_mcp.Registry("talkative")

@registry.tool
async def say(text: str) -> str:
    how = sys.argv[2]
    if how == "print":
        print(text)
    else:
        logging.getLogger("mine").info(text)
    return text

if sys.argv[1] == "trio":
    trio.run(trio_mcp.serve, registry)
elif sys.argv[1] == "asyncio":
    asyncio.run(trio_mcp.aio.serve(registry))
else:
    serve = partial(trio_mcp.serve_http, registry, port=int(sys.argv[3]), own_process=True)
    trio.run(serve)
if sys.argv[-1] == "and more":
    print("x" * 100_000, file=sys.stderr)
"""


@pytest.fixture
def unread() -> Iterator[tuple[int, int]]:
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize(("way", "how"), [("trio", "print"), ("trio", "log"), ("asyncio", "log")])
async def test_all_calls_are_answered_and_the_end_is_an_end(
    way: str, how: str, unread: tuple[int, int]
) -> None:
    ours, theirs = unread
    command = [sys.executable, "-c", PROGRAM, way, how, "and more"]
    async with running(command, stderr=theirs) as server:
        await server.client.send_bytes(
            lines(*(call(id, "say", text="x" * 50) for id in range(200)))
        )
        answers = [text_of(await server.client.receive()) for _ in range(200)]
        assert answers == ["x" * 50] * 200
        await server.client.send_eof()
        assert await server.exit() == 0
    assert os.read(ours, 5000).count(b"\n") >= 30


async def test_what_was_dropped_is_counted_where_it_was(unread: tuple[int, int]) -> None:
    ours, theirs = unread
    command = [sys.executable, "-c", PROGRAM, "trio", "print"]
    async with running(command, stderr=theirs) as server:
        await server.client.send_bytes(
            lines(*(call(id, "say", text="x" * 9000) for id in range(90)))
        )
        for _ in range(90):
            await server.client.receive()
        os.set_blocking(ours, False)
        said = b""
        while b"messages were dropped here, because nothing read stderr\n" not in said:
            answer = await server.client.call("say", text="more")  # while it is read
            assert text_of(answer) == "more"
            try:
                said += os.read(ours, 1 << 16)
            except BlockingIOError:
                pass
        assert await server.finish() == 0


async def test_over_http_as_well(unread: tuple[int, int]) -> None:
    ours, theirs = unread
    port = free_port()
    command = [sys.executable, "-c", PROGRAM, "http", "log", str(port), "and more"]
    async with running(command, stderr=theirs) as server:
        assert b"Serving" in await trio.to_thread.run_sync(os.read, ours, 4096)
        url = f"http://127.0.0.1:{port}/mcp"
        async with connect(url, tool_timeout=60) as client:
            for _ in range(100):
                assert (await client.call_tool("say", {"text": "x" * 50})).text == "x" * 50
        server.signal(signal.SIGTERM)
        assert await server.exit() == 0
