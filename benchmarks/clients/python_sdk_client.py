"""The official Python client.

Arguments: an event loop (asyncio or trio), when it was started, for how many seconds to measure,
and the command of a server.
"""

import os
import sys
from time import perf_counter

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import TextContent

from benchmarks.clients.measure import Caller, measure
from benchmarks.eras import TEXT


async def crowd(caller: Caller, number: int) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(number):
            group.start_soon(caller)


async def main() -> None:
    _, _, started, seconds, command, *arguments = sys.argv
    environment = {"PYTHONPATH": os.environ["PYTHONPATH"]}
    parameters = StdioServerParameters(command=command, args=arguments, env=environment)
    begun = perf_counter()
    async with Client(stdio_client(parameters), mode="auto") as client:
        await client.list_tools()

        async def call() -> str:
            block = (await client.call_tool("echo", {"text": TEXT})).content[0]
            assert isinstance(block, TextContent)
            return block.text

        await measure(call, crowd, seconds=float(seconds), started=float(started), begun=begun)


anyio.run(main, backend=sys.argv[1])
