"""Tools that things go wrong in, served by this project."""

import trio

from benchmarks.servers.fault_tools import offer
from trio_mcp import McpError, Registry, ToolError, serve

registry = Registry("faults", version="1.0")
offer(
    lambda function, name: registry.add_tool(function, name=name),
    ToolError("Sold out."),
    McpError(-32000, "Sold out."),
)


@registry.resource("shop://stock")
def stock() -> str:
    """Return what is left."""
    return "3"


trio.run(serve, registry)
