"""Who makes room where there are as many things as may be, and which addresses are one owner."""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final, Protocol, TypeVar


class Owned(Protocol):
    """One of the things that are bounded."""

    @property
    def owner(self) -> str: ...

    @property
    def busy(self) -> bool:
        """Whether something is lost if it ends."""


T = TypeVar("T", bound=Owned)


def one_that_goes(newcomer: str, things: Iterable[T], least: int = 0) -> T | None:
    """Choose what ends so that there is room for one more of an owner; `None` if nothing should.

    What is not busy goes first. A newcomer never has anything end of an owner who has no more than
    itself, nor what is busy of one who would then have less. Of several that may go, it is the
    first one of an owner who has most.

    Args:
        newcomer: The owner.
        things: What there is, the one first that was used, or began, first.
        least: So many may an owner have whatever the newcomer has.
    """
    there = list(things)
    counts = Counter(thing.owner for thing in there)
    own, most = max(counts[newcomer], least), max(counts.values(), default=0)
    found, found_count = None, 0
    for thing in there:
        count = counts[thing.owner]
        may_go = count > own or thing.owner == newcomer
        if may_go and count > found_count and not thing.busy:
            found, found_count = thing, count
            if count == most:
                break  # it is asked of few whether they are busy: there may be a flood
    if found is not None:
        return found
    lose_one = (thing for thing in there if counts[thing.owner] > own + 1)
    return max(lose_one, key=lambda thing: counts[thing.owner], default=None)


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
