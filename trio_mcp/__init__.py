"""The Model Context Protocol for Trio.

What is public can be imported from here, and errors from `trio_mcp.errors`. Each name is imported
when it is first asked for, so a program pays only for what it uses.
"""

from typing import TYPE_CHECKING, Final

from trio_mcp.public import by_name, lazily
from trio_mcp.version import __version__ as __version__

if TYPE_CHECKING:
    from trio_mcp.client.cache import ResponseCache as ResponseCache
    from trio_mcp.client.changes import ChangeStream as ChangeStream
    from trio_mcp.client.client import Client as Client
    from trio_mcp.client.connect import ClientConnection as ClientConnection
    from trio_mcp.client.connect import connect as connect
    from trio_mcp.client.handlers import Handlers as Handlers
    from trio_mcp.client.http.options import HttpOptions as HttpOptions
    from trio_mcp.client.result import CallResult as CallResult
    from trio_mcp.client.result import ReadResult as ReadResult
    from trio_mcp.client.state import ClientState as ClientState
    from trio_mcp.client.state import Connected as Connected
    from trio_mcp.client.state import Connecting as Connecting
    from trio_mcp.client.state import Disconnected as Disconnected
    from trio_mcp.client.tools import RemoteTool as RemoteTool
    from trio_mcp.compose.group import GroupServer as GroupServer
    from trio_mcp.compose.group import ServerEvent as ServerEvent
    from trio_mcp.compose.group import ServerGroup as ServerGroup
    from trio_mcp.compose.group import connect_all as connect_all
    from trio_mcp.compose.remote import Remote as Remote
    from trio_mcp.registry.asking import ElicitResult as ElicitResult
    from trio_mcp.registry.changes import ListChanged as ListChanged
    from trio_mcp.registry.changes import ResourceUpdated as ResourceUpdated
    from trio_mcp.registry.content import Audio as Audio
    from trio_mcp.registry.content import File as File
    from trio_mcp.registry.content import Image as Image
    from trio_mcp.registry.context import Context as Context
    from trio_mcp.registry.dependencies import Depends as Depends
    from trio_mcp.registry.options import FileOptions as FileOptions
    from trio_mcp.registry.options import PromptOptions as PromptOptions
    from trio_mcp.registry.options import ResourceOptions as ResourceOptions
    from trio_mcp.registry.options import ToolOptions as ToolOptions
    from trio_mcp.registry.registry import Registry as Registry
    from trio_mcp.registry.transform import ArgumentTransform as ArgumentTransform
    from trio_mcp.registry.transform import Transform as Transform
    from trio_mcp.server.lifecycle import ServerHandle as ServerHandle
    from trio_mcp.server.lifecycle import ServerState as ServerState
    from trio_mcp.server.lifecycle import stop_at_signals as stop_at_signals
    from trio_mcp.transports.control import ControlRouter as ControlRouter
    from trio_mcp.transports.http.app import http_app as http_app
    from trio_mcp.transports.http.card import ServerCard as ServerCard
    from trio_mcp.transports.http.events import EventStore as EventStore
    from trio_mcp.transports.http.policy import HttpPolicy as HttpPolicy
    from trio_mcp.transports.http.serve import HttpHandle as HttpHandle
    from trio_mcp.transports.http.serve import serve_http as serve_http
    from trio_mcp.transports.http.server.limits import HttpLimits as HttpLimits
    from trio_mcp.transports.http.session_options import SessionOptions as SessionOptions
    from trio_mcp.transports.memory import handle_message as handle_message
    from trio_mcp.transports.stdio.serve import serve as serve
    from trio_mcp.transports.stream import serve_stream as serve_stream
    from trio_mcp.wire.content import Annotations as Annotations
    from trio_mcp.wire.content import AudioContent as AudioContent
    from trio_mcp.wire.content import BlobResourceContents as BlobResourceContents
    from trio_mcp.wire.content import CallToolResult as CallToolResult
    from trio_mcp.wire.content import EmbeddedResource as EmbeddedResource
    from trio_mcp.wire.content import ImageContent as ImageContent
    from trio_mcp.wire.content import ResourceDescription as ResourceDescription
    from trio_mcp.wire.content import ResourceLink as ResourceLink
    from trio_mcp.wire.content import TextContent as TextContent
    from trio_mcp.wire.content import TextResourceContents as TextResourceContents
    from trio_mcp.wire.errors import McpError as McpError
    from trio_mcp.wire.errors import ResourceNotFound as ResourceNotFound
    from trio_mcp.wire.errors import SchemaError as SchemaError
    from trio_mcp.wire.errors import ToolError as ToolError
    from trio_mcp.wire.limits import Limits as Limits
    from trio_mcp.wire.offers import Completion as Completion
    from trio_mcp.wire.offers import GetPromptResult as GetPromptResult
    from trio_mcp.wire.offers import PromptArgument as PromptArgument
    from trio_mcp.wire.offers import PromptDescription as PromptDescription
    from trio_mcp.wire.offers import PromptMessage as PromptMessage
    from trio_mcp.wire.offers import ResourceTemplateDescription as ResourceTemplateDescription
    from trio_mcp.wire.payloads import Icon as Icon
    from trio_mcp.wire.payloads import Implementation as Implementation
    from trio_mcp.wire.payloads import ToolAnnotations as ToolAnnotations
    from trio_mcp.wire.payloads import ToolDescription as ToolDescription
    from trio_mcp.wire.questions import CreateMessageResult as CreateMessageResult
    from trio_mcp.wire.questions import ModelHint as ModelHint
    from trio_mcp.wire.questions import ModelPreferences as ModelPreferences
    from trio_mcp.wire.questions import Root as Root
    from trio_mcp.wire.questions import SamplingMessage as SamplingMessage
    from trio_mcp.wire.questions import ToolResultContent as ToolResultContent
    from trio_mcp.wire.questions import ToolUseContent as ToolUseContent

