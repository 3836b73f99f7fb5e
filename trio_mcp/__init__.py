"""The Model Context Protocol for Trio."""

from trio_mcp.registry import Context, Registry
from trio_mcp.server.lifecycle import ServerHandle, ServerState
from trio_mcp.transports.serve_stdio import serve
from trio_mcp.transports.stream import serve_stream
from trio_mcp.wire.errors import McpError, ToolError
from trio_mcp.wire.limits import Limits

__all__ = [
    "Context",
    "Limits",
    "McpError",
    "Registry",
    "ServerHandle",
    "ServerState",
    "ToolError",
    "serve",
    "serve_stream",
]
