"""A resource, a prompt, progress and updates, served by the official Python SDK."""

from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

TEXT = "thirty-two characters of a text."

server = MCPServer("features", version="1.0", log_level="WARNING")


@server.resource("bench://text")
async def text() -> str:
    """A text."""
    return TEXT


@server.prompt()
async def say(text: str) -> str:
    """Say the text."""
    return text


@server.tool(structured_output=False)
async def steps(count: int, context: Context[Any, Any]) -> str:
    """Report progress so many times."""
    for number in range(1, count + 1):
        await context.report_progress(number, total=count)
    return TEXT


@server.tool(structured_output=False)
async def update(context: Context[Any, Any]) -> str:
    """Say that the resource has changed."""
    await context.notify_resource_updated("bench://text")
    return TEXT


server.run("stdio")
