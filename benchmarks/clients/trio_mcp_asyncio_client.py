"""This project's client on asyncio.

Arguments: when it was started, for how many seconds to measure, and the command of a server.
"""

import asyncio
import os
import sys
from time import perf_counter

from benchmarks.clients.measure import Caller, measure
from benchmarks.eras import TEXT
from trio_mcp.aio import connect
from trio_mcp.transports import ProcessOptions


async def crowd(caller: Caller, number: int) -> None:
    await asyncio.gather(*(caller() for _ in range(number)))


async def main() -> None:
    started, seconds, command = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    options = ProcessOptions(env={"PYTHONPATH": os.environ["PYTHONPATH"]})
    begun = perf_counter()
    async with connect(command, process_options=options) as client:

        async def call() -> str:
            return (await client.call_tool("echo", {"text": TEXT})).text

        await measure(call, crowd, seconds=seconds, started=started, begun=begun)


asyncio.run(main())
