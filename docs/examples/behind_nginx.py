"""A server behind a proxy: one of several instances, each on a port or a Unix socket of its own."""

import logging
import os
import sys
from functools import partial

import trio

from trio_mcp import Context, HttpLimits, HttpPolicy, Limits, Registry, serve_http

keys = os.environ.get("STATE_KEYS", "").split()
registry = Registry("press", version="1.0", state_keys=keys or None)

jobs: list[str] = []


@registry.resource("press://jobs")
async def all_jobs() -> list[str]:
    """What this instance prints at the moment."""
    return jobs


@registry.tool(timeout=600)
async def print_book(title: str, copies: int, context: Context) -> str:
    """Print copies of a book.

    Args:
        title: Which book.
        copies: How many.
    """
    jobs.append(title)
    registry.notify_resource_updated("press://jobs")
    try:
        for copy in range(copies):
            await context.progress(copy, total=copies)
            await trio.sleep(0.05)  # stands for the press
    finally:
        jobs.remove(title)
        registry.notify_resource_updated("press://jobs")
    return f"{copies} copies of {title}"


@registry.tool
async def order(title: str, context: Context) -> str:
    """Order a book, if the user agrees.

    Args:
        title: Which book.
    """
    answer = await context.elicit(f"Order {title}?", bool)
    return f"{title} is ordered." if answer.accepted and answer.value else "Nothing is ordered."


async def main(where: str = "8001") -> None:
    """Serve at a port or a Unix socket until SIGTERM or SIGINT; then let running calls finish."""
    logging.basicConfig(level=logging.INFO)
    place = {"port": int(where)} if where.isdigit() else {"unix_socket": where}
    await serve_http(
        registry,
        **place,
        policy=HttpPolicy(
            allowed_hosts=["mcp.example.com", "127.0.0.1"],
            trusted_proxies=["127.0.0.1", "unix"],
            rate=20.0,
        ),
        limits=Limits(shutdown_grace=20.0),
        http_limits=HttpLimits(idle_timeout=180.0),
        own_process=True,
    )


if __name__ == "__main__":
    trio.run(partial(main, *sys.argv[1:]))
