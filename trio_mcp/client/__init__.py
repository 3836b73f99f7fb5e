"""Talking to a server, wherever it runs."""

from trio_mcp.client.client import Client, RemoteTool
from trio_mcp.client.connect import connect
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

__all__ = [
    "CallResult",
    "CallTimeout",
    "CannotReach",
    "CannotStart",
    "Client",
    "ClientError",
    "ConnectionLost",
    "Handlers",
    "HttpError",
    "HttpOptions",
    "InvalidArguments",
    "NotConnected",
    "OutputClosed",
    "ProtocolError",
    "RateLimited",
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
