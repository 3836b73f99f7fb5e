"""Tasks in a store: changes that belong together are one commit.

| entry | what |
|---|---|
| `task/ID` | the record; there for as long as the task's time to live |
| `call/ID` | the call, until the task has ended |
| `queue/ID` | a task that waits: how often it was begun; due unless a process has claimed it |
| `begun/ID` | the same of a task that runs; due when the lease of its process ends |
| `unfinished` | how many wait or run |
| `unfinished-OWNER` | how many of these are one owner's |
| `kept-TTL-N` | bytes of calls, answers and results of tasks that were made in one window |
| `kept-TTL-N-OWNER` | how many of these are one owner's |

The process that has claimed the entry in `queue` or `begun` runs the task. All that it writes
depends on the version that it got then, so one that was thought dead, and was replaced, can do no
harm. A process that must not yet take over what others have begun claims from `queue` alone.

A window is as long as tasks are kept. So what is kept at any time is of two windows, each of which
may have half of the bytes; and nothing has to be counted when a task expires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any, Final

import trio
from attrs import frozen

from trio_mcp.extending import offload
from trio_mcp.extensions.tasks.call import KeptCall
from trio_mcp.extensions.tasks.record import Record
from trio_mcp.store.changes import (
    ABSENT,
    Add,
    Change,
    Check,
    Conflict,
    Delete,
    Entry,
    News,
    Put,
    key_part,
)
from trio_mcp.store.protocol import Store

Move = Callable[[Record], Record]
Also = Callable[[Record, int], Iterable[Change]]


def as_it_is(record: Record) -> Record:
    """Leave a record as it is: the task has ended already."""
    return record


def owner_key(name: str) -> str:
    """Return what stands for an owner here; empty where there is but one."""
    return key_part(name)[:16] if name else ""


class NoTask(Exception):
    """There is no such task, or no longer."""


class NoRoom(Exception):
    """All tasks, or those of one owner, take up as much as they may."""


@frozen
class Bound:
    """How much there may be of something; `None` is any amount."""

    all: int | None = None
    one_owner: int | None = None

    @classmethod
    def shared(cls, amount: float, share: float) -> Bound:
        """Bound an amount, of which one owner may have a part."""
        return cls() if amount == inf else cls(int(amount), max(1, int(amount * share)))


_ENDLESS: Final = Bound()
_EACH: Final = 1536
"""Bytes that a task counts for besides: its entries and their indexes, as measured in memory."""


@frozen
class Claim:
    """The right to run a task."""

    key: str
    """The entry in `queue` or `begun`."""
    version: int
    """What that entry has to have still."""
    runs: int
    """How often it was begun, this time included."""
    size: int = 0
    """Bytes of its call."""
    owner: str = ""
    """Whose share it takes up; empty where there is but one owner."""

    @classmethod
    def of(cls, entry: Entry) -> Claim:
        """Read an entry of `queue` or `begun`, or raise `ValueError`."""
        runs, size, owner, *_ = [*entry.value.decode().split(" "), "0", ""]
        return cls(entry.key, entry.version, int(runs), int(size), owner)

    @property
    def id(self) -> str:
        """The task."""
        return self.key.rpartition("/")[2]

    def with_version(self, version: int) -> Claim:
        """Return the claim whose entry was written with a version."""
        return Claim(self.key, version, self.runs, self.size, self.owner)

    def moved(self, key: str, runs: int) -> Claim:
        """Return the claim for another entry, or for another run."""
        return Claim(key, self.version, runs, self.size, self.owner)

    def value(self) -> bytes:
        """Write what `of` reads."""
        return f"{self.runs} {self.size} {self.owner}".encode()


_NO_CLAIM: Final = Claim("", ABSENT, 0)


@frozen
class Found:
    """A record as it was read or written. It can be moved on without being read again."""

    record: Record
    version: int
    size: int
    """Its bytes."""
    expires: float
    """By Trio's clock."""

    @property
    def ttl(self) -> float:
        """Seconds until it expires."""
        return self.expires - trio.current_time()


