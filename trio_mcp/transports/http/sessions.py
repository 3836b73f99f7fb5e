"""The sessions of legacy clients: how many there are, whose they are, and how long they last."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from heapq import heapify, heappop, heappush
from math import inf
from typing import ClassVar, Final

import trio
from attrs import define, field, frozen

from trio_mcp.peer.runner import Runner
from trio_mcp.server.server import Server
from trio_mcp.transports.http.events import EventMemory, EventStore, MemoryEventStore
from trio_mcp.transports.http.request import HttpRequest, Refusal, no_session
from trio_mcp.transports.http.session import HttpSession
from trio_mcp.transports.http.session_options import SessionOptions
from trio_mcp.transports.http.shares import SessionSlots, Shares
from trio_mcp.transports.http.sharing.interface import SessionSharing, Sharing
from trio_mcp.wire.shares import one_that_goes

SESSION: Final = b"mcp-session-id"
_FEW: Final = 100
"""Sessions of which it does not matter how long it is remembered when they would have expired."""


@frozen(eq=False)
class _Lasting:
    """A session that is kept elsewhere."""

    owner: str
    end: Callable[[], None]
    busy: ClassVar = True


@define(eq=False, repr=False)
class Sessions:
    """The sessions of one server."""

    _server: Server
    options: SessionOptions
    _shares: Shares
    _runner: Runner
    _sharing: Sharing
    _joining: dict[str, trio.Event] = field(factory=dict, init=False)
    _sessions: OrderedDict[str, HttpSession] = field(factory=OrderedDict, init=False)
    _lasting: dict[_Lasting, None] = field(factory=dict, init=False)
    _memory: EventMemory = field(init=False)
    _nursery: trio.Nursery = field(init=False)
    _expiries: list[tuple[float, str]] = field(factory=list, init=False)
    """When sessions expire, and their ids, as a heap. Some have ended or were prolonged since."""
    _is_sooner: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    @_memory.default
    def _make_memory(self) -> EventMemory:
        return EventMemory(self.options.max_total_event_bytes)

    def __len__(self) -> int:
        return len(self._sessions) + len(self._lasting)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep sessions, and end those that are idle for too long; until cancelled."""
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._expire)
            try:
                task_status.started()
                while True:
                    await trio.sleep(self.options.session_idle / 10)
                    overdue = trio.current_time() - self.options.session_idle
                    for session in [*self._sessions.values()]:
                        if session.busy:
                            session.sharing.note_use()
                        elif session.last_used < overdue:
                            self.end(session)
            finally:  # while there may still be tasks: a session that hears of a change starts one
                self.end_all()

    def new(self, http: HttpRequest) -> HttpSession:
        """Begin a session for the sender of a request, or refuse it for want of room (503)."""
        id = secrets.token_urlsafe(32)
        return self._start(id, http, self._sharing.session(id))

    def _start(self, id: str, http: HttpRequest, sharing: SessionSharing) -> HttpSession:
        self._make_room(http.owner)
        store = self._store_for(http.owner)
        count = self._server.limits.max_concurrent_calls
        slots = SessionSlots(count, self._shares, http.owner)
        session = self._sessions[id] = HttpSession(
            self._server,
            self.options,
            http,
            store,
            slots,
            self._runner,
            id,
            sharing,
            self._nursery,
            on_end=partial(self._sessions.pop, id, None),  # it may be ended at another instance
        )
        if http.deadline < inf:
            self._note_expiry(session)
        return session

    def _note_expiry(self, session: HttpSession) -> None:
        heappush(self._expiries, (session.expires, session.id))
        if len(self._expiries) > 2 * len(self._sessions) + _FEW:
            self._expiries = [(each.expires, id) for id, each in self._sessions.items()]
            heapify(self._expiries)
        if self._expiries[0][1] == session.id:
            self._is_sooner.unpark_all()

    async def _expire(self) -> None:
        """End sessions when their owners have no token any more, until cancelled.

        A task for each of them would take more than the rest of what is kept of a token.
        """
        while True:
            with trio.move_on_at(self._expiries[0][0] if self._expiries else inf):
                await self._is_sooner.park()
            now = trio.current_time()
            while self._expiries and self._expiries[0][0] <= now:
                session = self._sessions.get(heappop(self._expiries)[1])
                if session is not None and session.expires <= now:
                    self.end(session)
                elif session is not None:  # another token has prolonged it
                    self._note_expiry(session)

    def _store_for(self, owner: str) -> EventStore:
        options = self.options
        if options.event_store is not None:
            return options.event_store()
        return MemoryEventStore(options.max_events, options.max_event_bytes, self._memory, owner)

    def _make_room(self, newcomer: str) -> None:
        """End a session if there is no room for another: an idle one, if there is any."""
        if len(self) < self.options.max_sessions:
            return
        # Those that were used last, or began last, are at the end.
        there: list[HttpSession | _Lasting] = [*self._sessions.values(), *self._lasting]
        found = one_that_goes(newcomer, there)
        if found is None:
            raise Refusal(
                503,
                "Too many sessions; try again later.",
                [(b"retry-after", b"10")],
                reason="sessions",
            )
        self.end(found)

    @contextmanager
    def lasting(self, owner: str, end: Callable[[], None]) -> Iterator[None]:
        """Count a session that is kept in the block, or refuse it for want of room (503)."""
        self._make_room(owner)
        session = _Lasting(owner, end)
        self._lasting[session] = None
        try:
            yield
        finally:
            self._lasting.pop(session, None)

    async def find(self, http: HttpRequest) -> HttpSession:
        """Return the session that a request names (else 400), if it is its own (else 404)."""
        id = http.header(SESSION)
        if id is None:
            raise Refusal(400, "The header Mcp-Session-Id is missing; send initialize first.")
        session = self._sessions.get(id) or await self._join(id, http)
        if session.ended or session.session.principal != http.principal:
            raise no_session()
        session.renew(http.deadline)
        self._sessions.move_to_end(id)
        session.last_used = session.now()
        session.sharing.note_use()
        return session

    async def _join(self, id: str, http: HttpRequest) -> HttpSession:
        while id in self._joining:  # several requests may be the first one to come here
            await self._joining[id].wait()
        if id in self._sessions:
            return self._sessions[id]
        self._joining[id] = trio.Event()
        try:
            return self._start(id, http, await self._sharing.find(id, http.principal))
        finally:
            self._joining.pop(id).set()

    async def delete(self, session: HttpSession) -> None:
        """End a session at all instances."""
        await session.sharing.end()
        self.end(session)

    def end(self, session: HttpSession | _Lasting) -> None:
        if isinstance(session, _Lasting):
            self._lasting.pop(session, None)
        session.end()

    def stop(self) -> None:
        for session in self._sessions.values():
            session.standalone.finish(None)

    def cancel_calls(self) -> None:
        for session in self._sessions.values():
            session.inbound.cancel_all()

    def end_all(self) -> None:
        for session in [*self._sessions.values()]:
            self.end(session)
