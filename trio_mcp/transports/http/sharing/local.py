"""Sharing of a server that has no other instances: all is in the memory of this process."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Final, NoReturn

import trio

from trio_mcp.server.states import LocalStates, StateRecord
from trio_mcp.transports.http.events import EventStore
from trio_mcp.transports.http.request import no_session, no_stream
from trio_mcp.transports.http.sharing.interface import SessionReplica, SessionSharing, Take
from trio_mcp.wire.bucket import TokenBuckets
from trio_mcp.wire.jsonrpc import Id

if TYPE_CHECKING:  # few servers check tokens
    from trio_mcp.auth.server.authenticator import Shared
    from trio_mcp.auth.server.resource import ResourceServer


class _LocalRecord:
    """Keeps no event for other instances: the session itself keeps them (a `StreamRecord`)."""

    def begin(self, events: EventStore, last: int, finished: bool) -> None: ...
    def add(self, line: bytes) -> None: ...
    def finish(self) -> None: ...


class _LocalSession:
    """Joins a session to no others: all messages and all streams are here (a `SessionSharing`)."""

    prefix = ""

    def start(self, nursery: trio.Nursery, replica: SessionReplica) -> None: ...
    async def begin(self) -> None: ...
    async def end(self) -> None: ...
    def note_use(self) -> None: ...
    async def settle(self) -> None: ...
    async def wait_for_room(self) -> None: ...
    async def written(self) -> None: ...

    async def forward(self, message: object) -> bool:
        return False

    def resume(self, stream: str, after: int) -> NoReturn:
        raise no_stream()

    def record(self, stream: str, request: Id | None) -> _LocalRecord:
        return _RECORD


_RECORD: Final = _LocalRecord()
_SESSION: Final = _LocalSession()


class LocalSharing:
    """Shares nothing (a `Sharing`)."""

    outlasts_instance = False

    def __init__(self) -> None:
        self.states: StateRecord = LocalStates()

    async def start(self, nursery: trio.Nursery) -> None: ...

    def buckets(self, name: str, rate: float, burst: int, max_clients: int) -> TokenBuckets:
        return TokenBuckets(rate, burst, max_clients)

    def token_records(self, auth: ResourceServer) -> Shared:
        from trio_mcp.auth.server.authenticator import Shared

        return Shared()

    def session(self, id: str) -> SessionSharing:
        return _SESSION

    async def find(self, id: str, principal: str | None) -> NoReturn:
        raise no_session()

    def taking_posts(
        self, id: str, principal: str | None, take: Take
    ) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def poster(self, id: str, principal: str | None) -> NoReturn:
        raise LookupError(id)
