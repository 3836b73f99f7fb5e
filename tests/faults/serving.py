"""How the small servers of these tests are run: with a port, a store and a folder as arguments."""

from __future__ import annotations

import sys
from functools import partial

import trio

from trio_mcp import Registry, serve_http


def run(registry: Registry) -> None:
    """Serve until told to stop."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            serve = partial(serve_http, store=sys.argv[2], own_process=True)
            await nursery.start(serve, registry, "127.0.0.1", int(sys.argv[1]))
            sys.stderr.write("ready\n")

    trio.run(main)
