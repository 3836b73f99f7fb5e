"""A request of ours that travels in a POST of its own."""

from __future__ import annotations

from collections.abc import Mapping

import trio
from attrs import define, field

from trio_mcp.client.http.streams import Session
from trio_mcp.peer.outbound import OutgoingRequest

Headers = Mapping[str, str | bytes]


@define(eq=False, kw_only=True)
class PendingRequest(OutgoingRequest):
    """A request of ours, with the cancel scope of its POST."""

    modern: bool
    headers: Headers
    session: Session | None
    """What it belongs to, in legacy revisions; for `initialize`, what it has begun."""
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    """Cancelled once there is nothing more to wait for."""
    sent: bool = False
    delivered: bool = False
    """Whether the server has taken it."""
    reads_on: bool = False
    """Whether it ends with its stream, and not with its response."""

    def wake(self) -> None:
        if not self.reads_on:
            self.scope.cancel()
