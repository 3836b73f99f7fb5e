"""Cancellations that travel: which request a peer withdraws, and why.

A request runs in a cancel scope, and the `Cancelled` that ends a task carries the reason that the
scope was cancelled for. Only what a peer has said goes to another one: reasons of Trio's, and of
programs, are not for others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trio_mcp.loggers import logger_of
from trio_mcp.wire.conversion import Misfit, from_wire, to_wire
from trio_mcp.wire.jsonrpc import Id, Json, Notification, is_id

if TYPE_CHECKING:
    from trio_mcp.wire.notifications import CancelledParams

logger = logger_of("trio_mcp")

CANCELLED: Final = "notifications/cancelled"
_LONGEST: Final = 1000


def cancellation(id: Id, reason: str | None = None) -> Notification:
    """Make the notification that withdraws a request."""
    from trio_mcp.wire.notifications import CancelledParams

    return Notification(CANCELLED, to_wire(CancelledParams(id, reason=reason)))


def read_cancellation(notification: Notification) -> CancelledParams | None:
    """Return what a cancellation says; `None` for one of no request, and for what is none."""
    from trio_mcp.wire.notifications import CancelledParams

    if notification.method != CANCELLED:
        return None
    try:
        params = from_wire(notification.params, CancelledParams)
    except Misfit as error:
        logger.debug("A cancellation of the peer is not MCP: %s", error)
        return None
    return params if is_id(params.request_id) else None


class PeerReason(str):
    """A reason that a peer has given."""

    __slots__ = ()


def peer_reason(reason: Json) -> PeerReason | None:
    """Make the reason of what a peer has sent; `None` if it is not text."""
    return PeerReason(reason[:_LONGEST]) if isinstance(reason, str) and reason else None


def reason_of(cancelled: BaseException) -> PeerReason | None:
    """Return the reason that a peer has given for the cancellation of a task, if it has."""
    reason = getattr(cancelled, "reason", None)
    return reason if isinstance(reason, PeerReason) else None
