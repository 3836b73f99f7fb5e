"""The bounds and time-outs of HTTP connections, in one value that is passed down.

What a request may bring and how long it may run is not among them: that holds on every transport,
so it has another owner, and `serve_asgi` takes it as arguments.
"""

from attrs import field, frozen

from trio_mcp.public import public
from trio_mcp.wire.bounds import AT_LEAST_ZERO, COUNT, COUNT_OR_ZERO, POSITIVE


@public
@frozen(kw_only=True)
class HttpLimits:
    """The bounds of an HTTP server's connections, in addition to `Limits`.

    Example:
        >>> HttpLimits(max_connections=100, idle_timeout=5.0).max_connections
        100
    """

    max_connections: int = field(default=1024, validator=COUNT)
    """Connections that are open at the same time. For a further one, one ends that is idle between
    two requests, or one of an address that has at least two more. If there is none, the new one
    waits until there is room, and one for eight that there may be is accepted to do so: beyond
    these, the one that has waited for longest ends. An IPv6 address is its network of 64 bits."""

    max_header_bytes: int = field(default=64 * 1024, validator=COUNT)
    """The longest head of a request: request line and headers, in bytes."""

    max_headers: int = field(default=128, validator=COUNT)
    """The most headers of a request."""

    max_pipelined_bytes: int = field(default=64 * 1024, validator=COUNT)
    """Bytes that are read ahead while a request runs, give or take one read of 64 KiB.

    Beyond them nothing is read until the request has ended, and a client's disconnect is only
    noticed when it is written to.
    """

    max_drain_bytes: int = field(default=64 * 1024, validator=COUNT_OR_ZERO)
    """The longest rest of a body, unread by the app, that is read to keep the connection."""

    header_timeout: float = field(default=10.0, validator=POSITIVE)
    """Seconds for a TLS handshake and the first head, or from the first byte of a later head."""

    body_timeout: float = field(default=30.0, validator=POSITIVE)
    """Seconds between two pieces of a body."""

    min_body_rate: float = field(default=1024.0, validator=POSITIVE)
    """Bytes per second that a body must have in the long run, apart from `body_timeout`."""

    idle_timeout: float = field(default=75.0, validator=POSITIVE)
    """Seconds that a connection is kept between two requests.

    A proxy before the server should give it up earlier; most do so after 60 s.
    """

    write_timeout: float = field(default=30.0, validator=POSITIVE)
    """Seconds that the client may take to accept 64 KiB of a response."""

    disconnect_grace: float = field(default=0.5, validator=AT_LEAST_ZERO)
    """Seconds that an app which has received `http.disconnect` has before it is cancelled."""

    linger_timeout: float = field(default=1.0, validator=AT_LEAST_ZERO)
    """Seconds for the last words on a connection, and for the client to take notice of them."""

    idle_grace: float = field(default=1.0, validator=AT_LEAST_ZERO)
    """Seconds that idle connections are kept once the server was asked to stop."""
