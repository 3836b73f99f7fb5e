"""The Trio run beside an event loop, in a thread of its own.

Everything of this library runs there, in tasks that stay there. What asyncio sees are futures. So a
cancel scope never meets an asyncio task, and it does not matter which of them opens, uses or closes
something.

Trio could also be a guest of the loop (`trio.lowlevel.start_guest_run`). Both were measured. With a
guest, each wait for input and output is a thread that has to be started and to report back, so a
lone call over stdio takes a fifth more time and processor time than with a thread, which is crossed
once in each direction; with 64 calls in flight the guest needs a seventh less. What decides is
robustness: a guest stops whenever its loop is held up, and it cannot end, nor end its processes,
once its loop has been closed. A thread can.

The run starts when something is first opened in its loop, and ends when the last such thing has
been closed. Otherwise it ends with its loop: a loop that shuts down closes asynchronous
generators, and one that is closed lets go of its timers, so here is one of each. At the latest, it
ends with the interpreter.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from typing import Final
from weakref import finalize, ref

import trio

from trio_mcp.aio.crossing import Crossing, Message, current_crossing, resolve, settled
from trio_mcp.background import background_nursery
from trio_mcp.loggers import logger_of

logger = logger_of("trio_mcp.aio")

_NEVER: Final = 10.0**9
"""Seconds after which no loop runs any more."""
_PATIENCE: Final = 2.0
"""Seconds that what was cancelled in asyncio has to end, when a run ends."""
_EXIT_PATIENCE: Final = 10.0
"""Seconds that the end of the interpreter waits for the end of a run."""


class TrioRun(Crossing):
    """A Trio run in a thread, for as long as it has users. Made by `acquire`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._users = 0
        self._stopping = trio.Event()
        self._ended = loop.create_future()
        self.nursery: trio.Nursery
        self.closings: Final[set[Message]] = set()
        """On Trio's side, what closes each of the things that are open."""
        self._thread = threading.Thread(target=self._run, name="trio-mcp", daemon=True)
        _living.add(self)
        self._thread.start()
        self._guard = self._until_loop_shuts_down()
        with suppress(StopIteration):  # it waits for nothing before it yields
            self._guard.__anext__().send(None)
        canary = _Canary()
        self._timer = ref(loop.call_later(_NEVER, canary))  # weak: only the loop is to hold it
        self._canary = finalize(canary, self.abandon)
        self._canary.atexit = False

    # -- asyncio's side -------------------------------------------------------------------

    @property
    def is_here(self) -> bool:
        """Whether it belongs to the current loop and process."""
        return not self.is_copy and self._loop is asyncio.get_running_loop()

    @property
    def is_in_use(self) -> bool:
        """Whether it belongs to a loop of this process that has not been closed."""
        return not (self.is_copy or self.is_over or self._loop.is_closed())

    def check(self) -> None:
        """Check that it belongs to the current loop and process.

        Raises:
            RuntimeError: It does not.
        """
        if self.is_copy:
            what = "this process is a fork of the one that opened it; open it again in this process"
            raise RuntimeError(what)
        if self._loop is not asyncio.get_running_loop():
            raise RuntimeError("it was opened in another event loop; open it in this one as well")

    async def release(self) -> None:
        """Undo one `acquire`; the last user waits until the run has ended."""
        self._users -= 1
        if self._users == 0 and self.is_here:
            await self._guard.aclose()

    async def _until_loop_shuts_down(self) -> AsyncGenerator[None]:
        """Wait, as `asyncio.run` closes this before it closes the loop; and so does `release`."""
        try:
            yield
        finally:
            if not self.is_copy:
                await self._stop()

    async def _stop(self) -> None:
        if _runs.get(self._loop) is self:
            del _runs[self._loop]  # the next `acquire` makes a new one
        self._canary.detach()
        timer = self._timer()
        if timer is not None:
            timer.cancel()
        self.post(self._stopping.set)
        try:
            await settled(self._ended)
        finally:  # a cancellation is raised when it has ended
            self._thread.join()  # it has nothing left to do

    def abandon(self) -> None:
        """End without the loop. May be called from any thread, more than once."""
        self.post(self._orphan)

    def join(self) -> None:
        self._thread.join(_EXIT_PATIENCE)

    # -- Trio's side ----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException:
            logger.critical("The Trio run beside asyncio has crashed", exc_info=True)
        self.waker.end()
        _living.discard(self)
        if self.is_orphan:
            _runs.pop(self._loop, None)
        self._token, self.is_over = None, True
        self._to_trio.empty()  # these fail, as they were too late
        self.tell(partial(resolve, self._ended))

    async def _main(self) -> None:
        current_crossing.set(self)
        self.waker.begin()
        async with background_nursery(self._lose_patience), trio.open_nursery() as self.nursery:
            self._token = trio.lowlevel.current_trio_token()
            self._to_trio.empty()  # posted before there was a token to wake it with
            await self._stopping.wait()
            for close in list(self.closings):  # those still open
                close()

    async def _lose_patience(self) -> None:
        """At the end, let go of what ignores its cancellation."""
        await self._stopping.wait()
        while True:
            await self.let_go(_PATIENCE)
            await trio.sleep(_PATIENCE)

    def _orphan(self) -> None:
        self._stopping.set()
        self.nursery.cancel_scope.cancel()
        self.give_up()


class _Canary:
    """A callback that only a loop's timers hold: a loop that is closed lets go of it."""

    def __call__(self) -> None:
        """Do nothing."""


_runs: dict[asyncio.AbstractEventLoop, TrioRun] = {}
"""Those that can be used."""
_living: set[TrioRun] = set()
"""Those whose threads run."""


def acquire() -> TrioRun:
    """Get the Trio run of the running event loop, for as long as it is not released.

    Raises:
        RuntimeError: No event loop is running.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "trio_mcp.aio is for asyncio: call it from an async function that asyncio.run(...) "
            "runs; under Trio, take the same name from trio_mcp"
        ) from None
    run = _runs.get(loop)
    if run is None:
        run = _runs[loop] = TrioRun(loop)
    run._users += 1
    return run


def _end_all() -> None:
    """End all runs, with their processes, before the interpreter exits."""
    runs = list(_living)
    for run in runs:
        run.abandon()
    for run in runs:
        run.join()


def _forget() -> None:
    """A fork has none of its parent's threads."""
    for run in _living:
        run.is_copy = True
    _runs.clear()
    _living.clear()


atexit.register(_end_all)
if sys.platform != "win32":  # where nothing forks
    os.register_at_fork(after_in_child=_forget)
