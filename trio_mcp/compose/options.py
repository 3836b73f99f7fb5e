"""The options of what is connected for longer, as an editor completes them and mypy checks them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypedDict

from trio_mcp.client.http.options import HttpOptions
from trio_mcp.client.state import ClientState
from trio_mcp.compose.supervised import Backoff
from trio_mcp.public import public_in
from trio_mcp.transports.process import ProcessOptions
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.payloads import LoggingLevel
from trio_mcp.wire.revisions import Era


class _Options(TypedDict, total=False):
    """The options of whatever is connected to servers elsewhere."""

    era: Era | None
    process_options: ProcessOptions | None
    connect_timeout: float
    timeout: float
    patience: float
    backoff: Backoff | None
    max_callers: int
    caller_idle: float
    max_held: int
    max_items: int
    limits: Limits | None
    log_level: LoggingLevel
    on_state: Callable[[ClientState], object]


@public_in("trio_mcp.compose")
class RemoteOptions(_Options, total=False):
    """The options of `Remote`, which documents them."""

    name: str
    http: HttpOptions | None
    rename: Callable[[str], str] | None


@public_in("trio_mcp.compose")
class GatewayOptions(_Options, total=False):
    """The options of `open_gateway`: those of `Remote` that hold for all servers, and `http`."""

    http: Mapping[str, HttpOptions] | None
