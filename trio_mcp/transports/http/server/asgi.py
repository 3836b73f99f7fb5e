"""The names of ASGI 3 that the server speaks in, and who is at the two ends of a connection.

Its scopes and messages are open mappings.
"""

import socket
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Protocol

import trio

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Any, Receive, Send], Awaitable[None]]

Headers = list[tuple[bytes, bytes]]
"""Names in lower case, and values without white space around them, in the order of the wire."""


class DirectExchange(Protocol):
    """A request with shorter ways than `receive` and `send`, which are its methods.

    Our server offers it, and so does `trio_mcp.aio` where another server brings the request.
    """

    def take_body(self) -> bytes | None:
        """Take all of the body in place of `receive`, if it has come."""

    async def respond(
        self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> None:
        """Send a whole response, whose length need not be among the headers."""

    def send_nowait(self, data: bytes) -> bool:
        """Send a piece of a body that has begun, if that takes no waiting; returns if it did."""


def direct_exchange(receive: Receive, send: Send) -> DirectExchange | None:
    """Return the exchange that these functions are methods of; `None` if another server serves.

    Not where another app has put a function of its own in place of one of them.
    """
    exchange = getattr(send, "__self__", None)
    if exchange is not getattr(receive, "__self__", None) or not hasattr(exchange, "take_body"):
        return None
    found: DirectExchange | None = exchange
    return found


CANCELS = "trio_mcp.cancels"
"""The extension that says so: an app whose client has left is cancelled, and need not watch."""

CONNECTION = "trio_mcp.connection"
"""The extension with what an app keeps for as long as the connection lasts: any dictionary."""

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
        "extensions": {CANCELS: {}, CONNECTION: {}},
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
