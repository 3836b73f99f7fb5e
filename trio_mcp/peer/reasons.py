"""Why a peer has cancelled a request: passed on to another peer that works on its behalf.

A request runs in a cancel scope, and the `Cancelled` that ends a task carries the reason that the
scope was cancelled for. Only what a peer has said goes to another one: reasons of Trio's, and of
programs, are not for others.
"""

from __future__ import annotations

from typing import Final

from trio_mcp.wire.jsonrpc import Json

_LONGEST: Final = 1000


class PeerReason(str):
    """A reason that a peer has given."""

    __slots__ = ()


def peer_reason(reason: Json) -> PeerReason | None:
    """Make the reason of what a peer has sent; `None` if it is no text."""
    return PeerReason(reason[:_LONGEST]) if isinstance(reason, str) and reason else None


def reason_of(cancelled: BaseException) -> PeerReason | None:
    """Return the reason that a peer has given for the cancellation of a task, if it has."""
    reason = getattr(cancelled, "reason", None)
    return reason if isinstance(reason, PeerReason) else None
