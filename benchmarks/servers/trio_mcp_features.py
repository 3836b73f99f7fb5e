"""A resource, a prompt, progress and updates, served by this project."""

from functools import partial

import trio

from trio_mcp import Context, Limits, Registry, serve

TEXT = "thirty-two characters of a text."

registry = Registry("features", version="1.0")


@registry.resource("bench://text")
async def text() -> str:
    """A text."""
    return TEXT


@registry.prompt
async def say(text: str) -> str:
    """Say the text."""
    return text


@registry.tool
async def steps(count: int, context: Context) -> str:
    """Report progress so many times."""
    for number in range(1, count + 1):
        await context.progress(number, total=count)
    return TEXT


@registry.tool
async def update() -> str:
    """Say that the resource has changed."""
    registry.notify_resource_updated("bench://text")
    return TEXT


trio.run(partial(serve, registry, limits=Limits(progress_rate=1e9)))
