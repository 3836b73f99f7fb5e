"""A task that runs: what its tool reports and asks, and how it ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Final

import trio
from attrs import define, field

from trio_mcp import CallChannel, ExtensionServing, McpError, converted
from trio_mcp.background import background_nursery
from trio_mcp.backoff import backoff
from trio_mcp.extensions.tasks.call import KeptCall
from trio_mcp.extensions.tasks.exact import Damaged
from trio_mcp.extensions.tasks.kept import Claim, KeptTasks, Move, NoTask, as_it_is
from trio_mcp.extensions.tasks.record import Record
from trio_mcp.store.changes import Conflict, Touch
from trio_mcp.store.errors import StoreError, StoreFull
from trio_mcp.store.exact import dumps
from trio_mcp.store.leases import heartbeat

logger = logging.getLogger("trio_mcp.tasks")

INTERNAL_ERROR: Final = -32603
_LAST_WRITE: Final = 5.0
"""Seconds that it may take to write how a task has ended, or to give it back, while all stops."""
_PATIENCE: Final = (1.0, 30.0)
"""Seconds between attempts to reach a store that is not there: the first ones, and the most."""


STOPPED: Final = "The server was stopped before the task had ended, and must not run it again"


def failing(text: str) -> Move:
    """Make the move of a task that cannot go on."""
    return lambda record: record.fail(INTERNAL_ERROR, text, None, time.time())


class Slots:
    """How many tasks may run at once."""

    def __init__(self, most: int) -> None:
        free = trio.Semaphore(most, max_value=most)
        self.take = free.acquire
        self.give = free.release
        self._take_nowait = free.acquire_nowait

    def took(self) -> bool:
        """Take one if one is free."""
        try:
            self._take_nowait()
        except trio.WouldBlock:
            return False
        return True


@define(eq=False, repr=False)
class Run(CallChannel):
    """One run of a task. It has a slot, which it lends out while all it does is wait for answers.

    Args:
        kept: Where the task is.
        claim: The right to run it.
        lease: Seconds that the claim is good for, unless it is renewed.
        slots: Where its slot is from.
        pause: Seconds between two messages that are written.
        most_bytes: What its result may have.
    """

    can_ask = True

    _kept: KeptTasks
    _claim: Claim
    _lease: float = field(kw_only=True)
    _slots: Slots = field(kw_only=True)
    _pause: float = field(kw_only=True)
    _most_bytes: int = field(kw_only=True)
    _scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _has_slot: bool = field(default=True, init=False)
    _retaking: trio.Lock = field(factory=trio.Lock, init=False)
    _asking: int = field(default=0, init=False)
    """How many wait for answers: while there are some, it has no slot."""
    _answers: dict[str, Any] = field(factory=dict, init=False)
    _answered: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _message: str | None = field(default=None, init=False)
    _nursery: trio.Nursery | None = field(default=None, init=False)
    _reporting: bool = field(default=False, init=False)

    # -- what the tool says -----------------------------------------------------------------

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Show how far it is: the newest message, now and then."""
        amount = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        self._message = message or amount
        if not self._reporting and self._nursery is not None:
            self._reporting = True
            self._nursery.start_soon(self._report)

    async def _report(self) -> None:
        while self._message is not None:
            message, self._message = self._message, None
            with suppress(StoreError, Conflict, NoTask):  # the next one may get through
                await self._change(partial(Record.report, message=message, now=time.time()))
            await trio.sleep(self._pause)
        self._reporting = False

    async def _change(self, move: Move) -> Record:
        return await self._kept.change(self._claim.id, move, self._kept.fence(self._claim))

    # -- what it asks -------------------------------------------------------------------------

    async def ask(self, key: str, method: str, params: dict[str, Any]) -> Any:
        """Show a question, and wait for its answer. An earlier run may have had it."""
        question = {"method": method, "params": params}
        if key not in self._answers:
            try:
                record = await self._change(lambda record: record.ask(key, question, time.time()))
            except (Conflict, NoTask):
                self._scope.cancel()
                await trio.sleep_forever()
            except StoreError as error:
                logger.error("A question of task %s cannot be stored: %s", self._claim.id, error)
                raise McpError(INTERNAL_ERROR, "The question cannot be stored") from None
            self._answers.update(record.answers)
        if key not in self._answers:
            await self._wait_for(key)
        return self._answers[key]

    async def _wait_for(self, key: str) -> None:
        self._give_slot()
        self._asking += 1
        try:
            while key not in self._answers:
                await self._answered.park()
        except trio.Cancelled:
            if not self._scope.cancel_called:  # the tool wants to know no more
                with trio.move_on_after(_LAST_WRITE, shield=True):
                    with suppress(StoreError, Conflict, NoTask):
                        await self._change(lambda record: record.withdraw(key, time.time()))
            raise
        finally:
            self._asking -= 1
        if not self._has_slot and not self._asking:
            await self._retake_slot()

    def _give_slot(self) -> None:
        if self._has_slot:
            self._has_slot = False
            self._slots.give()

    async def _retake_slot(self) -> None:
        """Have a slot again. All that were answered wait for the same one."""
        async with self._retaking:
            if not self._has_slot:
                await self._slots.take()
                self._has_slot = True
                if self._asking:  # since then, so it is lent out again
                    self._give_slot()

    # -- its life ---------------------------------------------------------------------------

    async def live(self, call: KeptCall, serving: ExtensionServing) -> None:
        """Run the task, to its end or as far as this process gets.

        Raises:
            LeaseLost: The store could not be reached in time.
        """
        touch = Touch(
            self._kept.key("queue", self._claim.id), delay=self._lease, expect=self._claim.version
        )
        try:
            async with heartbeat(self._kept.store, touch, self._lease):
                move = await self._work(call, serving)
            await self._end(move)
        except BaseException as error:
            if not isinstance(error, Exception):  # cancelled, perhaps within nurseries, as a group
                await self._let_go(call)
            raise
        finally:
            self._give_slot()

    async def _work(self, call: KeptCall, serving: ExtensionServing) -> Move:
        """Run the tool, and hear meanwhile what its owner wants."""
        move: Move = as_it_is  # it was cancelled, or its time is over
        with self._scope:
            async with self._kept.store.watch(self._kept.key("task", self._claim.id)) as news:
                async with background_nursery() as self._nursery:
                    self._nursery.start_soon(self._listen, news.wait)
                    move = await self._call(call, serving)
        return move

    async def _call(self, call: KeptCall, serving: ExtensionServing) -> Move:
        timeout = inf if call.timeout is None else call.timeout
        try:
            result = await serving.call(call.again(), channel=self, timeout=timeout)
            size = len(await converted(dumps, result))
        except McpError as error:
            return partial(_fail, error)
        except Exception:
            logger.exception("Task %s cannot be run", self._claim.id)
            return failing("Internal error")
        if size > self._most_bytes:
            most = self._most_bytes
            return failing(f"The result has {size:,} bytes; at most {most:,} can be kept")
        return lambda record: record.complete(result, time.time())

    async def _listen(self, wait: Callable[[], Any]) -> None:
        """Take answers, until the task is cancelled or its time is over."""
        pause, _ = _PATIENCE
        while True:
            try:
                record, entry = await self._kept.find(self._claim.id)
            except (NoTask, Damaged):
                break
            except StoreError:
                await trio.sleep(pause)
                continue
            if record.is_final:
                break
            if record.answers.keys() - self._answers.keys():
                self._answers.update(record.answers)
                self._answered.unpark_all()
            with trio.move_on_after(entry.ttl):
                await wait()
        self._scope.cancel()

    # -- its end ----------------------------------------------------------------------------

    async def _end(self, move: Move) -> None:
        """Write how it has ended, however long the store is away."""
        failures = 0
        while True:
            try:
                with trio.move_on_after(_LAST_WRITE, shield=True):
                    await self._kept.end(self._claim, move)
                    return
            except Conflict:
                # Written at the last attempt, in spite of its failure; or somebody else has it.
                logger.warning("Task %s is not ours any more", self._claim.id)
                return
            except Damaged as error:
                logger.error("Task %s has ended, but: %s", self._claim.id, error)
                return
            except StoreFull as error:
                logger.error("The result of task %s cannot be stored: %s", self._claim.id, error)
                move = failing("The result cannot be stored: there is no room")
            except StoreError as error:
                logger.error("The end of task %s cannot be stored: %s", self._claim.id, error)
            failures += 1
            await trio.sleep(backoff(failures, *_PATIENCE))

    async def _let_go(self, call: KeptCall) -> None:
        """This process ends first."""
        with trio.move_on_after(_LAST_WRITE, shield=True):
            with suppress(StoreError, Conflict, NoTask):
                if call.on_restart == "run again":
                    await self._kept.give_back(self._claim)
                else:
                    await self._kept.end(self._claim, failing(STOPPED))


def _fail(error: McpError, record: Record) -> Record:
    return record.fail(error.code, error.message, error.data, time.time())
