"""The Model Context Protocol for Trio."""

from trio_mcp.registry import Context, Registry
from trio_mcp.server.lifecycle import ServerHandle, ServerState
from trio_mcp.transports.stdio.serve import serve
from trio_mcp.transports.stream import serve_stream
from trio_mcp.wire.errors import McpError, ToolError
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.payloads import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    Icon,
    ImageContent,
    Implementation,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

__all__ = [
    "Annotations",
    "AudioContent",
    "BlobResourceContents",
    "CallToolResult",
    "Context",
    "EmbeddedResource",
    "Icon",
    "ImageContent",
    "Implementation",
    "Limits",
    "McpError",
    "Registry",
    "ResourceLink",
    "ServerHandle",
    "ServerState",
    "TextContent",
    "TextResourceContents",
    "ToolAnnotations",
    "ToolError",
    "serve",
    "serve_stream",
]
