"""What is below a stream, and what OpenTelemetry calls that."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, Final, Literal

import trio

_FAMILIES: Final = {
    socket.AF_INET: "tcp",
    socket.AF_INET6: "tcp",
    getattr(socket, "AF_UNIX", None): "unix",
}


def innermost(
    stream: trio.abc.Stream, side: Literal["receive_stream", "send_stream"] = "receive_stream"
) -> Any:
    """Return what a stream reads from, or writes to: a socket, say, below staples and TLS."""
    inner: Any = stream
    if isinstance(inner, trio.StapledStream):
        inner = getattr(inner, side)
    if isinstance(inner, trio.SSLStream):
        inner = inner.transport_stream
    return inner.socket if isinstance(inner, trio.SocketStream) else inner


def network_of(stream: trio.abc.Stream) -> Mapping[str, Any]:
    """Return the attributes of what carries a stream; none within a process."""
    inner = innermost(stream)
    if not hasattr(inner, "fileno"):
        return {}
    return {"network.transport": _FAMILIES.get(getattr(inner, "family", None), "pipe")}
