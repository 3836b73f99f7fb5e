"""The echo tool as a call and as a task, served by this project; the argument is their store."""

import sys

import trio

from trio_mcp import Registry, serve
from trio_mcp.extensions.tasks import Tasks

registry = Registry("tasks", version="1.0", extensions=[Tasks(store=sys.argv[1])])


@registry.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


registry.tool(name="job", task=True)(echo)

trio.run(serve, registry)
