"""Addresses of clients, and the networks that they count for."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

_NAT64: Final = IPv6Network("64:ff9b::/96")
"""Every IPv4 address, as a translator shows it (RFC 6052): these are not one party."""


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
