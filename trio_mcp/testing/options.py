"""The options that `McpTester` passes on, as an editor completes them and mypy checks them."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypedDict

import trio

from trio_mcp import (
    Handlers,
    HttpLimits,
    HttpOptions,
    HttpPolicy,
    Implementation,
    Limits,
    ResponseCache,
    ServerCard,
    SessionOptions,
)
from trio_mcp.auth import ResourceServer
from trio_mcp.extending import ClientExtension
from trio_mcp.middleware import McpRequest
from trio_mcp.public import public_in
from trio_mcp.transports import ProcessOptions
from trio_mcp.wire.payloads import LoggingLevel
from trio_mcp.wire.revisions import Era


@public_in("trio_mcp.testing")
class ConnectOptions(TypedDict, total=False):
    """The options of `trio_mcp.connect`, which documents them."""

    era: Era | None
    revision: str | None
    handlers: Handlers | None
    client_info: Implementation
    process_options: ProcessOptions | None
    http: HttpOptions | None
    connect_timeout: float
    tool_timeout: float
    tool_names: Mapping[str, str] | Callable[[str], str] | None
    list_tools: bool
    request_timeout: float
    max_timeout: float
    limits: Limits | None
    on_log: Callable[[LoggingLevel, Any, str | None], object] | None
    log_level: LoggingLevel | None
    send_shutdown: bool
    cache: ResponseCache | None
    extensions: Sequence[ClientExtension]
    middleware: Sequence[Callable[[McpRequest, Any], Awaitable[dict[str, Any]]]]


@public_in("trio_mcp.testing")
class ServeOptions(TypedDict, total=False):
    """The options of `trio_mcp.serve_http`, which documents them."""

    host: str
    port: int
    path: str
    sse_path: str | None
    unix_socket: str | os.PathLike[str] | None
    unix_socket_mode: int
    listeners: Sequence[trio.abc.Listener[trio.abc.Stream]] | None
    ssl_context: ssl.SSLContext | None
    policy: HttpPolicy | None
    auth: ResourceServer | None
    sessions: SessionOptions | None
    limits: Limits | None
    http_limits: HttpLimits | None
    card: ServerCard | None
    explorer: bool
    store: Any
    workers: int | None
    own_process: bool
