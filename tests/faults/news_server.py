"""A server with a resource that changes when it is told to.

python -m tests.faults.news_server PORT STORE FOLDER
"""

from __future__ import annotations

from tests.faults.serving import run
from trio_mcp import Registry

registry = Registry("news")


@registry.resource("news://today")
async def today() -> str:
    """What is new."""
    return "news"


@registry.tool
async def change() -> None:
    """Have it change."""
    registry.notify_resource_updated("news://today")


if __name__ == "__main__":
    run(registry)
