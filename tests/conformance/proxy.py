"""Our proxy in front of the server at a URL, on a port of its own, which it prints."""

import sys

import trio

from trio_mcp import serve_http
from trio_mcp.compose import open_proxy


async def main() -> None:
    """Serve until killed."""
    async with open_proxy(sys.argv[1]) as registry, trio.open_nursery() as nursery:
        handle = await nursery.start(serve_http, registry, "127.0.0.1", 0)
        print(handle.url, flush=True)


trio.run(main)
