"""A proxy of this project before the command that its arguments are, on stdio on both sides."""

import sys

import trio

from trio_mcp import serve
from trio_mcp.compose import open_proxy


async def main() -> None:
    async with open_proxy(sys.argv[1:]) as registry:
        await serve(registry)


trio.run(main)
