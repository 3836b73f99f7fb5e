"""A session that several instances serve, as one of them sees it.

Each instance that a client of the session reaches has a half of its own, with the calls that came
there. What the halves have to know of each other is in the partition of the session:

| what | kind | for |
|---|---|---|
| `:about` | entry | what `initialize` said, log level, subscriptions; empty once it has ended |
| `:inbox` | log | cancellations and answers that reached another half than the one they are for |
| `:stream/<name>` | log | the events that a client may come back for; an empty one is the last |
| `:call/<name>` | entry | the request that such a stream answers |

Events are written after they were sent: if the instance dies in between, so does the call.

A store that has lost its data gets the session back from a half that is in use. What was ended does
not come back that way: its end is in the store for as long as a half may last that has not heard of
it.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

import trio

from trio_mcp.store.changes import (
    ABSENT,
    Append,
    Change,
    Conflict,
    Delete,
    Drop,
    Entry,
    News,
    Put,
    Touch,
)
from trio_mcp.store.errors import StoreError
from trio_mcp.store.exact import dumps, loads
from trio_mcp.transports.http.sharing.following import follow
from trio_mcp.transports.http.sharing.instance import Instance
from trio_mcp.wire.jsonrpc import Id, Json

logger = logging.getLogger("trio_mcp.http")

_INBOX: Final = 1000
"""Messages that are kept for halves that are slow."""

_BEHIND: Final = 1000
"""Events that may wait to be written before whoever speaks has to wait."""

_PAUSE: Final = 1.0
"""Seconds before the store is tried again."""

_ENDED: Final = b""
"""What is known of a session that was ended."""

_USED: Final = 10
"""Signs of use that are written in the time that a session may be idle."""


class Half(Protocol):
    """What it needs of the half of a session."""

    def cancelled_elsewhere(self, id: Id) -> None:
        """A client has cancelled a request, by way of another instance."""

    def answered_elsewhere(self, line: bytes) -> None:
        """A client has answered a request of ours, by way of another instance."""

    def changed_elsewhere(self, about: dict[str, Json]) -> None:
        """Another half has changed what all have to know."""

    def end(self) -> None:
        """The session was ended."""


class SharedSession:
    """What joins the half of a session to the others.

    Args:
        instance: This one.
        id: The session's id.
        max_events: Events of a stream that are kept.
        max_event_bytes: Bytes that these may have together.
    """

    def __init__(self, instance: Instance, id: str, max_events: int, max_event_bytes: int) -> None:
        self.instance: Final = instance
        self.store: Final = instance.store
        self.prefix: Final = f"{instance.name}."
        """What the names of streams, and the ids of our requests, begin with."""
        self._partition = f"session-{id}"
        self._about_key = f"{self._partition}:about"
        self._inbox = f"{self._partition}:inbox"
        self._bounds = {"most": max_events + 1, "most_bytes": max_event_bytes}
        self.about: dict[str, Any] = {}
        """What all halves have to know, as it was read or written last."""
        self._is_known = trio.Event()
        self._version = ABSENT
        self._used = -math.inf
        self._seen = -math.inf
        """When the session was still in the store, at the least."""
        self._unwritten: deque[tuple[str, tuple[Change, ...]]] = deque()
        self._unrecorded: set[str] = set()  # streams of which something could not be written
        self._moved = trio.lowlevel.ParkingLot()
        self._end_came_back = trio.Event()

    # -- its life -----------------------------------------------------------------------------

    async def begin(self, about: dict[str, Json]) -> None:
        """Let others know of a new session."""
        now = trio.current_time()
        put = Put(self._about_key, dumps(about), ttl=self.instance.keep, expect=ABSENT)
        (self._version,) = await self.store.commit(put)
        self.about = about
        self._used = self._seen = now
        self._is_known.set()

    async def find(self) -> dict[str, Json] | None:
        """Return what is known of a session; `None` if there is none."""
        entry = await self._look()
        return None if entry is None or entry.value == _ENDED else self.about

    async def _look(self) -> Entry | None:
        now = trio.current_time()
        entry = await self.store.get(self._about_key)
        if entry is not None and entry.value != _ENDED:
            self._version = entry.version
            self.about = loads(entry.value)
            self._seen = now
            self._is_known.set()
        return entry

    async def end(self) -> None:
        """End the session, for all; return when the others have most likely heard of it, too."""
        ended = Put(self._about_key, _ENDED, ttl=self.instance.keep)
        await self.store.commit(ended, *self._said({"end": True}))
        with trio.move_on_after(_PAUSE):  # the client may go to another half at once
            await self._end_came_back.wait()

    async def run(self, half: Half) -> None:
        """Hear from other halves, and write what waits to be written, until cancelled."""
        await self._is_known.wait()
        self.instance.touches.add(self.touch)
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._write, half)
                await self._hear(half)
        finally:
            self.instance.touches.discard(self.touch)
            self._end_came_back.set()

    def note_use(self) -> None:
        """Have the session last, because it is used."""
        if trio.current_time() - self._used > self.instance.keep / _USED:
            self.touch()

    def touch(self) -> None:
        """Have the session last; if the store has lost it, it is written anew."""
        self._used = trio.current_time()
        self._put_off("", Touch(self._about_key, ttl=self.instance.keep))

    # -- from other halves --------------------------------------------------------------------

    async def _hear(self, half: Half) -> None:
        look = partial(self._look_again, half)
        take = partial(self._take, half)
        away = partial(logger.debug, "Nothing is heard of other halves of a session: %s")
        await follow(self.store, self._inbox, away, take=take, missed=look, idle=look)

    async def _take(self, half: Half, item: bytes) -> None:
        message: dict[str, Any] = loads(item)
        if message["from"] == self.instance.name:
            if "end" in message:  # whoever asked for it may not be there to see to this half
                self._end_came_back.set()
                half.end()
            return
        if "cancel" in message:
            half.cancelled_elsewhere(message["cancel"])
        elif "answer" in message:
            half.answered_elsewhere(message["answer"].encode())
        elif "end" in message:
            half.end()
        else:
            await self._look_again(half)

    async def _look_again(self, half: Half) -> None:
        """Read what is known of the session; if the store has lost it, write it anew."""
        while True:
            entry = await self._look()
            if self._is_over(entry):
                half.end()
                return
            if entry is not None:
                half.changed_elsewhere(self.about)
                return
            with suppress(Conflict):  # another half was quicker, or has ended it
                await self.begin(self.about)
                return

    def _is_over(self, entry: Entry | None) -> bool:
        """Whether the session was ended, or may have been when we could not hear of it."""
        if entry is None:  # nor is its end there any more, if there was one so long ago
            return trio.current_time() - self._seen >= self.instance.keep
        return entry.value == _ENDED

    # -- to other halves ----------------------------------------------------------------------

    def _said(self, message: dict[str, Json]) -> tuple[Append, News]:
        item = dumps({"from": self.instance.name, **message})
        append = Append(self._inbox, item, ttl=self.instance.keep, most=_INBOX)
        return append, News(self._inbox)

    async def forward(self, message: dict[str, Json]) -> None:
        """Tell the other halves something that is for one of them."""
        await self.store.commit(*self._said(message))

    async def change(self, **differences: Callable[[Any], Json]) -> None:
        """Change what all have to know: each difference makes a new value of the one before."""
        while True:
            about = {**self.about}
            for name, new in differences.items():
                about[name] = new(about.get(name))
            put = Put(self._about_key, dumps(about), ttl=self.instance.keep, expect=self._version)
            try:
                self._version, *_ = await self.store.commit(put, *self._said({"changed": True}))
            except Conflict:
                entry = await self._look()
                if self._is_over(entry):
                    return  # of which the half hears
                if entry is None:
                    self._version = ABSENT
                continue
            self.about = about
            return

    # -- events -------------------------------------------------------------------------------

    async def wait_for_room(self) -> None:
        """Wait while the store is too far behind."""
        while len(self._unwritten) > _BEHIND:
            await self._moved.park()

    async def written(self) -> None:
        """Wait until all events up to now are where other instances find them."""
        last = self._unwritten[-1] if self._unwritten else None
        while any(each is last for each in self._unwritten):
            await self._moved.park()

    def begin_stream(self, name: str, request: Id | None) -> None:
        """Have a stream kept from its first event on, for who comes back to another instance."""
        call = Put(self.call(name), dumps(request), ttl=self.instance.keep)
        self._put_off(name, call)

    def record(self, name: str, line: bytes) -> None:
        """Keep an event of a stream; an empty one is its end."""
        log = self.log(name)
        append = Append(log, line, ttl=self.instance.keep, **self._bounds)
        self._put_off(name, append, News(log))

    def _put_off(self, name: str, *changes: Change) -> None:
        self._unwritten.append((name, changes))
        self._moved.unpark_all()

    async def _write(self, half: Half) -> None:
        while True:
            while not self._unwritten:
                await self._moved.park()
            name, changes = self._unwritten[0]
            if name not in self._unrecorded:
                await self._write_one(half, name, changes)
            self._unwritten.popleft()
            self._moved.unpark_all()

    async def _write_one(self, half: Half, name: str, changes: tuple[Change, ...]) -> None:
        now = trio.current_time()
        try:
            try:
                await self.store.commit(*changes)
                if not name:
                    self._seen = now
            except Conflict:  # the store has lost the session
                await self._look_again(half)
        except StoreError as error:
            logger.warning("A stream of a session cannot be taken up elsewhere: %s", error)
            if name:  # with a gap, the numbers of its events would not be theirs
                self._unrecorded.add(name)
                self._nursery.start_soon(self._give_up, name)

    async def _give_up(self, name: str) -> None:
        """Once the store is back, let nobody wait elsewhere for the rest of a stream."""
        log = self.log(name)
        while True:
            try:
                await self.store.commit(Drop(log), Delete(self.call(name)), News(log))
                return
            except StoreError:
                await trio.sleep(_PAUSE)

    def log(self, name: str) -> str:
        """Where the events of a stream are, of this half's or another's."""
        return f"{self._partition}:stream/{name}"

    def call(self, name: str) -> str:
        """Where the request that a stream answers is."""
        return f"{self._partition}:call/{name}"
