"""Events of sessions, written to the store for clients that come back to another instance.

They are written in one task for each session, after they were sent: if the instance dies in
between, so does the call. What an instance keeps so of a session has the bounds that it has in
memory: beyond them, the oldest streams go.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from math import inf
from typing import Final

import trio
from attrs import define, field, frozen

from trio_mcp.background import Task
from trio_mcp.loggers import logger_of
from trio_mcp.store.changes import (
    Append,
    Change,
    Conflict,
    Delete,
    Drop,
    Entry,
    LogPage,
    News,
    Put,
    Touch,
)
from trio_mcp.store.errors import StoreError
from trio_mcp.store.exact import dumps, read
from trio_mcp.store.protocol import Store
from trio_mcp.store.watching import Watch
from trio_mcp.transports.http.events import EventStore
from trio_mcp.transports.http.request import Header, HttpRequest, no_stream
from trio_mcp.transports.http.session_options import SessionOptions
from trio_mcp.transports.http.sharing.instance import Instance
from trio_mcp.transports.http.sharing.interface import StreamRecord
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError
from trio_mcp.wire.jsonrpc import Id, error_line

logger = logger_of("trio_mcp.http")

_BEHIND: Final = 1000
"""Events that may wait to be written before the sender has to wait."""

_LEAST_BYTES: Final = 1024
"""What a short event takes, with all that is around it."""

AT_ONCE: Final = 40
"""Streams that are removed by one commit."""

_PAUSE: Final = 1.0


@define(eq=False)
class Recorder:
    """Writes what a session has to have written, one after the other."""

    _store: Store
    _partition: str
    keep: float
    """Seconds for which the store keeps it."""
    _options: SessionOptions
    seen: float = field(default=-inf, init=False)
    """When the session was still in the store, at the least."""
    _unwritten: deque[tuple[str, tuple[Change, ...]]] = field(factory=deque, init=False)
    _sizes: OrderedDict[str, int] = field(factory=OrderedDict, init=False)
    """Bytes that are kept of each stream, the oldest one first."""
    _open: set[str] = field(factory=set, init=False)
    """Streams that go on."""
    _unrecorded: set[str] = field(factory=set, init=False)
    """Those of which nothing more is written."""
    _moved: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _start_soon: Callable[[Task], None] | None = field(default=None, init=False)
    _lost: Task = field(init=False)
    _is_writing: bool = field(default=False, init=False)
    _given_up: dict[str, None] = field(factory=dict, init=False)
    """Streams that are to be removed from the store."""

    def log(self, name: str) -> str:
        return f"{self._partition}:stream/{name}"

    def call(self, name: str) -> str:
        return f"{self._partition}:call/{name}"

    async def wait_for_room(self) -> None:
        while len(self._unwritten) > _BEHIND:
            await self._moved.park()

    async def written(self) -> None:
        """Wait until all is written that is to be up to now, or until the session has ended."""
        last = self._unwritten[-1] if self._unwritten else None
        while self._start_soon is not None and any(item is last for item in self._unwritten):
            await self._moved.park()

    def touch(self, about: str, sign: Put) -> None:
        """Have the entry of the session last, and show that it is used."""
        self._put_off("", Touch(about, ttl=self.keep))
        self._put_off("", sign)

    def begin(self, name: str, request: Id | None) -> None:
        kept = dumps(request)
        self._open.add(name)
        self._count(name, len(kept))
        self._put_off(name, Put(self.call(name), kept, ttl=self.keep))

    def add(self, name: str, line: bytes) -> None:
        """Keep an event of a stream; an empty one is its end."""
        log, limit, max_bytes = (
            self.log(name),
            self._options.max_events,
            self._options.max_event_bytes,
        )
        self._count(name, len(line))
        append = Append(log, line, ttl=self.keep, limit=limit + 1, max_bytes=max_bytes)
        self._put_off(name, append, News(log))

    def drop(self, name: str) -> None:
        """Keep a stream no longer."""
        if self._sizes.pop(name, None) is not None:
            self._put_off(name)

    def _count(self, name: str, size: int) -> None:
        """Count bytes of a stream, and drop others that there is no room for any more."""
        sizes, most = self._sizes, self._options.max_event_bytes
        sizes[name] = min(sizes.get(name, 0) + max(size, _LEAST_BYTES), most)
        while sum(sizes.values()) > most and len(sizes) > 1:
            self.drop(next(other for other in sizes if other != name))

    def _put_off(self, name: str, *changes: Change) -> None:
        self._unwritten.append((name, changes))
        self._begin_writing()

    @contextmanager
    def writing(self, start_soon: Callable[[Task], None], lost: Task) -> Iterator[None]:
        """Write what there is, and what there will be during the block.

        Args:
            start_soon: Starts a task that ends with the session: while there is anything to write.
            lost: Called when the session cannot be kept, because the store does not have it.
        """
        self._start_soon, self._lost = start_soon, lost
        try:
            self._begin_writing()
            yield
        finally:
            self._start_soon = None
            del self._lost
            self._moved.unpark_all()

    def _begin_writing(self) -> None:
        if self._unwritten and not self._is_writing and self._start_soon is not None:
            self._is_writing = True
            self._start_soon(partial(self._write_all, self._start_soon, self._lost))

    async def _write_all(self, start_soon: Callable[[Task], None], lost: Task) -> None:
        try:
            while self._unwritten:
                name, changes = self._unwritten[0]
                if name not in self._unrecorded and not await self._write(name, changes, lost):
                    # With a gap, the numbers of its events would not be theirs.
                    if name in self._open:
                        self._unrecorded.add(name)
                    if not self._given_up:
                        start_soon(self._give_up)
                    self._given_up[name] = None
                if changes and isinstance(changes[0], Append) and not changes[0].item:  # the end
                    self._open.discard(name)
                    self._unrecorded.discard(name)
                self._unwritten.popleft()
                self._moved.unpark_all()
        finally:
            self._is_writing = False

    async def _write(self, name: str, changes: tuple[Change, ...], lost: Task) -> bool:
        """Write something. Returns whether the stream goes on, which is to be dropped without."""
        if not changes:
            return False
        now = trio.current_time()
        try:
            try:
                await self._store.commit(*changes)
                if isinstance(changes[0], Touch):
                    self.seen = now
            except Conflict:
                await lost()
        except StoreError as error:
            logger.warning("A stream of a session cannot be taken up elsewhere: %s", error)
            return not name
        return True

    async def _give_up(self) -> None:
        """Once the store is back, let no client wait elsewhere for the rest of a stream."""
        while self._given_up:
            names = list(islice(self._given_up, AT_ONCE))
            logs = [self.log(name) for name in names]
            calls = [Delete(self.call(name)) for name in names]
            try:
                await self._store.commit(*map(Drop, logs), *calls, *map(News, logs))
            except StoreError:
                await trio.sleep(_PAUSE)
            else:
                for name in names:
                    del self._given_up[name]


@define(eq=False)
class SharedRecord(StreamRecord):
    """Keeps the events of one stream, if it answers a request."""

    _recorder: Recorder
    _name: str
    _request: Id | None
    _is_begun: bool = field(default=False, init=False)

    def begin(self, events: EventStore, last: int, finished: bool) -> None:
        """Keep the events from now on.

        A client that was sent none yet has nothing to come back for.
        """
        kept = events.since(self._name, 0)
        if self._request is None or self._is_begun or len(kept) != last:
            return
        self._is_begun = True
        self._recorder.begin(self._name, self._request)
        self._request = None  # which may be long
        for _, line in kept:
            self.add(line)
        if finished:
            self.finish()

    def add(self, line: bytes) -> None:
        if self._is_begun:
            self._recorder.add(self._name, line)

    def finish(self) -> None:
        self.add(b"")

    def drop(self) -> None:
        self._recorder.drop(self._name)


_LOOK: Final = 5.0
"""Seconds without an event after which it is seen whether the other instance is still alive."""

_GONE: Final = McpError(INTERNAL_ERROR, "The server that ran this request is gone; try it again")


@frozen(eq=False)
class ElsewhereStream:
    """A stream of another instance."""

    name: str
    instance: Instance
    recorder: Recorder
    headers: Sequence[Header] = field(repr=False)
    primes: bool

    async def follow(self, http: HttpRequest, keep_alive: float, after: int) -> None:
        page, call = await self._look(after)
        if page.missed(after) or call is None:
            raise no_stream()
        async with self.instance.store.watch(self._log) as news:
            await http.start_stream(self.headers)
            if self.primes:
                await http.send_id(f"{self.name}-{after}")
            try:
                await self._pass_on(http, keep_alive, after, news)
            except StoreError as error:  # the client comes back for the rest
                logger.warning("%s", error)
            await http.end_stream()

    async def _pass_on(self, http: HttpRequest, keep_alive: float, after: int, news: Watch) -> None:
        quiet_since = trio.current_time()
        while trio.current_time() < http.deadline:
            page = await self.instance.store.read(self._log, after)
            if page.missed(after):
                return  # what came next is not kept any more
            for number, line in page.items:
                if not line:
                    return
                await http.send_event(line, id=f"{self.name}-{number}")
                after = number
            if page.items:
                continue
            with trio.move_on_at(min(trio.current_time() + _LOOK, http.deadline)) as quiet:
                await news.wait()
                quiet_since = trio.current_time()
            owner = self.name.partition(".")[0]
            if quiet.cancelled_caught and not await self.instance.lives(owner):
                await self._give_up(http, after)
                return
            if trio.current_time() - quiet_since > keep_alive:
                await http.send_comment()
                quiet_since = trio.current_time()

    @property
    def _log(self) -> str:
        return self.recorder.log(self.name)

    async def _look(self, after: int) -> tuple[LogPage, Entry | None]:
        page = await self.instance.store.read(self._log, after, limit=1)
        return page, await self.instance.store.get(self.recorder.call(self.name))

    async def _give_up(self, http: HttpRequest, after: int) -> None:
        """Answer in place of an instance that died, unless it had."""
        page, call = await self._look(after)
        id = None if call is None else read(call.value, "a call", lambda id: id)
        if id is not None and not page.items:
            await http.send_event(error_line(id, _GONE)[:-1], id=f"{self.name}-{after}")
