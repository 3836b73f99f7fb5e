"""Tasks in a store: what is written together, so that no crash can come in between.

| entry | what |
|---|---|
| `task/ID` | the record; there for as long as the task's time to live |
| `call/ID` | the call, until the task has ended |
| `queue/ID` | how often it was begun, until its end; due whenever nobody runs it |
| `unfinished` | how many are in the queue |

Whoever has claimed the entry in the queue runs the task. All that it writes depends on the version
that it got then, so one that was thought dead, and was replaced, can do no harm.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from math import inf
from typing import Final

from attrs import frozen

from trio_mcp import converted
from trio_mcp.extensions.tasks.call import KeptCall
from trio_mcp.extensions.tasks.record import Record
from trio_mcp.store.changes import ABSENT, Add, Change, Check, Conflict, Delete, Entry, News, Put
from trio_mcp.store.protocol import Store

Move = Callable[[Record], Record]


def as_it_is(record: Record) -> Record:
    """Make no move: it has ended already."""
    return record


class NoTask(Exception):
    """There is no such task, or no longer."""


@frozen
class Claim:
    """The right to run a task.

    Args:
        id: Which.
        version: What it has to `expect`.
        runs: How often it was begun, this time included.
    """

    id: str
    version: int
    runs: int


class KeptTasks:
    """The tasks of one server in a store.

    Args:
        store: Where.
        server: The server's name; those of another name do not get its tasks.
    """

    def __init__(self, store: Store, server: str) -> None:
        self.store: Final = store
        digest = hashlib.sha256(server.encode("utf-8", "surrogatepass")).hexdigest()
        self._partition: Final = f"tasks-{digest[:16]}"
        self.queue: Final = f"{self._partition}:queue"
        """The folder to claim from, and the channel for news of it."""

    def key(self, kind: str, id: str) -> str:
        """Where something of a task is; `task` is also the channel for news of it."""
        return f"{self._partition}:{kind}/{id}"

    def fence(self, claim: Claim) -> Check:
        """Make a change that fails if somebody else runs the task."""
        return Check(self.key("queue", claim.id), expect=claim.version)

    async def create(
        self, record: Record, call: KeptCall, *, most: int, lease: float | None
    ) -> Claim | None:
        """Write a new task.

        Args:
            record: It.
            call: What is to be run.
            most: How many may be unfinished.
            lease: Seconds for which it is claimed at once; `None` to leave it to whoever is free.

        Raises:
            Conflict: There are `most` already.
            StoreError: It may not have been written.
        """
        id, runs = record.id, 0 if lease is None else 1
        queued = Put(self.key("queue", id), b"%d" % runs, ttl=inf, delay=lease or 0, expect=ABSENT)
        changes: list[Change] = [
            queued,
            Put(self.key("task", id), record.encode(), ttl=record.ttl or inf),
            Put(self.key("call", id), await converted(KeptCall.encode, call), ttl=inf),
            Add(f"{self._partition}:unfinished", ttl=inf, most=most),
        ]
        if lease is None:
            changes.append(News(self.queue))
        version, *_ = await self.store.commit(*changes)
        return None if lease is None else Claim(id, version, runs)

    async def find(self, id: str) -> tuple[Record, Entry]:
        """Read a task.

        Raises:
            NoTask: There is none.
            Damaged: What is there cannot be read.
        """
        entry = await self._get("task", id)
        return await converted(Record.decode, entry.value), entry

    async def call_of(self, id: str) -> KeptCall:
        """Read the call of a task that has not ended.

        Raises:
            NoTask: It has ended.
            Damaged: What is there cannot be read.
        """
        return await converted(KeptCall.decode, (await self._get("call", id)).value)

    async def _get(self, kind: str, id: str) -> Entry:
        entry = await self.store.get(self.key(kind, id))
        if entry is None:
            raise NoTask(id)
        return entry

    async def change(self, id: str, move: Move, *also: Change) -> Record:
        """Move a task on, whatever others do with it meanwhile.

        Args:
            id: Which.
            move: The move. It is made anew if others were faster.
            *also: What is written with it, or not at all.

        Returns:
            What it is now.

        Raises:
            NoTask: There is none.
            Conflict: One of the other changes depends on what is not so.
        """
        key = self.key("task", id)
        while True:
            old, entry = await self.find(id)
            new = move(old)
            changes = list(also)
            if new is not old:
                kept = await converted(Record.encode, new)
                changes += [Put(key, kept, ttl=entry.ttl, expect=entry.version), News(key)]
            elif all(isinstance(each, Check) for each in also):
                return old
            try:
                await self.store.commit(*changes)
            except Conflict as conflict:
                if conflict.change.key != key:
                    raise
            else:
                return new

    async def begin_again(self, claim: Claim, lease: float) -> Claim:
        """Note that it is begun once more.

        Raises:
            Conflict: Somebody else has it.
        """
        key, runs = self.key("queue", claim.id), claim.runs + 1
        put = Put(key, b"%d" % runs, ttl=inf, delay=lease, expect=claim.version)
        (version,) = await self.store.commit(put)
        return Claim(claim.id, version, runs)

    async def give_back(self, claim: Claim) -> None:
        """Let somebody else run it, as if this run had not been begun.

        Raises:
            Conflict: Somebody else does already.
        """
        key = self.key("queue", claim.id)
        put = Put(key, b"%d" % (claim.runs - 1), ttl=inf, delay=0, expect=claim.version)
        await self.store.commit(put, News(self.queue))

    async def end(self, claim: Claim, move: Move) -> None:
        """Make its last move, and take it out of the queue. It may be gone, or ended, already.

        Raises:
            Conflict: Somebody else has it.
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
