"""A server with a resource that changes when it is told to.

python -m tests.faults.news_server PORT STORE FOLDER
"""

from __future__ import annotations

import sys
from functools import partial

import trio

from trio_mcp import Registry, serve_http

registry = Registry("news")


@registry.resource("news://today")
async def today() -> str:
    """What is new."""
    return "news"


@registry.tool
async def change() -> None:
    """Have it change."""
    registry.notify_resource_updated("news://today")


async def main() -> None:
    """Serve until told to stop."""
    async with trio.open_nursery() as nursery:
        serve = partial(serve_http, store=sys.argv[2], own_process=True)
        await nursery.start(serve, registry, "127.0.0.1", int(sys.argv[1]))
        sys.stderr.write("ready\n")


if __name__ == "__main__":
    trio.run(main)
