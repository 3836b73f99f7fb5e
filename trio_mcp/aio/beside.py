"""An event loop beside a Trio run: for handlers on asyncio where no program on asyncio serves them.

It runs in a thread of its own for as long as something uses it. A thread, and not a task in a
nursery, because the one who opened it first need not be the one who closes it last.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from trio_mcp.aio.crossing import Crossing, current_crossing
from trio_mcp.loggers import logger_of

logger = logger_of("trio_mcp.aio")

_PATIENCE: Final = 5.0
"""Seconds that the tasks of the loop have to end, once they are cancelled."""


class LoopBeside(Crossing):
    """The way to an event loop that was started for this Trio run."""

    def __init__(self) -> None:
        super().__init__(asyncio.new_event_loop())
        self._token = trio.lowlevel.current_trio_token()
        self._stopping = asyncio.Event()
        self._ended = trio.Event()
        self._thread = threading.Thread(target=self._run, name="trio-mcp asyncio", daemon=True)
        self.users = 0

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """Cancel what is left in the loop, as `asyncio.run` does, and wait for its end."""
        self.tell(self._stopping.set)
        with trio.move_on_after(_PATIENCE, shield=True):
            await self._ended.wait()
            self._thread.join()  # it has nothing left to do
            return
        logger.error("A task of asyncio ignores its cancellation; its event loop is left to itself")

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._stopping.wait())
        except BaseException:
            logger.critical("The event loop beside Trio has crashed", exc_info=True)
        self.post(self._end)

    def _end(self) -> None:
        self.is_over = True
        self.give_up()
        self._ended.set()


@asynccontextmanager
async def loop_beside_trio() -> AsyncIterator[None]:
    """Have an event loop beside this Trio run for the block: the one that is there, or a new one.

    The last block that uses a new one stops it. At most five seconds are shielded from cancellation
    for that.
    """
    crossing = current_crossing.get()
    if crossing is None:
        crossing = LoopBeside()
        current_crossing.set(crossing)
        crossing.start()
    if not isinstance(crossing, LoopBeside):
        yield  # a program on asyncio has it, for longer than this
        return
    crossing.users += 1
    try:
        yield
    finally:
        crossing.users -= 1
        if not crossing.users:
            current_crossing.set(None)
            await crossing.stop()
