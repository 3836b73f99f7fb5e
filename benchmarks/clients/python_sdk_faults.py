"""The official Python client, and a server that does wrong. Arguments: how that is started."""

import sys

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from benchmarks.clients.calling import tell


async def main() -> None:
    parameters = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    async with Client(stdio_client(parameters)) as client:
        await tell(lambda: client.call_tool("work", {}))


anyio.run(main)
