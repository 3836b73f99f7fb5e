"""The echo tool, served by this project over HTTP; the argument is the port."""

import sys

import trio

from trio_mcp import HttpLimits, HttpPolicy, Limits, Registry, serve_http

registry = Registry("echo", version="1.0")


@registry.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


async def main() -> None:
    await serve_http(
        registry,
        port=int(sys.argv[1]),
        policy=HttpPolicy(max_sessions=2000),
        limits=Limits(max_subscriptions=5000),
        http_limits=HttpLimits(max_connections=5000, idle_timeout=600),
    )


trio.run(main)
