"""Tools that things go wrong in, served by the official Python SDK."""

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError

from benchmarks.servers.fault_tools import offer

server = MCPServer("faults", version="1.0")
offer(
    lambda function, name: server.add_tool(function, name=name),
    ToolError("Sold out."),
    MCPError(code=-32000, message="Sold out."),
)


@server.resource("shop://stock")
def stock() -> str:
    """Return what is left."""
    return "3"


server.run("stdio")
