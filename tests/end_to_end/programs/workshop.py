"""A server with tools for every trouble.

Usage: workshop.py [LIMITS]

LIMITS is a JSON object with the fields of `Limits` that differ. The states of the server are
told on stderr as they are reached.
"""

import ctypes
import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import trio

from trio_mcp import Limits, Registry, ServerState, ToolError, serve

registry = Registry("workshop", version="1.0")


@registry.tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


@registry.tool
async def big(letter: str, size: int) -> str:
    """Return much of one letter."""
    return letter * size


@registry.tool
async def fail(text: str) -> str:
    """Fail with a text for the caller."""
    raise ToolError(text)


@registry.tool
async def forever() -> str:
    """Wait until cancelled."""
    print("forever runs", file=sys.stderr, flush=True)
    await trio.sleep_forever()
    raise AssertionError


@registry.tool
def read(path: str) -> str:
    """Return the contents of a file; that of a FIFO comes when it was written."""
    return Path(path).read_text()


@registry.tool
def stuck_in_python() -> str:
    """Block a worker thread."""
    print("stuck", file=sys.stderr, flush=True)
    time.sleep(1000)
    return "awake"


@registry.tool
def stuck_in_c() -> str:
    """Block a worker thread in a C library, which no Python exception reaches."""
    print("stuck", file=sys.stderr, flush=True)
    ctypes.CDLL(None).sleep(1000)
    return "awake"


@registry.tool
async def stubborn() -> str:
    """Ignore cancellation."""
    print("stubborn runs", file=sys.stderr, flush=True)
    with trio.CancelScope(shield=True):
        await trio.sleep_forever()
    raise AssertionError


@registry.tool
async def block() -> str:
    """Block the event loop itself."""
    print("blocked", file=sys.stderr, flush=True)
    time.sleep(1000)
    return "awake"


@registry.tool
async def noise() -> str:
    """Print in every way that a tool, its libraries and its children have."""
    print("from print")
    os.write(1, b"from os.write\n")
    ctypes.CDLL(None).puts(b"from C")
    ctypes.CDLL(None).fflush(None)
    subprocess.run(["echo", "from a child"], check=True)
    await trio.run_process(["echo", "from a Trio child"])
    print("left in the buffer", end="")
    return "quiet"


@registry.tool
def quiet_noise() -> str:
    """Print from a worker thread."""
    print("from a thread")
    subprocess.run(["sh", "-c", "echo from a shell"], check=True)
    return "quiet"


async def main() -> None:
    limits = Limits(**json.loads(sys.argv[1] if sys.argv[1:] else "{}"))
    async with trio.open_nursery() as nursery:
        handle = await nursery.start(
            lambda task_status: serve(registry, limits=limits, task_status=task_status)
        )
        for state in (ServerState.RUNNING, ServerState.DRAINING, ServerState.STOPPED):
            await handle.wait_for(state)
            print(state.value, file=sys.stderr, flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    trio.run(main)
