"""Tasks in a store: changes that belong together are one commit.

| entry | what |
|---|---|
| `task/ID` | the record; there for as long as the task's time to live |
| `call/ID` | the call, until the task has ended |
| `queue/ID` | how often it was begun, until its end; due whenever no process runs it |
| `unfinished` | how many are in the queue |

The process that has claimed the entry in the queue runs the task. All that it writes depends on the
version that it got then, so one that was thought dead, and was replaced, can do no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

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


def as_it_is(record: Record) -> Record:
    """Leave a record as it is: the task has ended already."""
    return record


class NoTask(Exception):
    """There is no such task, or no longer."""


@frozen
class Claim:
    """The right to run a task."""

    id: str
    version: int
    """What the entry in the queue has to have still."""
    runs: int
    """How often it was begun, this time included."""


class KeptTasks:
    """The tasks of one server in a store, by its name."""

    def __init__(self, store: Store, server: str) -> None:
        self.store: Final = store
        self._partition: Final = f"tasks-{key_part(server)[:16]}"
        self.queue: Final = f"{self._partition}:queue"
        """The folder to claim from, and the channel for news of it."""

    def key(self, kind: str, id: str) -> str:
        """Return the key of an entry; that of the kind `task` is also the channel for its news."""
        return f"{self._partition}:{kind}/{id}"

    def fence(self, claim: Claim) -> Check:
        """Return a check by which a commit fails if another process runs the task."""
        return Check(self.key("queue", claim.id), expect=claim.version)

    async def create(
        self, record: Record, call: KeptCall, *, limit: int, lease: float | None
    ) -> Claim | None:
        """Write a new task, claimed for the seconds of a lease or left to any process that is free.

        Raises:
            Conflict: There are `limit` already.
            StoreError: It may not have been written.
        """
        id, runs = record.id, 0 if lease is None else 1
        queued = Put(self.key("queue", id), b"%d" % runs, ttl=inf, delay=lease or 0, expect=ABSENT)
        changes: list[Change] = [
            queued,
            Put(self.key("task", id), record.encode(), ttl=record.ttl or inf),
            Put(self.key("call", id), await offload(KeptCall.encode, call), ttl=inf),
            Add(f"{self._partition}:unfinished", ttl=inf, limit=limit),
        ]
        if lease is None:
            changes.append(News(self.queue))
        version, *_ = await self.store.commit(*changes)
        return None if lease is None else Claim(id, version, runs)

    async def find(self, id: str) -> tuple[Record, Entry]:
        """Read a task, or raise `NoTask` or `Damaged`."""
        entry = await self._get("task", id)
        return await offload(Record.decode, entry.value), entry

    async def call_of(self, id: str) -> KeptCall:
        """Read the call of a task that has not ended, or raise `NoTask` or `Damaged`."""
        return await offload(KeptCall.decode, (await self._get("call", id)).value)

    async def _get(self, kind: str, id: str) -> Entry:
        entry = await self.store.get(self.key(kind, id))
        if entry is None:
            raise NoTask(id)
        return entry

    async def change(self, id: str, move: Move, *also: Change) -> Record:
        """Move a task on, however often others change it meanwhile, and return its record.

        Args:
            id: The task.
            move: The move. It is made again if another change was faster.
            *also: Changes that are written with it, or not at all.

        Raises:
            NoTask: There is none.
            Conflict: One of the other changes cannot be made.
        """
        key = self.key("task", id)
        while True:
            old, entry = await self.find(id)
            new = move(old)
            changes = list(also)
            if new is not old:
                kept = await offload(Record.encode, new)
                changes += [Put(key, kept, ttl=entry.ttl, expect=entry.version), News(key)]
            elif all(isinstance(change, Check) for change in also):
                return old
            try:
                await self.store.commit(*changes)
            except Conflict as conflict:
                if conflict.change.key != key:
                    raise
            else:
                return new

    async def begin_again(self, claim: Claim, lease: float) -> Claim:
        """Note that a task is begun once more; `Conflict` if another process has it."""
        runs = claim.runs + 1
        (version,) = await self.store.commit(self._queued(claim, runs, lease))
        return Claim(claim.id, version, runs)

    async def give_back(self, claim: Claim) -> None:
        """Let another process run a task, as if this run had not begun; or raise `Conflict`."""
        await self.store.commit(self._queued(claim, claim.runs - 1, 0), News(self.queue))

    def _queued(self, claim: Claim, runs: int, delay: float) -> Put:
        key = self.key("queue", claim.id)
        return Put(key, b"%d" % runs, ttl=inf, delay=delay, expect=claim.version)

    async def end(self, claim: Claim, move: Move) -> None:
        """Make the last move of a task, and take it out of the queue. It may have ended already.

        Raises:
            Conflict: Another process has it.
        """
        gone = (
            Delete(self.key("queue", claim.id), expect=claim.version),
            Delete(self.key("call", claim.id)),
            Add(f"{self._partition}:unfinished", -1, ttl=inf),
        )
        try:
            await self.change(claim.id, move, *gone)
        except NoTask:
            await self.store.commit(*gone)
