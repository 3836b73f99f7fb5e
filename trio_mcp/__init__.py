"""The Model Context Protocol for Trio."""

from typing import TYPE_CHECKING, Any

from trio_mcp.registry import Context, Registry
from trio_mcp.registry.asking import Answer
from trio_mcp.registry.changes import ListChanged, ResourceUpdated
from trio_mcp.server.lifecycle import ServerHandle, ServerState
from trio_mcp.server.signals import stop_at_signals
from trio_mcp.transports.stdio.serve import serve
from trio_mcp.transports.stream import serve_stream
from trio_mcp.version import __version__ as __version__
from trio_mcp.wire.errors import McpError, ResourceNotFound, ToolError
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.payloads import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    Completion,
    CreateMessageResult,
    EmbeddedResource,
    GetPromptResult,
    Icon,
    ImageContent,
    Implementation,
    ModelHint,
    ModelPreferences,
    PromptMessage,
    ResourceLink,
    Root,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
    ToolResultContent,
    ToolUseContent,
)

if TYPE_CHECKING:
    from trio_mcp.client import Client as Client
    from trio_mcp.client import connect as connect
    from trio_mcp.client.handlers import Handlers as Handlers
    from trio_mcp.client.http.options import HttpOptions as HttpOptions
    from trio_mcp.schema.errors import SchemaError as SchemaError
    from trio_mcp.transports.control import ControlRouter as ControlRouter
    from trio_mcp.transports.http.app import http_app as http_app
    from trio_mcp.transports.http.events import EventStore as EventStore
    from trio_mcp.transports.http.policy import HttpPolicy as HttpPolicy
    from trio_mcp.transports.http.serve import HttpHandle as HttpHandle
    from trio_mcp.transports.http.serve import serve_http as serve_http
    from trio_mcp.transports.http.server import HttpLimits as HttpLimits
    from trio_mcp.transports.memory import handle_message as handle_message
    from trio_mcp.transports.process import ProcessOptions as ProcessOptions
    from trio_mcp.transports.process import StdioTransport as StdioTransport
    from trio_mcp.transports.process import open_process as open_process

# What a server on stdio does not need is imported when it is first asked for.
_LATER = {
    "Client": "trio_mcp.client",
    "ControlRouter": "trio_mcp.transports.control",
    "EventStore": "trio_mcp.transports.http.events",
    "Handlers": "trio_mcp.client.handlers",
    "connect": "trio_mcp.client",
    "handle_message": "trio_mcp.transports.memory",
    "HttpHandle": "trio_mcp.transports.http.serve",
    "HttpOptions": "trio_mcp.client.http.options",
    "HttpLimits": "trio_mcp.transports.http.server",
    "HttpPolicy": "trio_mcp.transports.http.policy",
    "ProcessOptions": "trio_mcp.transports.process",
    "SchemaError": "trio_mcp.schema.errors",
    "StdioTransport": "trio_mcp.transports.process",
    "http_app": "trio_mcp.transports.http.app",
    "open_process": "trio_mcp.transports.process",
    "serve_http": "trio_mcp.transports.http.serve",
}

__all__ = [
    "Annotations",
    "Answer",
    "AudioContent",
    "BlobResourceContents",
    "CallToolResult",
    "Client",
    "Completion",
    "Context",
    "ControlRouter",
    "CreateMessageResult",
    "EmbeddedResource",
    "EventStore",
    "GetPromptResult",
    "Handlers",
    "HttpHandle",
    "HttpLimits",
    "HttpOptions",
    "HttpPolicy",
    "Icon",
    "ImageContent",
    "Implementation",
    "Limits",
    "ListChanged",
    "McpError",
    "ModelHint",
    "ModelPreferences",
    "ProcessOptions",
    "PromptMessage",
    "Registry",
    "ResourceLink",
    "ResourceNotFound",
    "ResourceUpdated",
    "Root",
    "SamplingMessage",
    "SchemaError",
    "ServerHandle",
    "ServerState",
    "StdioTransport",
    "TextContent",
    "TextResourceContents",
    "ToolAnnotations",
    "ToolError",
    "ToolResultContent",
    "ToolUseContent",
    "connect",
    "handle_message",
    "http_app",
    "open_process",
    "serve",
    "serve_http",
    "serve_stream",
    "stop_at_signals",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_LATER[name]), name)
    return value
