"""A session that several instances serve, as one of them sees it.

Each instance that a client of the session reaches has a replica of its own, with the calls that
came there. What the replicas have to know of each other is in the partition of the session:

| what | kind | for |
|---|---|---|
| `:about` | entry | what `initialize` said, log level, subscriptions; empty once it has ended |
| `:inbox` | log | cancellations and answers that reached another replica than theirs |
| `:stream/<name>` | log | the events that a client may come back for; an empty one is the last |
| `:call/<name>` | entry | the request that such a stream answers |

How many sessions an owner has is kept by `owner.py`.

A store that has lost its data gets the session back from a replica that is in use. What was ended
does not come back that way: its end is in the store for as long as a replica may last that has not
heard of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Final
from weakref import ref

import trio

from trio_mcp.background import Task
from trio_mcp.loggers import logger_of
from trio_mcp.peer.cancellation import cancellation, read_cancellation
from trio_mcp.registry.changes import ListChanged, Listener, ResourceUpdated
from trio_mcp.server.caller import Caller
from trio_mcp.store.changes import (
    ABSENT,
    Append,
    Conflict,
    Delete,
    Drop,
    Entry,
    News,
    Put,
    key_part,
)
from trio_mcp.store.exact import dumps, read
from trio_mcp.store.quota import Quota
from trio_mcp.transports.http.request import no_stream
from trio_mcp.transports.http.session_options import SessionOptions
from trio_mcp.transports.http.sharing.changes import SharedChange, SharedChanges
from trio_mcp.transports.http.sharing.following import follow
from trio_mcp.transports.http.sharing.instance import Instance
from trio_mcp.transports.http.sharing.interface import (
    STANDALONE,
    EventStream,
    SessionReplica,
    SessionSharing,
)
from trio_mcp.transports.http.sharing.recording import (
    AT_ONCE,
    ElsewhereStream,
    Recorder,
    SharedRecord,
)
from trio_mcp.wire.jsonrpc import Id, Json, Notification, Response, decode, error_line, result_line
from trio_mcp.wire.revisions import LEGACY

logger = logger_of("trio_mcp.http")

_ELSEWHERE: Final = re.compile(r"[0-9a-f]{12}\.[0-9]{1,18}")
"""What another instance calls its streams and its requests to the client."""

_INBOX: Final = 1000
_INBOX_BYTES: Final = 16 * 1024 * 1024

_PAUSE: Final = 1.0
"""Seconds in which others are expected to have heard of an end."""

_ENDED: Final = b""

_USED: Final = 10
"""Signs of use that are written in the time that a session may be idle."""


class SharedSession(SessionSharing):
    """What joins this instance's replica of a session to the others."""

    _replica_ref: ref[SessionReplica]
    """Weak, or both would be a cycle. Whatever calls this has the replica."""

    def __init__(
        self, instance: Instance, id: str, options: SessionOptions, changes: SharedChanges
    ) -> None:
        self._instance = instance
        self._changes = changes
        self._options = options
        self._store = instance.store
        self.prefix = f"{instance.name}."
        partition = f"session-{id}"
        self._id = id
        self._partition = partition
        self._about_key = f"{partition}:about"
        self._inbox = f"{partition}:inbox"
        self._about: dict[str, Any] = {}  # what all have to know, as it was read or written last
        self._is_known = trio.Event()
        self._version = ABSENT
        self._used = -math.inf
        self._end_came_back = trio.Event()
        self._recorder = Recorder(self._store, partition, instance.keep, options)

    @property
    def _replica(self) -> SessionReplica:
        replica = self._replica_ref()
        assert replica is not None
        return replica

    # -- its life -----------------------------------------------------------------------------

    async def find(self, principal: str | None) -> bool:
        entry = await self._look()
        is_there = entry is not None and entry.value != _ENDED
        return is_there and self._about["principal"] == principal

    def start(self, start_soon: Callable[[Task], None], replica: SessionReplica) -> None:
        self._replica_ref = ref(replica)
        if self._about:  # it was begun elsewhere
            self._apply()
            for kind in self._listener.kinds:
                self._make_up(ListChanged(kind), self._about.get("begun", inf))
        start_soon(partial(self._run, start_soon))

    async def begin(self) -> None:
        await self._put(self._describe())
        for id in await self._owner.add(self._id):
            await self._owner.remove(id)
            surplus = SharedSession(self._instance, id, self._options, self._changes)
            await surplus.forget()

    async def _put(self, about: dict[str, Json]) -> None:
        now = trio.current_time()
        put = Put(self._about_key, dumps(about), ttl=self._instance.keep, expect=ABSENT)
        (self._version,) = await self._store.commit(put)
        self._about = about
        self._used = self._recorder.seen = now
        self._is_known.set()

    async def _look(self) -> Entry | None:
        while True:
            now, known = trio.current_time(), self._version
            entry = await self._store.get(self._about_key)
            if self._version == known:
                break  # otherwise this may have been read before what was written or read meanwhile
        if entry is not None and entry.value != _ENDED:
            self._version = entry.version
            self._about = read(entry.value, "a session", _about_of)
            self._recorder.seen = now
            self._is_known.set()
        return entry

    async def end(self) -> None:
        """End the session, for all; return when the others have most likely heard of it, too."""
        await self.forget()
        await self._owner.remove(self._id)
        with trio.move_on_after(_PAUSE):  # the client may go to another replica at once
            await self._end_came_back.wait()

    @property
    def _owner(self) -> Quota:
        owner, limit = self._about.get("owner", ""), self._options.max_sessions
        return Quota(self._store, "sessions", owner, limit, self._instance.keep)

    async def forget(self) -> None:
        """End the session, for all, and remove what is kept of it."""
        ended = Put(self._about_key, _ENDED, ttl=self._instance.keep)
        await self._store.commit(ended, *self._said({"end": True}))
        calls_of = partial(self._store.scan, f"{self._partition}:call", limit=AT_ONCE)
        while calls := (await calls_of()).entries:
            logs = [self._recorder.log(entry.key.rpartition("/")[2]) for entry in calls]
            gone = [Delete(entry.key) for entry in calls]
            await self._store.commit(*map(Drop, logs), *gone, *map(News, logs))

    async def _run(self, start_soon: Callable[[Task], None]) -> None:
        await self._is_known.wait()
        self._instance.touches.add(self._touch)
        try:
            with self._recorder.writing(start_soon, self._look_again):
                await self._hear()
        finally:
            self._instance.touches.discard(self._touch)
            self._end_came_back.set()

    def note_use(self) -> None:
        if trio.current_time() - self._used > self._instance.keep / _USED:
            self._touch()

    def _touch(self) -> None:
        """Have the session last; if the store has lost it, it is written again."""
        self._used = trio.current_time()
        self._recorder.touch(self._about_key, self._owner.sign(self._id))

    # -- from other replicas ------------------------------------------------------------------

    async def _hear(self) -> None:
        look = self._look_again
        away = partial(logger.debug, "Nothing is heard of other replicas of a session: %s")
        await follow(self._store, self._inbox, away, take=self._take, missed=look, idle=look)

    async def _take(self, item: bytes, position: int) -> None:
        message = read(item, "a message of another instance", _message_of)
        if message["from"] == self._instance.name:
            if "end" in message:  # the request for it may be over, and see to nothing any more
                self._end_came_back.set()
                self._replica.end()
            return
        if "cancel" in message:
            self._cancel(message["cancel"])
        elif "answer" in message:
            self._answer(message["answer"].encode())
        elif "end" in message:
            self._replica.end()
        else:
            await self._look_again()

    def _cancel(self, id: Id) -> None:
        inbound = self._replica.inbound
        if id in inbound:
            inbound.note(cancellation(id))

    def _answer(self, line: bytes) -> None:
        message = decode(line)
        if isinstance(message, Response):
            self._replica.inbound.note(message)

    async def _look_again(self) -> None:
        """Read what is known of the session; if the store has lost it, write it again."""
        while True:
            entry = await self._look()
            if self._is_over(entry):
                self._replica.end()
                return
            if entry is not None:
                self._apply()
                return
            with suppress(Conflict):  # another replica was quicker, or has ended it
                await self._put(self._about)
                return

    def _is_over(self, entry: Entry | None) -> bool:
        """Whether the session was ended, or may have been when we could not hear of it."""
        if entry is None:  # nor is its end there any more, if there was one so long ago
            return trio.current_time() - self._recorder.seen >= self._instance.keep
        return entry.value == _ENDED

    # -- to other replicas --------------------------------------------------------------------

    def _said(self, message: dict[str, Json]) -> tuple[Append, News]:
        item = dumps({"from": self._instance.name, **message})
        append = Append(
            self._inbox, item, ttl=self._instance.keep, limit=_INBOX, max_bytes=_INBOX_BYTES
        )
        return append, News(self._inbox)

    async def forward(self, message: object) -> bool:
        if isinstance(message, Response):
            told = self._answer_for_others(message)
        else:
            told = self._cancellation_for_others(message)
        if told is None:
            return False
        await self._store.commit(*self._said(told))
        return True

    def _cancellation_for_others(self, message: object) -> dict[str, Json] | None:
        params = read_cancellation(message) if isinstance(message, Notification) else None
        if params is None or params.request_id in self._replica.inbound:
            return None
        return {"cancel": params.request_id}

    def _answer_for_others(self, answer: Response) -> dict[str, Json] | None:
        id, error = answer.id, answer.error
        if (
            not isinstance(id, str)
            or not _ELSEWHERE.fullmatch(id)
            or self._replica.requests.get(id)
        ):
            return None
        line = result_line(id, answer.result) if error is None else error_line(id, error)
        return {"answer": line.decode()}

    async def settle(self) -> None:
        here, known = self._listener.uris.keys(), set(self._about["uris"])
        level = self._replica.session.log_level
        # Seen before anything is awaited, in which another replica may change the same.
        new, gone = here - known, known - here
        since = dict.fromkeys(new, self._changes.position)
        await self._change(
            logLevel=lambda _: level,
            uris=lambda uris: sorted((set(uris) | new) - gone),
            since=lambda known: {u: known[u] for u in known or {} if u not in gone} | since,
        )
        self._apply()

    async def _change(self, **differences: Callable[[Any], Json]) -> None:
        """Change what all have to know: each difference makes a new value of the one before."""
        while True:
            about = {**self._about}
            for name, new in differences.items():
                about[name] = new(about.get(name))
            put = Put(self._about_key, dumps(about), ttl=self._instance.keep, expect=self._version)
            try:
                self._version, *_ = await self._store.commit(put, *self._said({"changed": True}))
            except Conflict:
                entry = await self._look()
                if self._is_over(entry):
                    return  # of which the replica hears
                if entry is None:
                    self._version = ABSENT
                continue
            self._about = about
            return

    # -- what all know ------------------------------------------------------------------------

    @property
    def _listener(self) -> Listener:
        listener = self._replica.session.listener
        assert listener is not None  # for as long as the session runs
        return listener

    def _describe(self) -> dict[str, Json]:
        session = self._replica.session
        return {
            "revision": session.caller.revision.name,
            "capabilities": session.caller.capabilities,
            "clientInfo": session.caller.client_info,
            "principal": session.principal,
            "logLevel": session.log_level,
            "kinds": sorted(self._listener.kinds),
            "uris": [],
            "since": {},
            "begun": self._changes.position,
            "owner": key_part(session.owner),
        }

    def _apply(self) -> None:
        about, session, listener = self._about, self._replica.session, self._listener
        session.caller = Caller(
            LEGACY[about["revision"]], about["capabilities"], about["clientInfo"]
        )
        session.log_level = about["logLevel"]
        listener.kinds = set(about["kinds"])
        for uri in set(about["uris"]) - listener.uris.keys():
            listener.watch(uri)
            self._make_up(ResourceUpdated(uri), about.get("since", {}).get(uri, inf))
        for uri in listener.uris.keys() - set(about["uris"]):
            listener.unwatch(uri)

    def _make_up(self, change: SharedChange, position: float) -> None:
        """Tell of what changed before this instance knew that the session wants to hear of it."""
        if self._changes.has_happened_since(change, position):
            self._listener.note(change)

    # -- streams ------------------------------------------------------------------------------

    def record(self, stream: str, request: Id | None) -> SharedRecord:
        return SharedRecord(self._recorder, stream, request)

    async def wait_for_room(self) -> None:
        await self._recorder.wait_for_room()

    async def written(self) -> None:
        await self._recorder.written()

    def resume(self, stream: str, after: int) -> tuple[EventStream, int]:
        if not _ELSEWHERE.fullmatch(stream):
            raise no_stream()
        replica = self._replica
        if stream.endswith(f".{STANDALONE}"):  # it goes on here; what was missed may be anything
            self._tell_again()
            return replica.standalone, replica.standalone.sent
        elsewhere = ElsewhereStream(
            stream, self._instance, self._recorder, replica.headers, replica.primes
        )
        return elsewhere, after

    def _tell_again(self) -> None:
        for kind in self._listener.kinds:
            self._listener.note(ListChanged(kind))
        for uri in self._listener.uris:
            self._listener.note(ResourceUpdated(uri))


def _about_of(about: dict[str, Any]) -> dict[str, Any]:
    """Return what all have to know of a session, if it is that."""
    return {**about, "revision": LEGACY[about["revision"]].name, "uris": [*about["uris"]]}


def _message_of(message: dict[str, Any]) -> dict[str, Any]:
    """Return what another replica says, if it can be understood."""
    kinds = {"from": str, "answer": str, "cancel": str | int | float}
    if not all(isinstance(message[name], kinds[name]) for name in {"from", *message} & {*kinds}):
        raise TypeError("it is of another kind")
    return message
