"""The server of the recipes: a tool that takes its time, one that asks, and a list that changes."""

import os

import trio

from trio_mcp import Context, Registry

# Only several instances without a store that they share need these.
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
