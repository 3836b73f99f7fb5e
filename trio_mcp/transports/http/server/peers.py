"""Who is at the two ends of a connection."""

import socket
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

import trio

from trio_mcp.transports.http.server.asgi import Scope

CANCELS = "trio_mcp.cancels"
"""The extension that says so: an app whose client has left is cancelled, and need not watch."""

_NAT64: Final = IPv6Network("64:ff9b::/96")
"""Every IPv4 address, as a translator shows it (RFC 6052): these are not one party."""

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


def parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


@lru_cache(maxsize=1024)
def network_of(client: str) -> str:
    """Return whom a client counts for: who has one IPv6 address has all 2**64 of its network."""
    address = parsed(client)
    if address is None or address.version == 4 or address in _NAT64:
        return str(address or client)
    return str(IPv6Network((int(address) >> 64 << 64, 64)))
