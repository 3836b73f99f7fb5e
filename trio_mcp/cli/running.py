"""Running a command in Trio, so that Ctrl-C ends it in good order."""

from __future__ import annotations

import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TypeVar

import trio

from trio_mcp.background import background_nursery
from trio_mcp.cli.failures import Interrupted
from trio_mcp.system.signals import ENDING, end_by

T = TypeVar("T")


def run_async(
    main: Callable[[], Awaitable[T]], *, on_interrupt: Callable[[], bool] | None = None
) -> T:
    """Run an asynchronous function. The first SIGINT or SIGTERM cancels it, the second one kills.

    What was cancelled so raises `Interrupted`, unless `on_interrupt` returns true for a SIGINT.
    """
    return trio.run(partial(_interruptible, main, on_interrupt or (lambda: False)))


async def _interruptible(main: Callable[[], Awaitable[T]], on_interrupt: Callable[[], bool]) -> T:
    if threading.current_thread() is not threading.main_thread():
        return await main()
    status = 0

    async def watch(signals: AsyncIterator[int]) -> None:
        nonlocal status
        async for number in signals:
            if number == signal.SIGINT and on_interrupt():
                continue
            if status:  # it does not end, so the system shall end it
                end_by(number)
            status = 128 + number
            scope.cancel()

    minded = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    scope = trio.CancelScope()
    with trio.open_signal_receiver(*minded) as signals:
        async with background_nursery(partial(watch, signals)):
            with scope:
                return await main()
    raise Interrupted(status)
