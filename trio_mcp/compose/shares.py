"""Whose share of what is bounded: where there is no room, the owner who has the most makes some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from trio_mcp.registry import Context


def owner_of(context: Context) -> str:
    """Return to whose share a call counts: a principal's, or else an address's or connection's."""
    return context.principal or context.client_address or context.connection_id or ""


def who_makes_room(newcomer: Hashable, owners: Iterable[Hashable]) -> Hashable:
    """Return whose thing has to go before an owner can have another one.

    Args:
        newcomer: Who wants one more.
        owners: Of each thing that there is, whose it is.

    Returns:
        Who has the most, if that are more than the newcomer would have; or else the newcomer.
    """
    counts = Counter(owners)
    for largest, count in counts.most_common(1):
        if count > counts[newcomer] + 1:
            return largest
    return newcomer
