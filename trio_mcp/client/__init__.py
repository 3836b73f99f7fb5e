"""Talking to a server, wherever it runs."""

from trio_mcp.client.client import Client, RemoteTool
from trio_mcp.client.connect import connect
from trio_mcp.client.errors import (
    CallTimeout,
    CannotStart,
    ClientError,
    InvalidArguments,
    NotConnected,
    OutputClosed,
    ProtocolError,
    ServerExited,
    ToolDisabled,
    ToolFailed,
    UnknownTool,
    WriteFailed,
)
from trio_mcp.client.handlers import Handlers
from trio_mcp.client.result import CallResult

__all__ = [
    "CallResult",
    "CallTimeout",
    "CannotStart",
    "Client",
    "ClientError",
    "Handlers",
    "InvalidArguments",
    "NotConnected",
    "OutputClosed",
    "ProtocolError",
    "RemoteTool",
    "ServerExited",
    "ToolDisabled",
    "ToolFailed",
    "UnknownTool",
    "WriteFailed",
    "connect",
]
