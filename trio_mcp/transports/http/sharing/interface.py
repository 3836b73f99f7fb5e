"""What HTTP needs of whatever instances share: one interface, chosen once when serving begins.

As they stand here, the classes share nothing, at no cost, for a server without others; `shared.py`
derives those of instances with a common store. What uses them does not know which it has. Their
async methods raise `StoreError` where the store cannot be used.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

import trio

from trio_mcp.auth.authorization import Authorization
from trio_mcp.background import Task
from trio_mcp.peer.inbound import Inbound
from trio_mcp.peer.requests import OpenRequests
from trio_mcp.registry.states import UsedStates
from trio_mcp.server.session import Session
from trio_mcp.store.protocol import Store
from trio_mcp.transports.http.events import EventStore
from trio_mcp.transports.http.request import Header, HttpRequest, no_session, no_stream
from trio_mcp.wire.bucket import TokenBuckets
from trio_mcp.wire.jsonrpc import Id

if TYPE_CHECKING:  # few servers check tokens
    from trio_mcp.auth.server.authenticator import Shared
    from trio_mcp.auth.server.resource import ResourceServer
    from trio_mcp.store.rates import SharedBuckets

STANDALONE: Final = "0"
"""How the name of a session's stream ends that belongs to no request."""

Take = Callable[[bytes, Authorization | None], Awaitable[bool]]
"""Has a message received, with what its token allows. Returns whether it was: not at the end."""


class EventStream(Protocol):
    """A stream of events that a client may read from where it left off."""

    async def follow(self, http: HttpRequest, keep_alive: float, after: int) -> None:
        """Send the events that come after a number, as they come, until there are no more."""


class StandaloneStream(EventStream, Protocol):
    """The stream of a session that belongs to no request."""

    sent: int


class SessionReplica(Protocol):
    """What this instance has of a session, as far as the sharing of it needs to know."""

    @property
    def session(self) -> Session: ...

    @property
    def inbound(self) -> Inbound: ...

    @property
    def requests(self) -> OpenRequests: ...

    @property
    def standalone(self) -> StandaloneStream: ...

    @property
    def headers(self) -> Sequence[Header]: ...

    @property
    def primes(self) -> bool: ...

    def end(self) -> None: ...


class StreamRecord:
    """Where the events of one stream are kept for clients that come back to another instance."""

    def begin(self, events: EventStore, last: int, finished: bool) -> None:
        """Keep the events from the first one on, if none was sent yet."""

    def add(self, line: bytes) -> None: ...

    def finish(self) -> None: ...

    def drop(self) -> None:
        """Keep the stream no longer."""


_NO_RECORD: Final = StreamRecord()


class SessionSharing:
    """What joins this instance's replica of a session to those of other instances."""

    prefix = ""
    """What the names of streams, and the ids of our requests, begin with."""

    def start(self, start_soon: Callable[[Task], None], replica: SessionReplica) -> None:
        """Keep the replica like the others, in tasks that are cancelled at its end."""

    async def begin(self) -> None:
        """Let other instances know of a new session, once its handshake is done."""

    async def end(self) -> None:
        """End the session at the other instances."""

    def note_use(self) -> None:
        """Have the session last, because it is used."""

    async def forward(self, message: object) -> bool:
        """Pass on a cancellation or an answer for another replica; returns whether it was one."""
        return False

    async def settle(self) -> None:
        """Let the other replicas know of the log level and of the subscriptions."""

    def resume(self, stream: str, after: int) -> tuple[EventStream, int]:
        """Find a stream that is not here (else 400), and the number of the event to go on after."""
        raise no_stream()

    def record(self, stream: str, request: Id | None) -> StreamRecord:
        """Return what keeps the events of a stream."""
        return _NO_RECORD

    async def wait_for_room(self) -> None:
        """Wait while too many events are to be kept still."""

    async def written(self) -> None:
        """Wait until all events up to now can be read at other instances."""


_ALONE: Final = SessionSharing()


class Sharing:
    """What one instance of a server shares with others."""

    outlasts_instance = False
    """Whether a session goes on when the instance where it began stops."""

    states: UsedStates | None = None
    """The sealed states that were used; `None` for those of this process."""

    @cached_property
    def store(self) -> Store:
        """What keeps other things that all instances need: made in memory when it is needed."""
        from trio_mcp.store.memory import MemoryStore

        return MemoryStore()

    @asynccontextmanager
    async def opening(self) -> AsyncIterator[None]:
        """Share with the lifespans that are opened in the block."""
        yield

    async def start(self, nursery: trio.Nursery) -> None:
        """Join the other instances, until the nursery is cancelled."""

    def buckets(
        self, name: str, rate: float, burst: int, max_clients: int
    ) -> TokenBuckets | SharedBuckets:
        return TokenBuckets(rate, burst, max_clients)

    def token_records(self, auth: ResourceServer) -> Shared:
        """Return what is remembered of proofs and tokens, for one protected server."""
        from trio_mcp.auth.server.authenticator import Shared

        return Shared()

    def session(self, id: str) -> SessionSharing:
        return _ALONE

    async def find(self, id: str, principal: str | None) -> SessionSharing:
        """Return what shares a session that a client began at another instance.

        Raises:
            Refusal: There is no such session of that principal (404).
        """
        raise no_session()

    def taking_posts(
        self, id: str, principal: str | None, take: Take
    ) -> AbstractAsyncContextManager[None]:
        """Take what is posted at other instances for a stream of HTTP+SSE, during the block."""
        return nullcontext()

    def poster(self, id: str, principal: str | None) -> Take:
        """Return what has a message taken by the instance that holds a stream of HTTP+SSE.

        Raises:
            LookupError: No other instance can hold one of that id.
        """
        raise LookupError(id)
