"""How many sessions legacy clients have over HTTP, and what is kept for those that come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import field, fields, frozen

from trio_mcp.checks import is_a, is_function
from trio_mcp.public import public
from trio_mcp.transports.http.events import EventStore
from trio_mcp.wire.bounds import COUNT, bound


@public
@frozen(kw_only=True)
class SessionOptions:
    """The sessions of legacy clients over HTTP, and their streams that can be resumed.

    Clients of revision 2026-07-28 have neither. With a `store`, sessions are shared by all
    instances; `max_sessions` and the bounds of events are each instance's own, and an owner has at
    most `max_sessions` in the store.

    Example:
        >>> SessionOptions(max_sessions=200, session_idle=600).max_events
        1000
    """

    stateless: bool = field(default=False, validator=is_a(bool))
    """Give legacy clients no sessions: each of their requests stands for itself."""

    answer_unknown: bool = field(default=False, validator=is_a(bool))
    """Answer a request of a session that is not known (any more) as if it stood for itself, where
    it needs nothing of a session, and not with 404. For hosts that do not begin a new one then.

    What begins a stream or changes the session (`resources/subscribe`, `logging/setLevel`), and
    answers to questions, get 404 all the same. Such clients cannot be asked anything, and hear of
    no change."""

    max_sessions: int = field(default=1000, validator=COUNT)
    """Sessions of legacy clients. A new one takes the place of one that is idle, but only of its
    own owner's, or of one who has more sessions: of those who have most, the one that was idle
    for longest. If none is idle, an owner who has most, and will not have fewer than the newcomer,
    loses a busy one. An owner is a principal, or without tokens an address."""

    session_idle: float = field(default=1800.0, validator=bound())
    """Seconds after which an unused session ends."""

    max_events: int = field(default=1000, validator=COUNT)
    """Events of one session that are kept for a client that comes back."""

    max_event_bytes: int = field(default=4 * 1024 * 1024, validator=COUNT)
    """Bytes that these may have together; a single event may have more."""

    max_total_event_bytes: int = field(default=256 * 1024 * 1024, validator=COUNT)
    """Bytes that the events of all sessions may have together, each with 1 KiB at least.

    Beyond them the owner who has most loses events: a principal, or without tokens an address.
    """

    event_store: Callable[[], EventStore] | None = field(default=None, validator=is_function)
    """Makes what keeps the events of a new session, in place of memory within these bounds.

    It keeps its own: then `max_events` bounds the streams of a session only.
    """

    retry: float = field(default=1.0, validator=bound(zero=True, finite=True))
    """Seconds that a client should wait before it comes back to a stream."""

    def __attrs_post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if self.max_event_bytes > self.max_total_event_bytes:
            raise ValueError("max_event_bytes is more than max_total_event_bytes")
        bounds = ("max_event_bytes", "max_total_event_bytes")
        if self.event_store is not None:
            self._refuse(bounds, "is not for an event_store, which has its own bounds")
        if self.stateless:
            of_sessions = ("answer_unknown", "max_sessions", "max_events", *bounds, "event_store")
            self._refuse(of_sessions, "is for sessions, of which stateless has none")

    def _refuse(self, names: Sequence[str], why: str) -> None:
        """Refuse what was set, and would be without effect."""
        for name in names:
            if getattr(self, name) != getattr(fields(SessionOptions), name).default:
                raise ValueError(f"{name} {why}")
