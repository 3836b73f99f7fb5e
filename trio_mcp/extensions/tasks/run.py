"""A running task: what its tool reports and asks, and how it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Final

import trio
from attrs import define, field, frozen

from trio_mcp import McpError
from trio_mcp.backoff import backoff
from trio_mcp.extending import CallChannel, ExtensionServing, offload
from trio_mcp.extensions.tasks.call import KeptCall
from trio_mcp.extensions.tasks.kept import Claim, Found, KeptTasks, Move, NoRoom, NoTask, as_it_is
from trio_mcp.extensions.tasks.record import Record
from trio_mcp.extensions.tasks.slots import HeldSlot, Slots
from trio_mcp.loggers import logger_of
from trio_mcp.store.changes import Conflict, Touch
from trio_mcp.store.errors import Damaged, StoreError, StoreFull
from trio_mcp.store.exact import dumps
from trio_mcp.store.leases import Lease

logger = logger_of("trio_mcp.tasks")

INTERNAL_ERROR: Final = -32603
_LAST_WRITE: Final = 5.0
"""Seconds that it may take to write how a task has ended, or to give it back, while all stops."""
RETRY: Final = (1.0, 30.0)
"""Seconds between attempts to reach a store that is not there: the first, and the longest."""

_FEW_TURNS: Final = 3
"""Turns of the scheduler: a tool that has ended after twice as many waits for nothing."""

STOPPED: Final = "The server was stopped before the task had ended, and must not run it again"


def failing(text: str) -> Move:
    """Return the move of a task that cannot go on."""
    return lambda record: record.fail(INTERNAL_ERROR, text, None, time.time())


@define(eq=False)
class NewRuns:
    """Accompanies runs whose tools go on for some turns of the scheduler."""

    _newer: list[Run] = field(factory=list)
    _older: list[Run] = field(factory=list)
    _begun: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)

    def add(self, run: Run) -> None:
        """Have a run accompanied if it goes on."""
        self._newer.append(run)
        self._begun.unpark()

    async def watch(self) -> None:
        """Accompany those that go on, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                while not self._newer and not self._older:
                    await self._begun.park()
                for _ in range(_FEW_TURNS):
                    await trio.lowlevel.checkpoint()
                for run in self._older:
                    run.accompany(nursery)
                self._older, self._newer = self._newer, []


@frozen(eq=False)
class Host:
    """What the tasks of one server run with, in this process."""

    kept: KeptTasks
    serving: ExtensionServing
    slots: Slots
    lease: float
    """Seconds after which a task is run by another process if this one has died."""
    pause: float
    """Seconds between two messages that a task writes."""
    most_bytes: int
    """The largest result."""
    new_runs: NewRuns = field(factory=NewRuns)


