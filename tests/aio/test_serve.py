"""`serve` on asyncio: the same server on stdin and stdout."""

import os
import signal
import subprocess
import sys

import pytest

from tests.aio.support import in_asyncio
from tests.support.processes import ENVIRONMENT
from trio_mcp.aio import connect
from trio_mcp.errors import NotConnected

SERVER = """
import asyncio, os, sys
from trio_mcp.aio import Registry, serve

registry = Registry("napping")

@registry.tool
async def nap(seconds: float) -> int:
    print("not for the client")
    await asyncio.sleep(seconds)
    return os.getpid()

asyncio.run(serve(registry))
sys.exit(7)
"""
COMMAND = [sys.executable, "-W", "error", "-c", SERVER]


@pytest.mark.requirement("L1")
@in_asyncio
async def test_handlers_for_asyncio_are_served_on_stdio():
    async with connect(COMMAND) as client:
        assert await client.call_tool("nap", {"seconds": 0.01}, returns=int)
        assert "not for the client" in client.stderr()
        assert "Traceback" not in client.stderr()


@pytest.mark.requirement("L1")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@in_asyncio
async def test_a_signal_stops_it_in_good_order(number):
    async with connect(COMMAND) as client:
        pid = await client.call_tool("nap", {"seconds": 0}, returns=int)
        os.kill(pid, number)
        states = [each async for each in client.states()]
        assert isinstance(states[-1].error, NotConnected)
        assert states[-1].error.returncode == 7


@pytest.mark.long
@pytest.mark.requirement("L1")
def test_only_http_needs_more_packages():
    program = """
import asyncio, sys
for name in ("httptools", "httpx2", "cryptography", "uvicorn", "starlette", "anyio"):
    sys.modules[name] = None
from trio_mcp.aio import Registry, connect, connect_all, on_asyncio, serve

async def main():
    async with connect(Registry("core")) as client:
        print(client.revision)

asyncio.run(main())
from trio_mcp.aio import http_app
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.stdout == "2026-07-28\n"
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: http_app needs more packages: pip install 'trio-mcp[http]'"
    )
