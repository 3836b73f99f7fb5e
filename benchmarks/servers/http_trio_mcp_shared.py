"""The echo tool, served over HTTP with a store; the arguments are its URL, if any, and the port."""

import sys

import trio

from trio_mcp import Registry, serve_http

registry = Registry("echo", version="1.0")


@registry.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


async def main() -> None:
    *store, port = sys.argv[1:]
    await serve_http(registry, port=int(port), store=store[0] if store else None)


trio.run(main)
