"""The echo tool, served by this project; an argument says how many tools are registered."""

import sys

import trio

from trio_mcp import Registry, serve

registry = Registry("echo", version="1.0")


@registry.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


for number in range(1, int(sys.argv[1]) if len(sys.argv) > 1 else 1):
    registry.tool(name=f"echo_{number}")(echo)

trio.run(serve, registry)
