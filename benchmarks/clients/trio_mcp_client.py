"""This project's client.

Arguments: when it was started, for how many seconds to measure, and the command of a server;
without one the server is in the same process.
"""

import os
import sys
from time import perf_counter

import trio

from benchmarks.clients.measure import Caller, measure
from benchmarks.eras import TEXT
from trio_mcp import Registry, connect
from trio_mcp.transports.process import ProcessOptions

registry = Registry("echo", version="1.0")


@registry.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


async def crowd(caller: Caller, number: int) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(number):
            nursery.start_soon(caller)


async def main() -> None:
    started, seconds, command = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    options = ProcessOptions(env={"PYTHONPATH": os.environ["PYTHONPATH"]})
    begun = perf_counter()
    async with connect(command or registry, process_options=options) as client:

        async def call() -> str:
            return (await client.call_tool("echo", {"text": TEXT})).text

        await measure(call, crowd, seconds=seconds, started=started, begun=begun)


trio.run(main)
