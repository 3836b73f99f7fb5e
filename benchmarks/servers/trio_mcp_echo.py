"""The echo tool, served by this project; an argument says how many tools are registered.

Or it is `waits`: then the tool waits once before it returns, as one that asks something else does.
"""

import sys

import trio

from trio_mcp import Registry, serve

more = sys.argv[1] if len(sys.argv) > 1 else "1"
registry = Registry("echo", version="1.0")


async def echo(text: str) -> str:
    """Return the text."""
    return text


async def echo_later(text: str) -> str:
    """Return the text."""
    await trio.lowlevel.checkpoint()
    return text


registry.tool(name="echo")(echo_later if more == "waits" else echo)
for number in range(1, int(more) if more.isdecimal() else 1):
    registry.tool(name=f"echo_{number}")(echo)

trio.run(serve, registry)
