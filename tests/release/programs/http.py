"""`http`: a server over HTTP, and a client for its URL."""

import trio
from plants import registry

from trio_mcp import connect, serve_http


async def main() -> None:
    async with trio.open_nursery() as nursery:
        handle = await nursery.start(serve_http, registry, "127.0.0.1", 0)
        async with connect(handle.url) as client:
            result = await client.call_tool("find_plant", {"name": "Fern"})
            assert result.text == "Fern wants water every 3 days."
        nursery.cancel_scope.cancel()


trio.run(main)
