"""This project's client, and a server that does wrong. Arguments: the command of the server."""

import sys

import trio

from benchmarks.clients.calling import tell
from trio_mcp import connect


async def main() -> None:
    async with connect(sys.argv[1:]) as client:
        await tell(lambda: client.call_tool("work", {}, returns=object))


trio.run(main)
