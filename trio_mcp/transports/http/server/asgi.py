"""The names of ASGI 3 that the server speaks in, and who is at the two ends of a connection.

Its scopes and messages are open mappings.
"""

import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import trio

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Any, Receive, Send], Awaitable[None]]

Headers = list[tuple[bytes, bytes]]
"""Names in lower case, and values without white space around them, in the order of the wire."""


SendNowait = Callable[[bytes], bool]


def nowait_of(send: Send) -> SendNowait | None:
    """Return how to send a piece of a body without waiting, where it is our server that sends.

    Not where another app has put a function of its own in place of `send`.
    """
    found: SendNowait | None = getattr(getattr(send, "__self__", None), "send_nowait", None)
    return found


CANCELS = "trio_mcp.cancels"
"""The extension that says so: an app whose client has left is cancelled, and need not watch."""

Address = tuple[str, int] | str
"""Host and port, or the path of a Unix socket (empty for a client, which has none)."""


def base_scope(stream: trio.abc.Stream, root_path: str) -> Scope:
    secure = isinstance(stream, trio.SSLStream)
    transport = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    client: tuple[str, int] | None = None
    server: tuple[str, int | None] | None = None
    if isinstance(transport, trio.SocketStream):
        try:
            peer = address_of(transport.socket, transport.socket.getpeername())
            own = address_of(transport.socket, transport.socket.getsockname())
        except OSError:  # the client is gone already
            pass
        else:
            client = None if isinstance(peer, str) else peer
            server = (own, None) if isinstance(own, str) else own
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "scheme": "https" if secure else "http",
        "root_path": root_path,
        "client": client,
        "server": server,
        "extensions": {CANCELS: {}},
    }


def bound_address(listener: trio.abc.Listener[trio.abc.Stream]) -> Address | None:
    inner: object = listener
    while not isinstance(inner, trio.SocketListener):
        inner = getattr(inner, "transport_listener", None)
        if inner is None:
            return None
    return address_of(inner.socket, inner.socket.getsockname())


def address_of(
    sock: trio.socket.SocketType, name: tuple[str, int] | tuple[str, int, int, int] | str | bytes
) -> Address:
    if sock.family in (socket.AF_INET, socket.AF_INET6) and isinstance(name, tuple):
        return name[0], name[1]
    return name if isinstance(name, str) else ""
