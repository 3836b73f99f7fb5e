"""Running tasks that are due: those of this process, and those that another one left behind."""

from __future__ import annotations

import time
from contextlib import suppress
from math import inf
from typing import Final

import trio
from attrs import define, field

from trio_mcp.backoff import backoff
from trio_mcp.extensions.tasks.call import KeptCall
from trio_mcp.extensions.tasks.kept import Claim, Found, Move, NoTask, as_it_is
from trio_mcp.extensions.tasks.run import RETRY, STOPPED, Host, Run, failing
from trio_mcp.loggers import logger_of
from trio_mcp.store.changes import Change, Claimed, Conflict, Delete, News, Touch
from trio_mcp.store.errors import Damaged, LeaseLost, StoreError

logger = logger_of("trio_mcp.tasks")

_MOST_RUNS: Final = 10
"""Runs: a task that is interrupted so often is probably what ends its processes."""

_AT_ONCE: Final = 100

_HOLD: Final = 1 / 6
"""The part of a lease for which a task waits for a slot here before others may have it."""

_MOST_MADE: Final = 1000
_SMALL: Final = 4096
"""Bytes of a call that is kept in memory as well while its task waits."""


@define(eq=False)
class Worker:
    """Runs the tasks of one server in this process."""

    host: Host
    nursery: trio.Nursery
    _running: set[str] = field(factory=set)
    _made: dict[str, tuple[KeptCall, Found]] = field(factory=dict)
    """The newest tasks that were made here and wait: most of them need not be read again."""
    _resting: trio.CancelScope = field(factory=trio.CancelScope)
    _takes_over: float = -inf
    """When it runs tasks again that others have begun: it may be the first to see the store."""

    async def run(self) -> None:
        """Run what is due, forever."""
        kept, failures = self.host.kept, 0
        while True:
            try:
                if failures:
                    await kept.store.commit(Delete(kept.queue))  # whether it can write again
                # Runs that have ended while the store was away are to write that first, wherever
                # they are. Where this process has just started, the store may have been away.
                self._takes_over = trio.current_time() + self.host.lease / 3
                async with kept.store.watch(kept.queue) as news:
                    while True:
                        self._resting = trio.CancelScope()  # cancelled, it does not rest
                        wait = await self._take_some()
                        failures = 0
                        # A task that another process began is no news, and is due if that dies.
                        # By half a lease, it is seen if the store is away until leases end.
                        rest = min(wait, self.host.lease / 2)
                        self._resting.deadline = trio.current_time() + rest
                        with self._resting:
                            await news.wait()
            except StoreError as error:
                logger.error("The store of tasks cannot be used: %s", error)
            failures += 1
            await trio.sleep(backoff(failures, *RETRY))

    async def _take_some(self) -> float:
        """Begin as many tasks as there are slots. Return the seconds until more are due."""
        slots, lease = self.host.slots, self.host.lease
        await slots.wait()
        taken, held = 1, list[Change]()
        try:
            while taken < _AT_ONCE and slots.take():
                taken += 1
            until = trio.current_time() + lease * _HOLD
            claimed = await self._claim(limit=taken)
            for entry in claimed.entries:
                try:
                    claim = Claim.of(entry)
                except ValueError as error:
                    logger.error("Task %s cannot be run: %s", entry.key.rpartition("/")[2], error)
                    continue
                if claim.id in self._running:  # it was not renewed in time, and has not stopped
                    continue
                self._running.add(claim.id)
                if slots.assign(claim.owner):
                    taken -= 1
                    self.nursery.start_soon(self._resume, claim)
                else:
                    self.nursery.start_soon(self._wait_to_resume, claim, until)
                    held.append(Touch(entry.key, delay=lease * _HOLD, expect=claim.version))
        finally:
            for _ in range(taken):
                slots.release()
        await self._hold(held)
        return claimed.wait

    async def _hold(self, held: list[Change]) -> None:
        """Let others have tasks soon that wait for a slot here, unless their owner ends them."""
        kept = self.host.kept
        while held:
            try:
                await kept.store.commit(*held, News(kept.queue))
                return
            except Conflict as conflict:
                held.remove(conflict.change)

    async def _claim(self, limit: int) -> Claimed:
        """Claim tasks that are due, first those that other processes have begun."""
        kept, lease = self.host.kept, self.host.lease
        # It does not claim what it must not yet begin: others, which may, would wait for its lease,
        # and forever if such processes end and start all the time.
        early = self._takes_over - trio.current_time()
        begun = Claimed([], early)
        if early <= 0:
            begun = await kept.store.claim(kept.begun, lease, limit=limit)
        left = limit - len(begun.entries)
        if not left:  # there may be some that wait, too
            return Claimed(begun.entries, 0)
        waiting = await kept.store.claim(kept.queue, lease, limit=left)
        return Claimed([*begun.entries, *waiting.entries], min(begun.wait, waiting.wait))

    def begin(self, claim: Claim, call: KeptCall, found: Found) -> None:
        """Run a task that was just made. Its slot is taken already."""
        self._running.add(claim.id)
        self.nursery.start_soon(self._live, claim, call, found)

    def leave(self, claim: Claim, call: KeptCall, found: Found) -> None:
        """Leave a task that was just made to the process that is free first, perhaps this one."""
        if claim.size <= _SMALL:
            self._made[claim.id] = call, found
        if len(self._made) > _MOST_MADE:
            del self._made[next(iter(self._made))]

    async def _wait_to_resume(self, claim: Claim, until: float) -> None:
        """Run a task once its owner may have another slot, or leave it to be claimed again."""
        with trio.move_on_at(until) as waiting:
            await self.host.slots.wait(claim.owner)
        if waiting.cancelled_caught:
            self._running.discard(claim.id)
        else:
            await self._resume(claim)

    async def _resume(self, claim: Claim) -> None:
        prepared = None
        try:
            prepared = await self._prepared(claim)
        except (Damaged, ValueError) as error:  # a count of tasks is damaged
            logger.error("Task %s cannot be run: %s", claim.id, error)
        except Conflict:
            pass  # it has ended, or another process has it
        except StoreError as error:  # it is due again when the lease ends
            logger.warning("Task %s cannot be begun now: %s", claim.id, error)
        finally:
            if prepared is None:
                self._running.discard(claim.id)
                self.host.slots.release(claim.owner)
        if prepared is not None:
            await self._live(*prepared)

    async def _prepared(self, claim: Claim) -> tuple[Claim, KeptCall, Found] | None:
        """Note that a task begins, perhaps again; `None` if it must not."""
        kept, made = self.host.kept, self._made.pop(claim.id, None)
        if made is not None and not claim.runs:
            call, found = made
            with suppress(Conflict):  # it was cancelled, or another process has it
                return await kept.begin_again(claim, self.host.lease, found), call, found
        move: Move = as_it_is
        try:
            found = await kept.find(claim.id)
            if not found.record.is_final:
                call = await kept.call_of(claim.id)
                refusal = _refusal(claim, call)
                if refusal is None:
                    if found.record.waiting:
                        await kept.change_fenced(claim, lambda old: old.restart(time.time()))
                    return await kept.begin_again(claim, self.host.lease), call, found
                move = failing(refusal)
        except NoTask:
            pass  # its time is over
        await kept.end(claim, move, bounded=False)
        return None

    async def _live(self, claim: Claim, call: KeptCall, found: Found) -> None:
        try:
            await Run(self.host, claim, found).live(call)
        except Exception as error:  # one task must not end them all
            if isinstance(error, LeaseLost):
                logger.error("Task %s: the store could not be reached in time", claim.id)
            else:
                logger.exception("Task %s was given up", claim.id)
            self._resting.cancel()  # it is due again when its lease ends: look when that is
        finally:
            self._running.discard(claim.id)


def _refusal(claim: Claim, call: KeptCall) -> str | None:
    """Return why a task must not be begun again; `None` if it may."""
    if claim.runs and call.on_restart == "fail":
        return STOPPED
    if claim.runs >= _MOST_RUNS:
        return f"The task was interrupted {claim.runs} times, and is not tried again"
    return None
