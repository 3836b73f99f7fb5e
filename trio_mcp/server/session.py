"""What a server knows of one client for as long as it is connected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

import trio
from attrs import define, field

from trio_mcp.registry.changes import Listener
from trio_mcp.server.caller import UNKNOWN_CALLER, Caller
from trio_mcp.telemetry import Telemetry, is_configured

if TYPE_CHECKING:  # no start waits for OAuth
    from trio_mcp.auth.authorization import Authorization


@define(eq=False, repr=False)
class Session:
    """A client: in legacy revisions, what `initialize` said of it."""

    connection_id: str | None = None
    """Tells it from all others; `None` where each request is one by itself."""
    address: str | None = None
    """Where it came from, over HTTP."""
    http_request_id: str | None = None
    """Tells the HTTP request from all others that is all there is of it; `None` otherwise."""
    network: Mapping[str, Any] = field(factory=dict)
    """What carries its messages, as OpenTelemetry's attributes."""
    stop: Callable[[], None] | None = None
    """Ends the connection; `None` where a client may not."""
    caller: Caller = UNKNOWN_CALLER
    principal: str | None = None
    """Who the client was proved to be; `None` where nothing was proved."""
    authorization: Authorization | None = None
    """What the token of the last request allows; `None` where no token is needed."""
    headers: Mapping[bytes, bytes] | None = field(default=None, repr=False)
    """Those of the HTTP request that is admitted; `None` on other transports."""
    log_level: str = "info"
    """What a legacy client wants to hear (`logging/setLevel`)."""
    subscriptions: int = 0
    """How many `subscriptions/listen` are open."""
    subscription_bytes: int = 0
    """Bytes of what they name."""
    handshake: trio.Event | None = None
    """Set when the `initialize` that is in its middleware has ended; `None` if there is none."""
    listener: Listener | None = None
    """The changes that a legacy client is notified of; `None` where it cannot be."""

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure how long it lasts, for the length of the block (`note_end`)."""
        began = perf_counter()
        try:
            yield
        finally:
            self.note_end(began)

    def note_end(self, began: float) -> None:
        """Note for how long it has lasted, by `perf_counter`, if the application wants that."""
        if is_configured():
            about = dict(self.network)
            if self.caller is not UNKNOWN_CALLER:  # modern requests name a revision each
                about["mcp.protocol.version"] = self.caller.revision.name
            Telemetry("server").session_ended(perf_counter() - began, about)

    @property
    def owner(self) -> str:
        """To whose share of what is bounded it counts: a principal, an address or a connection."""
        return self.principal or self.address or self.connection_id or ""