MODULES: Final = by_name(
    {
        "client.cache": "ResponseCache",
        "client.changes": "ChangeStream",
        "client.client": "Client",
        "client.connect": "ClientConnection connect",
        "client.handlers": "Handlers",
        "client.http.options": "HttpOptions",
        "client.result": "CallResult ReadResult",
        "client.state": "ClientState Connected Connecting Disconnected",
        "client.tools": "RemoteTool",
        "compose.group": "GroupServer ServerEvent ServerGroup connect_all",
        "compose.remote": "Remote",
        "registry.asking": "ElicitResult",
        "registry.changes": "ListChanged ResourceUpdated",
        "registry.content": "Audio File Image",
        "registry.context": "Context",
        "registry.dependencies": "Depends",
        "registry.options": "FileOptions PromptOptions ResourceOptions ToolOptions",
        "registry.registry": "Registry",
        "registry.transform": "ArgumentTransform Transform",
        "server.lifecycle": "ServerHandle ServerState stop_at_signals",
        "transports.control": "ControlRouter",
        "transports.http.app": "http_app",
        "transports.http.card": "ServerCard",
        "transports.http.events": "EventStore",
        "transports.http.policy": "HttpPolicy",
        "transports.http.serve": "HttpHandle serve_http",
        "transports.http.server.limits": "HttpLimits",
        "transports.http.session_options": "SessionOptions",
        "transports.memory": "handle_message",
        "transports.stdio.serve": "serve",
        "transports.stream": "serve_stream",
        "wire.content": (
            "Annotations AudioContent BlobResourceContents CallToolResult EmbeddedResource "
            "ImageContent ResourceDescription ResourceLink TextContent TextResourceContents"
        ),
        "wire.errors": "McpError ResourceNotFound SchemaError ToolError",
        "wire.limits": "Limits",
        "wire.offers": (
            "Completion GetPromptResult PromptArgument PromptDescription PromptMessage "
            "ResourceTemplateDescription"
        ),
        "wire.payloads": "Icon Implementation ToolAnnotations ToolDescription",
        "wire.questions": (
            "CreateMessageResult ModelHint ModelPreferences Root SamplingMessage "
            "ToolResultContent ToolUseContent"
        ),
    }
)
"""The public names, by the module that defines them."""

_EXTRAS: Final = {
    "transports.http.app": "http",
    "transports.http.card": "http",
    "transports.http.serve": "http",
    "transports.http.server.limits": "http",
}
"""By the modules that cannot be imported without it, an extra."""

__all__ = sorted(name for name, module in MODULES.items() if module not in _EXTRAS)
"""What `from trio_mcp import *` imports: all that needs no extra."""

if not TYPE_CHECKING:  # or else any name would be one of the package
    submodules = ("errors",)
    __getattr__, __dir__ = lazily(globals(), MODULES, extras=_EXTRAS, submodules=submodules)
