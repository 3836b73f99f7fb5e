"""Every bound and every time-out, in one value that is passed down.

There are no module-level knobs: a server or a connection is given a `Limits`, and each layer reads
the fields that concern it.
"""

from typing import Final

from attrs import field, frozen

from trio_mcp.public import public
from trio_mcp.wire.bounds import AT_LEAST_ZERO, COUNT, COUNT_OR_ZERO, POSITIVE

SERVER_BOUNDS: Final = (
    "max_client_bytes",
    "max_worker_threads",
    "tool_timeout",
    "progress_rate",
    "max_subscriptions",
    "max_subscription_bytes",
    "max_state_bytes",
    "max_states",
    "state_idle",
    "startup_timeout",
    "lifespan_timeout",
)
"""The fields of `Limits` that have no meaning for a client."""


@public
@frozen(kw_only=True)
class Limits:
    """The bounds and time limits of a server or a client.

    Example:
        >>> Limits(tool_timeout=5.0, max_concurrent_calls=8).tool_timeout
        5.0
    """

    max_message_bytes: int = field(default=10 * 1024 * 1024, validator=COUNT)
    """The longest message that is read, in bytes: a line without its newline, the body of a
    request or a response, the data of an event."""

    max_message_values: int = field(default=3_000_000, validator=COUNT)
    """The most values in one message. An array, an object and a name count as five each, which is
    what they cost. A batch may have a third of that. A message with integers beyond 64 bits, which
    are read and written by slower means, may have no more bytes than that either."""

    max_batch: int = field(default=1000, validator=COUNT)
    """The most messages in one JSON-RPC batch."""

    max_client_bytes: int = field(default=64 * 1024, validator=COUNT)
    """Bytes of memory for what is kept of what a client says of itself, for a session or a
    subscription. A client with larger capabilities is refused; of a larger `clientInfo`, name,
    title and version are kept, or nothing if these are too long."""

    max_concurrent_calls: int = field(default=128, validator=COUNT)
    """Calls that run at the same time on one connection; further ones wait."""

    max_waiting_bytes: int = field(default=16 * 1024 * 1024, validator=COUNT_OR_ZERO)
    """Bytes of calls that wait on one connection before no more input is read from it.

    While a question to the other side is open, its answer may come after them. Then input is read
    on, and calls that would have to wait are refused (-32000). A call counts with the length of its
    message, but with 1 KiB at least.
    """

    max_outgoing_bytes: int = field(default=4 * 1024 * 1024, validator=COUNT)
    """Bytes that wait to be written before writers have to wait. A server reads no more then."""

    max_worker_threads: int = field(default=40, validator=COUNT)
    """Worker threads that run plain `def` tools at the same time, for one `serve…` call."""

    tool_timeout: float = field(default=60.0, validator=POSITIVE)
    """Seconds that a tool may run, unless its registry or the tool itself says otherwise."""

    question_timeout: float = field(default=300.0, validator=POSITIVE)
    """Seconds that a client may take for a question; the tool's own clock stops meanwhile.

    In `connect`, the seconds that the handler of such a question has.
    """

    progress_rate: float = field(default=20.0, validator=POSITIVE)
    """Progress notifications that one request sends per second, after the first few."""

    max_subscriptions: int = field(default=1000, validator=COUNT)
    """Open subscriptions of one connection, and resources in one of them."""

    max_subscription_bytes: int = field(default=256 * 1024, validator=COUNT)
    """Bytes of the URIs, and of what else is named, in all subscriptions of one connection or
    session. They are kept for as long as these last."""

    max_state_bytes: int = field(default=16 * 1024, validator=COUNT)
    """Bytes of what is kept from call to call for one session, one caller or one handle."""

    max_states: int = field(default=10_000, validator=COUNT)
    """States that are kept, of which one owner may have a tenth; for another one, the least
    recently used is removed."""

    state_idle: float = field(default=86_400.0, validator=POSITIVE)
    """Seconds for which a state is kept that no call uses, at least; at most a hundredth longer."""

    cancel_timeout: float = field(default=1.0, validator=AT_LEAST_ZERO)
    """Seconds that a cancelled call has to end before it is answered anyway."""

    eof_grace: float = field(default=0.5, validator=AT_LEAST_ZERO)
    """Seconds that running calls have to finish once the input has ended."""

    shutdown_grace: float = field(default=5.0, validator=AT_LEAST_ZERO)
    """Seconds that running calls have to finish once the server was asked to stop."""

    flush_timeout: float = field(default=2.0, validator=AT_LEAST_ZERO)
    """Seconds that the last responses have to be written before they are dropped."""

    startup_timeout: float = field(default=60.0, validator=POSITIVE)
    """Seconds that a registry's lifespan has to open before it is cancelled, and serving fails."""

    lifespan_timeout: float = field(default=5.0, validator=AT_LEAST_ZERO)
    """Seconds that a registry's lifespan has to close before it is cancelled."""
