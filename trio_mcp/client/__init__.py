"""Talking to a server, wherever it runs."""

from trio_mcp.client.changes import ChangeStream
from trio_mcp.client.client import Client, RemoteTool
from trio_mcp.client.connect import connect
from trio_mcp.client.contents import ReadResult
from trio_mcp.client.errors import (
    CallTimeout,
    CannotReach,
    CannotStart,
    ClientError,
    ConnectionLost,
    HttpError,
    InvalidArguments,
    NotConnected,
    OutputClosed,
    ProtocolError,
    RateLimited,
    RequestTooLarge,
    ResponseTooLarge,
    ServerExited,
    SessionExpired,
    ToolDisabled,
    ToolFailed,
    Unauthorized,
    UnknownTool,
    WriteFailed,
)
from trio_mcp.client.handlers import Handlers
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.client.result import CallResult
from trio_mcp.client.state import ClientState, Connected, Connecting, Disconnected

__all__ = [
    "CallResult",
    "CallTimeout",
    "CannotReach",
    "CannotStart",
    "ChangeStream",
    "Client",
    "ClientError",
    "ClientState",
    "Connected",
    "Connecting",
    "ConnectionLost",
    "Disconnected",
    "Handlers",
    "HttpError",
    "HttpOptions",
    "InvalidArguments",
    "NotConnected",
    "OutputClosed",
    "ProtocolError",
    "RateLimited",
    "ReadResult",
    "RemoteTool",
    "RequestTooLarge",
    "ResponseTooLarge",
    "ServerExited",
    "SessionExpired",
    "ToolDisabled",
    "ToolFailed",
    "Unauthorized",
    "UnknownTool",
    "WriteFailed",
    "connect",
]
