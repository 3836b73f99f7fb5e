"""Whose request it is, where proxies stand before the server.

Each proxy adds the address that it was asked from to the end of `X-Forwarded-For`. What stands
there before the first entry of a proxy that is not ours, any client may have written.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from trio_mcp.wire.shares import network_of, parsed

UNIX: Final = "unix"
"""Stands for a peer on a Unix socket, which has no address."""

_LONGEST_KEPT: Final = 200
"""Characters of a header that may be kept: anyone may send others, again and again."""


class Proxies:
    """The proxies that are trusted.

    Args:
        trusted: Their addresses or networks; `unix` for clients that connect through a Unix socket.

    Raises:
        ValueError: One of these is neither.
    """

    def __init__(self, trusted: Iterable[str]) -> None:
        entries = list(trusted)
        self._unix = UNIX in entries
        self._networks = [_network(entry) for entry in entries if entry != UNIX]
        self._kept = lru_cache(maxsize=1024)(self._network_of)

    def client_of(self, peer: str | None, forwarded: str | None) -> str:
        """Say who asks: the last address in the chain that is not a trusted proxy's."""
        client = UNIX if peer is None else peer
        for entry in reversed([] if forwarded is None else forwarded.split(",")):
            if not self._trusts(client):
                break
            address = parsed(entry.strip())
            if address is None:
                break  # a trusted proxy, but who was before it remains unknown
            client = str(address)
        return client

    def network_of(self, peer: str | None, forwarded: str | None) -> str:
        """Say whom a request is counted for, as `client_of` says who asks."""
        is_short = forwarded is None or len(forwarded) <= _LONGEST_KEPT
        return self._kept(peer, forwarded) if is_short else self._network_of(peer, forwarded)

    def _network_of(self, peer: str | None, forwarded: str | None) -> str:
        """Who asks, or the IPv6 network of who asks: who has one address has all 2**64 of it."""
        return network_of(self.client_of(peer, forwarded))

    def _trusts(self, client: str) -> bool:
        if client == UNIX:
            return self._unix
        address = parsed(client)
        return address is not None and any(address in network for network in self._networks)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        what = f"{text!r} is neither an address, nor a network such as 10.0.0.0/8, nor 'unix'"
        raise ValueError(what) from None
