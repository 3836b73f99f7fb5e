"""The echo tool, served by several processes; the arguments are how many, and the port."""

import sys

import trio

from trio_mcp import Registry, serve_http

registry = Registry("echo", version="1.0")


@registry.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


async def main() -> None:
    number, port = map(int, sys.argv[1:])
    await serve_http(registry, port=port, workers=number if number > 1 else None, own_process=True)


trio.run(main)
