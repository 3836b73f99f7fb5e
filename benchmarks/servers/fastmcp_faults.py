"""Tools that things go wrong in, served by FastMCP."""

from fastmcp import FastMCP  # type: ignore[import-not-found]  # of another environment
from fastmcp.exceptions import ToolError  # type: ignore[import-not-found]
from mcp.shared.exceptions import MCPError

from benchmarks.servers.fault_tools import offer

server = FastMCP("faults", version="1.0")
offer(
    lambda function, name: server.tool(function, name=name),
    ToolError("Sold out."),
    MCPError(code=-32000, message="Sold out."),
)


@server.resource("shop://stock")  # type: ignore[untyped-decorator]
def stock() -> str:
    """Return what is left."""
    return "3"


server.run("stdio", show_banner=False)
