"""The Model Context Protocol for Trio."""

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from trio_mcp.client import Client as Client
    from trio_mcp.client import connect as connect
    from trio_mcp.transports.control import ControlRouter as ControlRouter
    from trio_mcp.transports.memory import handle_message as handle_message

# What a server on stdio does not need is imported when it is first asked for.
_LATER = {
    "Client": "trio_mcp.client",
    "ControlRouter": "trio_mcp.transports.control",
    "connect": "trio_mcp.client",
    "handle_message": "trio_mcp.transports.memory",
}

__all__ = [
    "Annotations",
    "AudioContent",
    "BlobResourceContents",
    "CallToolResult",
    "Client",
    "Context",
    "ControlRouter",
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
    "connect",
    "handle_message",
    "serve",
    "serve_stream",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_LATER[name]), name)
    return value
