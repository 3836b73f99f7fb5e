"""FastMCP's client, and a server that does wrong. Arguments: the command of the server."""

import asyncio
import sys

from fastmcp import Client  # type: ignore[import-not-found]  # of another environment
from fastmcp.client.transports import StdioTransport  # type: ignore[import-not-found]

from benchmarks.clients.calling import tell


async def main() -> None:
    transport = StdioTransport(sys.argv[1], sys.argv[2:], keep_alive=False)
    async with Client(transport) as client:
        await tell(lambda: client.call_tool("work", {}))


asyncio.run(main())