@define(eq=False, repr=False)
class Run(CallChannel):
    """One run of a task. It lends out its slot while all it does is wait for answers."""

    can_ask = True

    _host: Host
    _claim: Claim
    _found: Found | None
    """Its record, as far as it is known."""
    _lease: Lease = field(init=False)
    """What its tool runs in."""
    _slot: HeldSlot = field(init=False)
    _answers: dict[str, Any] = field(factory=dict, init=False)
    _answered: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _newest: tuple[float, float | None, str | None] | None = field(default=None, init=False)
    _runs: bool = field(default=False, init=False)
    """Whether the tool runs."""
    _beside: trio.CancelScope | None = field(default=None, init=False)
    """What goes on beside the tool, where that goes on."""
    _nursery: trio.Nursery | None = field(default=None, init=False)
    _failure: Exception | None = field(default=None, init=False)
    """What went wrong there."""
    _reporting: bool = field(default=False, init=False)

    @_slot.default
    def _that_of_its_owner(self) -> HeldSlot:
        return HeldSlot(self._host.slots, self._claim.owner)

    @_lease.default
    def _of_its_claim(self) -> Lease:
        claim, lease = self._claim, self._host.lease
        touch = Touch(claim.key, delay=lease, expect=claim.version)
        return Lease(self._host.kept.store, touch, lease)

    # -- what the tool says -----------------------------------------------------------------

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Keep the newest progress as the state of the task, now and then."""
        self._newest = (progress, total, message)
        self._start_report()

    def _start_report(self) -> None:
        if self._newest is not None and self._nursery is not None and not self._reporting:
            self._reporting = True
            self._nursery.start_soon(self._report)

    async def _report(self) -> None:
        while self._newest is not None:
            newest, self._newest = self._newest, None
            with suppress(StoreError, Conflict, NoTask):  # the next one may get through
                now = time.time()
                await self._change(partial(Record.report, newest=newest, now=now))
            await trio.sleep(self._host.pause)
        self._reporting = False

    async def _change(self, move: Move) -> Record:
        return await self._host.kept.change_fenced(self._claim, move)

    # -- what it asks -------------------------------------------------------------------------

    def _ask(self, key: str, question: dict[str, Any], record: Record) -> Record:
        now = time.time()
        if self._newest is not None:  # it came first, and is shown with the question
            record = record.report(self._newest, now)
        return record.ask(key, question, now)

    async def ask(self, key: str, method: str, params: dict[str, Any]) -> Any:
        """Ask the owner, and wait for the answer. An earlier run may have got it."""
        question = {"method": method, "params": params}
        if key not in self._answers:
            try:
                record = await self._change(partial(self._ask, key, question))
            except (Conflict, NoTask):
                self._lease.end()
                await trio.sleep_forever()
            except StoreError as error:
                logger.error("A question of task %s cannot be stored: %s", self._claim.id, error)
                raise McpError(INTERNAL_ERROR, "The question cannot be stored") from None
            self._answers.update(record.answers)
        if key not in self._answers:
            await self._wait_for(key)
        return self._answers[key]

    async def _wait_for(self, key: str) -> None:
        async with self._slot.lent():
            try:
                while key not in self._answers:
                    await self._answered.park()
            except trio.Cancelled:
                if not self._lease.ended:  # only the question was cancelled
                    with trio.move_on_after(_LAST_WRITE, shield=True):
                        with suppress(StoreError, Conflict, NoTask):
                            await self._change(lambda record: record.withdraw(key, time.time()))
                raise

    # -- its life ---------------------------------------------------------------------------

    async def live(self, call: KeptCall) -> None:
        """Run the task, to its end or as far as this process gets; or raise `LeaseLost`."""
        move: Move | None = None
        try:
            move = await self._work(call)
            await self._end(move)
        except BaseException as error:
            if not isinstance(error, Exception):  # cancelled, perhaps within nurseries, as a group
                with trio.move_on_after(_LAST_WRITE, shield=True):
                    await self._let_go(call, move)
            raise
        finally:
            self._slot.release()

    async def _work(self, call: KeptCall) -> Move:
        """Run the tool, accompanied if it goes on."""
        move: Move = as_it_is  # it was cancelled, or its time is over
        self._runs = True
        self._host.new_runs.add(self)
        try:
            with self._lease:
                move = await self._call(call)
        finally:
            self._runs = False
            if self._beside is not None:
                self._beside.cancel()
        if self._failure is not None:
            raise self._failure
        return move

    def accompany(self, nursery: trio.Nursery) -> None:
        """Renew the claim, listen for answers and cancellation, and report, while the tool runs."""
        if self._runs:
            self._beside = trio.CancelScope()
            nursery.start_soon(self._accompany, self._beside)

    async def _accompany(self, beside: trio.CancelScope) -> None:
        try:
            with beside:
                async with trio.open_nursery() as self._nursery:
                    self._nursery.start_soon(self._lease.renew)
                    self._nursery.start_soon(self._follow)
                    self._start_report()
        except Exception as error:  # it ends this run, and no others
            self._failure = error
            self._lease.end()
        finally:
            self._nursery = None

    async def _call(self, call: KeptCall) -> Move:
        timeout = inf if call.timeout is None else call.timeout
        try:
            result = await self._host.serving.call(call.again(), channel=self, timeout=timeout)
            size = len(await offload(dumps, result))
        except McpError as error:
            return partial(_fail, error)
        except Exception:
            logger.exception("Task %s cannot be run", self._claim.id)
            return failing("Internal error")
        limit = self._host.most_bytes
        if size > limit:
            return failing(f"The result has {size:,} bytes; at most {limit:,} can be kept")
        return lambda record: record.complete(result, time.time())

    async def _follow(self) -> None:
        kept = self._host.kept
        async with kept.store.watch(kept.key("task", self._claim.id)) as news:
            await self._listen(news.wait)

    async def _listen(self, wait: Callable[[], Any]) -> None:
        """Take answers, until the task is cancelled or its time is over."""
        pause, _ = RETRY
        while True:
            try:
                self._found = found = await self._host.kept.find(self._claim.id)
            except (NoTask, Damaged):
                break
            except StoreError:
                await trio.sleep(pause)
                continue
            if found.record.is_final:
                break
            if found.record.answers.keys() - self._answers.keys():
                self._answers.update(found.record.answers)
                self._answered.unpark_all()
            with trio.move_on_at(found.expires):
                await wait()
        self._lease.end()

    # -- its end ----------------------------------------------------------------------------

    async def _end(self, move: Move, *, bounded: bool = True) -> None:
        """Write how the task has ended, however long the store is away."""
        failures = 0
        while True:
            try:
                await self._write_end(move, bounded)
                return
            except NoRoom as error:
                move, bounded = failing(f"The result cannot be kept: {error}"), False
                continue
            except Damaged as error:
                logger.error("Task %s has ended, but: %s", self._claim.id, error)
                return
            except StoreFull as error:
                logger.error("The result of task %s cannot be stored: %s", self._claim.id, error)
                move = failing("The result cannot be stored: there is no room")
            except StoreError as error:
                logger.error("The end of task %s cannot be stored: %s", self._claim.id, error)
            failures += 1
            # Well within the lease: when the store is back, no other process must have the task.
            await trio.sleep(min(backoff(failures, *RETRY), self._host.lease / 6))

    async def _write_end(self, move: Move, bounded: bool) -> None:
        """Write it once, also if the task was claimed again since, but no other run has begun."""
        kept, found = self._host.kept, None if move is as_it_is else self._found
        while True:
            try:
                await kept.end(self._claim, move, bounded=bounded, found=found)
                return
            except Conflict:
                newer = await kept.claimed_again(self._claim)
            if newer is None:
                # Written at the last attempt, in spite of its failure; or begun by another.
                logger.warning("Task %s is not ours any more", self._claim.id)
                return
            self._claim = newer

    async def _let_go(self, call: KeptCall, move: Move | None) -> None:
        """Write the end that it has had; or give it back, or have it fail: this process ends."""
        if move is not None:
            await self._end(move)
        elif call.on_restart == "fail":
            await self._end(failing(STOPPED), bounded=False)
        else:
            with suppress(StoreError, Conflict, NoTask):
                await self._host.kept.give_back(self._claim)


def _fail(error: McpError, record: Record) -> Record:
    return record.fail(error.code, error.message, error.data, time.time())
