"""`redis`: a store in Redis. There is none at this address, and that is what it finds."""

import trio

from trio_mcp.errors import StoreUnavailable
from trio_mcp.store.opening import open_store


async def main() -> None:
    try:
        async with open_store("redis://127.0.0.1:1/0"):
            raise AssertionError("there is a server at port 1")
    except StoreUnavailable:
        pass


trio.run(main)
