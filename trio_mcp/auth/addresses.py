"""How near an address is, and where a server may send us.

A server on the internet must not send us to what only we can reach: our own machine, our network.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

import trio

from trio_mcp.auth.urls import origin
from trio_mcp.errors import AuthorizationError

Address = IPv4Address | IPv6Address

_REACHABLE: Final[dict[str, frozenset[str]]] = {
    "public": frozenset({"public"}),
    "private": frozenset({"public", "private"}),
    "local": frozenset({"public", "private", "local"}),
}
"""Where a server may send us, by where it is itself."""

_NAT64: Final = ip_network("64:ff9b::/96")
_GLOBAL: Final = (ip_network("0.0.0.0/0"), ip_network("2000::/3"))
"""What may be public. All other IPv6 addresses are for some network's own use."""


def _reach(address: Address) -> str:
    address = _translated(address)
    if address.is_loopback or address.is_link_local or address.is_unspecified:
        return "local"
    may_be = address.is_global and not address.is_multicast
    return "public" if may_be and any(address in network for network in _GLOBAL) else "private"


def _translated(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 one contains for a gateway, if there is one."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


async def addresses_from(near: str, url: str, answered_from: str | None = None) -> list[Address]:
    """Resolve a URL to which the server at the URL `near` sends us.

    It `answered_from` an address, if that is known. Its name may resolve to another one the next
    time, which would make it as near to us as it likes.

    Raises:
        AuthorizationError: An address is nearer to us than the server is.
        OSError: A name is not known.
    """
    addresses = await _addresses(url)
    its_own = await _addresses(near)
    if answered_from is not None:
        its_own.append(ip_address(answered_from))
    kinds = set(map(_reach, its_own))
    farthest = next(kind for kind in _REACHABLE if kind in kinds)
    refused = [address for address in addresses if _reach(address) not in _REACHABLE[farthest]]
    if refused:
        why = f"{origin(url)} is on a {_reach(refused[0])} network, where {origin(near)}"
        raise AuthorizationError(f"{why} must not send us")
    return addresses


async def _addresses(url: str) -> list[Address]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        return [ip_address(host)]
    except ValueError:
        pass
    port = parts.port or (80 if parts.scheme == "http" else 443)
    found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    return [ip_address(str(address[0]).partition("%")[0]) for *_, address in found]
