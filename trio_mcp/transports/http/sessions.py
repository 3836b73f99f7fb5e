"""The sessions of legacy clients: how many there are, whose they are, and how long they last."""

from __future__ import annotations

import re
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final

import trio
from attrs import define, field, frozen

from trio_mcp.peer.inbound import Slots
from trio_mcp.peer.runner import Runner
from trio_mcp.server.server import Server
from trio_mcp.transports.http.events import EventMemory, EventStore, MemoryEventStore
from trio_mcp.transports.http.policy import HttpPolicy
from trio_mcp.transports.http.request import HttpRequest, Refusal
from trio_mcp.transports.http.session import HttpSession, no_session

if TYPE_CHECKING:  # few servers share a store
    from trio_mcp.transports.http.sharing.instance import Instance
    from trio_mcp.transports.http.sharing.session import SharedSession

SESSION: Final = b"mcp-session-id"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}")


@frozen(eq=False)
class _Lasting:
    """A session that somebody else keeps."""

    owner: str
    end: Callable[[], None]
    busy: ClassVar = True


@define(eq=False, repr=False)
class Sessions:
    """The sessions of one server.

    Args:
        server: What is served.
        policy: The bounds to keep.
        slots: Those for calls that all sessions share.
        runner: Runs the calls.
        instance: This instance, if others share the sessions; else `None`.
    """

    _server: Server
    _policy: HttpPolicy
    _slots: Slots
    _runner: Runner
    _instance: Instance | None
    _joining: dict[str, trio.Event] = field(factory=dict, init=False)
    _sessions: OrderedDict[str, HttpSession] = field(factory=OrderedDict, init=False)
    _lasting: dict[_Lasting, None] = field(factory=dict, init=False)
    _memory: EventMemory = field(init=False)
    _nursery: trio.Nursery = field(init=False)

    @_memory.default
    def _make_memory(self) -> EventMemory:
        return EventMemory(self._policy.max_total_event_bytes)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._sessions) + len(self._lasting)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep sessions, and end those that are idle for too long; until cancelled."""
        try:
            async with trio.open_nursery() as self._nursery:
                task_status.started()
                while True:
                    await trio.sleep(self._policy.session_idle / 10)
                    overdue = trio.current_time() - self._policy.session_idle
                    for session in [*self._sessions.values()]:
                        if session.busy:
                            session.note_use()
                        elif session.last_used < overdue:
                            self.end(session)
        finally:
            self.end_all()

    async def new(self, http: HttpRequest) -> HttpSession:
        """Begin a session for who sends a request.

        Raises:
            Refusal: There are as many as may be, and none can make room (503).
        """
        id = secrets.token_urlsafe(32)
        return await self._start(id, http, self._shared(id))

    def _shared(self, id: str) -> SharedSession | None:
        if self._instance is None:
            return None
        from trio_mcp.transports.http.sharing.session import SharedSession

        policy = self._policy
        return SharedSession(self._instance, id, policy.max_events, policy.max_event_bytes)

    async def _start(self, id: str, http: HttpRequest, shared: SharedSession | None) -> HttpSession:
        self._make_room(http.owner)
        store = self._store_for(http.owner)
        session = HttpSession(
            self._server, self._policy, http, store, self._slots, self._runner, id, shared
        )
        self._sessions[session.id] = session
        try:
            await self._nursery.start(self._keep, session)
        except BaseException:
            self._sessions.pop(session.id, None)
            raise
        return session

    async def _keep(
        self, session: HttpSession, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        await session.run(task_status)
        self.end(session)  # unless somebody has, its owner's tokens have expired

    def _store_for(self, owner: str) -> EventStore:
        policy = self._policy
        if policy.event_store is not None:
            return policy.event_store()
        return MemoryEventStore(policy.max_events, policy.max_event_bytes, self._memory, owner)

    def _make_room(self, newcomer: str) -> None:
        """End a session if there are as many as may be: an idle one, if there is any.

        Nobody pushes out the session of an owner who has no more of them than he has himself, and
        no busy one of an owner who would then have fewer.
        """
        if len(self) < self._policy.max_sessions:
            return
        # Those that were used last, or began last, are at the end.
        there: list[HttpSession | _Lasting] = [*self._sessions.values(), *self._lasting]
        counts = Counter(each.owner for each in there)
        most = counts[newcomer]

        def may_go(each: HttpSession | _Lasting) -> bool:
            count = counts[each.owner]
            return count > most + 1 if each.busy else each.owner == newcomer or count > most

        found = max(
            filter(may_go, there),
            key=lambda each: (not each.busy, counts[each.owner]),
            default=None,
        )
        if found is None:
            raise Refusal(503, "Too many sessions; try again later.", [(b"retry-after", b"10")])
        self.end(found)

    @contextmanager
    def lasting(self, owner: str, end: Callable[[], None]) -> Iterator[None]:
        """Count a session that lasts as long as the block, and is kept by whoever enters it.

        Args:
            owner: To whose share of all sessions it counts.
            end: Called when it has to make room for another.

        Raises:
            Refusal: There are as many as may be, and none can make room (503).
        """
        self._make_room(owner)
        session = _Lasting(owner, end)
        self._lasting[session] = None
        try:
            yield
        finally:
            self._lasting.pop(session, None)

    async def find(self, http: HttpRequest) -> HttpSession:
        """Return the session that a request names, if it is the client's own.

        Raises:
            Refusal: It names none (400), or there is no such session (404).
        """
        id = http.header(SESSION)
        if id is None:
            raise Refusal(400, "The header Mcp-Session-Id is missing; send initialize first.")
        session = self._sessions.get(id)
        if session is None and self._instance is not None and _ID.fullmatch(id):
            session = await self._join(id, http)
        if session is None or session.ended or session.principal != http.principal:
            raise no_session()
        session.renew(http.deadline)
        self._sessions.move_to_end(id)
        session.last_used = session.now()
        session.note_use()
        return session

    async def _join(self, id: str, http: HttpRequest) -> HttpSession | None:
        """Make a half of a session that was begun at another instance."""
        while id in self._joining:  # several requests may be the first one to come here
            await self._joining[id].wait()
        if id in self._sessions:
            return self._sessions[id]
        self._joining[id] = trio.Event()
        try:
            shared = self._shared(id)
            assert shared is not None
            about: Any = await shared.find()
            if about is None or about["principal"] != http.principal:
                return None
            session = await self._start(id, http, shared)
            session.changed_elsewhere(about)
            return session
        finally:
            self._joining.pop(id).set()

    async def delete(self, session: HttpSession) -> None:
        """End a session because its client wants that: at all instances."""
        if session.shared is not None:
            await session.shared.end()
        self.end(session)

    def end(self, session: HttpSession | _Lasting) -> None:
        """End a session."""
        if isinstance(session, HttpSession):
            self._sessions.pop(session.id, None)
        else:
            self._lasting.pop(session, None)
        session.end()

    def stop(self) -> None:
        """End the streams that belong to no request: the server stops."""
        for session in self._sessions.values():
            session.standalone.finish(None)

    def cancel_calls(self) -> None:
        """Cancel the calls of all sessions, and have them answered."""
        for session in self._sessions.values():
            session.inbound.cancel_all()

    def end_all(self) -> None:
        """End all sessions."""
        for session in [*self._sessions.values()]:
            self.end(session)