class KeptTasks:
    """The tasks of one server in a store, by its name.

    Args:
        store: The store.
        server: The name.
        unfinished: How many may be unfinished.
        kept_bytes: How many bytes of calls, answers and results may be kept of those of one window.
        on_status: Called with each status that a task gets here, and `created`.

    """

    def __init__(
        self,
        store: Store,
        server: str,
        unfinished: Bound = _ENDLESS,
        kept_bytes: Bound = _ENDLESS,
        on_status: Callable[[str], object] = lambda status: None,
    ) -> None:
        self.store: Final = store
        self._on_status = on_status
        self._unfinished = unfinished
        self._kept_bytes = kept_bytes
        self._partition: Final = f"tasks-{key_part(server)[:16]}"
        self.queue: Final = f"{self._partition}:queue"
        """The folder of tasks that wait, and the channel for news of them."""
        self.begun: Final = f"{self._partition}:begun"
        """The folder of tasks that run."""

    def key(self, kind: str, id: str) -> str:
        """Return the key of an entry; that of the kind `task` is also the channel for its news."""
        return f"{self._partition}:{kind}/{id}"

    async def create(
        self, record: Record, call: KeptCall, owner: str, *, lease: float | None
    ) -> tuple[Claim, Found]:
        """Write a new task, claimed for the seconds of a lease or left to any process that is free.

        If it is left, the claim is that of the entry as it waits.

        Args:
            record: Its record.
            call: Its call.
            owner: Whose share it takes up (`owner_key`).
            lease: The seconds; `None` to leave it.

        Raises:
            NoRoom: It would take up more than it may.
            StoreError: It may not have been written.
        """
        kept, written = await call.written(), record.encode()
        expires = trio.current_time() + (record.ttl or inf)
        kind, runs = ("queue", 0) if lease is None else ("begun", 1)
        claim = Claim(self.key(kind, record.id), ABSENT, runs, len(kept), owner)
        changes: list[Change] = [
            _due(claim, lease or 0),
            Put(self.key("task", record.id), written, ttl=record.ttl or inf),
            Put(self.key("call", record.id), kept, ttl=inf),
            *self._counted(claim, 1),
            *self._kept(record, claim, len(kept) + _EACH),
        ]
        if lease is None:
            changes.append(News(self.queue))
        try:
            claimed, version, *_ = await self.store.commit(*changes)
        except Conflict as conflict:
            raise self._no_room(conflict, claim) from None
        self._on_status("created")
        return claim.with_version(claimed), Found(record, version, len(written), expires)

    def _counted(self, claim: Claim, amount: int) -> list[Add]:
        """Count an unfinished task, or one that has ended, for all and for its owner."""
        bound = self._unfinished if amount > 0 else _ENDLESS
        return self._added("unfinished", claim.owner, amount, bound, inf)

    def _kept(self, record: Record, claim: Claim, size: int, *, bounded: bool = True) -> list[Add]:
        """Count bytes that are kept, for all and for an owner; or fewer."""
        ttl = record.ttl or inf
        bound = self._kept_bytes if bounded and size > 0 else _ENDLESS
        window = f"kept-{ttl:g}-{record.created // ttl:.0f}"
        return self._added(window, claim.owner, size, bound, 2 * ttl)

    def _added(self, name: str, owner: str, amount: int, bound: Bound, ttl: float) -> list[Add]:
        key = f"{self._partition}:{name}"
        added = [Add(key, amount, ttl=ttl, limit=bound.all)]
        if owner:
            added.append(Add(f"{key}-{owner}", amount, ttl=ttl, limit=bound.one_owner))
        return added

    def _no_room(self, conflict: Conflict, claim: Claim) -> Exception:
        """Return what a conflict means: no room, or what it says itself."""
        change = conflict.change
        if not isinstance(change, Add):
            return conflict
        is_owners = bool(claim.owner) and change.key.endswith(f"-{claim.owner}")
        if change.key.startswith(f"{self._partition}:kept"):
            whose = "Your tasks take" if is_owners else "All tasks together take"
            return NoRoom(f"{whose} up as many bytes as they may; try again when some have expired")
        if is_owners:
            return NoRoom(f"You have {change.limit} unfinished tasks already; cancel one, or wait")
        return NoRoom(f"There are {change.limit} unfinished tasks already; try again later")

    async def find(self, id: str) -> Found:
        """Read a task, or raise `NoTask` or `Damaged`."""
        asked = trio.current_time()
        entry = await self._get("task", id)
        record = await offload(Record.decode, entry.value)
        return Found(record, entry.version, len(entry.value), asked + entry.ttl)

    async def call_of(self, id: str) -> KeptCall:
        """Read the call of a task that has not ended, or raise `NoTask` or `Damaged`."""
        return await offload(KeptCall.decode, (await self._get("call", id)).value)

    async def _get(self, kind: str, id: str) -> Entry:
        entry = await self.store.get(self.key(kind, id))
        if entry is None:
            raise NoTask(id)
        return entry

    async def change(
        self,
        id: str,
        move: Move,
        also: Also = lambda record, size: (),
        found: Found | None = None,
    ) -> Record:
        """Move a task on, however often others change it meanwhile, and return its record.

        Args:
            id: The task.
            move: The move. It is made again if another change was faster.
            also: Makes changes that are written with it, or not at all, from the record and its
                length.
            found: The task as it was, if that is known and the move changes something: so it is
                noticed if another did.

        Raises:
            NoTask: There is none.
            Conflict: One of the other changes cannot be made.
        """
        key = self.key("task", id)
        if found is None or found.ttl <= 0:
            found = await self.find(id)
        while True:
            old = found.record
            new = move(old)
            if new is old:
                changes = list(also(old, found.size))
                if all(isinstance(change, Check) for change in changes):
                    return old
            else:
                kept = await new.written()
                put = Put(key, kept, ttl=found.ttl, expect=found.version)
                changes = [*also(new, len(kept)), put, News(key)]
            try:
                await self.store.commit(*changes)
            except Conflict as conflict:
                if conflict.change.key != key:
                    raise
                found = await self.find(id)
            else:
                if new.status != old.status:
                    self._on_status(new.status)
                return new

    async def change_fenced(self, claim: Claim, move: Move) -> Record:
        """Move a task on as `change` does; `Conflict` if another process runs it."""
        fence = Check(claim.key, expect=claim.version)
        return await self.change(claim.id, move, lambda *_: [fence])

    async def answer(self, id: str, answers: Mapping[str, Any], now: float) -> None:
        """Take answers to what a task has asked. They count as kept, until it has ended.

        Raises:
            NoTask: There is none.
            NoRoom: They would take up more than they may.
        """
        claim, before = await self._claim_of(id) or _NO_CLAIM, 0

        def move(record: Record) -> Record:
            nonlocal before
            before = record.answered
            return record.answer(answers, now)

        def also(record: Record, size: int) -> Sequence[Change]:
            more = record.answered - before
            return self._kept(record, claim, more) if more else ()

        try:
            await self.change(id, move, also)
        except Conflict as conflict:
            raise self._no_room(conflict, claim) from None

    async def _claim_of(self, id: str) -> Claim | None:
        """Return who has a task; `None` if it has ended, or its entry is damaged."""
        for kind in ("queue", "begun", "queue"):  # it may be given back meanwhile
            entry = await self.store.get(self.key(kind, id))
            if entry is not None:
                with suppress(ValueError):
                    return Claim.of(entry)
        return None

    async def cancel(self, id: str, now: float) -> None:
        """End a task for its owner; if no process has begun it, it takes up no room any more.

        Raises:
            NoTask: There is none.
        """

        def move(record: Record) -> Record:
            return record.cancel(now)

        claim = await self._claim_of(id)
        if claim is not None and not claim.runs:
            with suppress(Conflict):  # it was begun meanwhile
                await self.end(claim, move, bounded=False)
                return
        await self.change(id, move)

    async def claimed_again(self, claim: Claim) -> Claim | None:
        """Return a newer claim of a task, by whichever process, if none has begun it since."""
        newer = await self._claim_of(claim.id)
        return newer if newer is not None and newer.runs == claim.runs else None

    async def begin_again(self, claim: Claim, lease: float, found: Found | None = None) -> Claim:
        """Note that a task is begun again.

        Args:
            claim: The right to.
            lease: Seconds until another process may begin it.
            found: Its record, if that must not have changed.

        Raises:
            Conflict: Another process has it, or the record has changed.
        """
        again = claim.moved(self.key("begun", claim.id), claim.runs + 1)
        changes = _moved(claim, again, lease)
        if found is not None:
            changes.append(Check(self.key("task", claim.id), expect=found.version))
        version, *_ = await self.store.commit(*changes)
        return again.with_version(version)

    async def give_back(self, claim: Claim) -> None:
        """Let another process run a task, as if this run had not begun; or raise `Conflict`."""
        unbegun = claim.moved(self.key("queue", claim.id), claim.runs - 1)
        await self.store.commit(*_moved(claim, unbegun, 0), News(self.queue))

    async def end(
        self, claim: Claim, move: Move, *, bounded: bool = True, found: Found | None = None
    ) -> None:
        """Make the last move of a task, and delete its claim. It may have ended already.

        Args:
            claim: The right to.
            move: The move.
            bounded: Whether what is kept of it may not be more than there is room for.
            found: The task as it was (`change`).

        Raises:
            NoRoom: There is no room for what is to be kept.
            Conflict: Another process has it.
        """
        gone: list[Change] = [
            Delete(claim.key, expect=claim.version),
            Delete(self.key("call", claim.id)),
            *self._counted(claim, -1),
        ]

        def also(record: Record, size: int) -> Sequence[Change]:
            more = size - claim.size - record.answered
            return *gone, *self._kept(record, claim, more, bounded=bounded)

        try:
            await self.change(claim.id, move, also, found)
        except NoTask:
            await self.store.commit(*gone)
        except Conflict as conflict:
            raise self._no_room(conflict, claim) from None


def _due(claim: Claim, delay: float) -> Put:
    return Put(claim.key, claim.value(), ttl=inf, delay=delay, expect=claim.version)


def _moved(old: Claim, new: Claim, delay: float) -> list[Change]:
    """Write a claim, perhaps into the other folder."""
    if new.key == old.key:
        return [_due(new, delay)]
    return [_due(new.with_version(ABSENT), delay), Delete(old.key, expect=old.version)]
