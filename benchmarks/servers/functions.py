"""An echo that is written for Trio, for asyncio, or for neither: the argument says which."""

import sys
import time

import trio

from trio_mcp import Registry, aio, serve

KINDS = {"trio": Registry, "asyncio": aio.Registry, "neither": Registry}
kind = sys.argv[1]
registry = KINDS[kind]("functions")

if kind == "neither":

    @registry.tool
    def echo(text: str) -> str:
        return text

else:

    @registry.tool(name="echo")
    async def echo_async(text: str) -> str:
        return text


@registry.tool
async def used() -> float:
    """Say how many seconds of processor time this process has taken, in all of its threads."""
    return time.process_time()


if __name__ == "__main__":
    trio.run(serve, registry)
