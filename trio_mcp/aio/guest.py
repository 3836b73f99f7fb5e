"""A Trio run in the thread of an event loop, which calls it whenever there is something to do.

Two threads take the interpreter from each other, so that a request that crosses to a thread and
back waits for both of them. So what a loop serves runs in turns of that loop. A turn does all that
was posted since the one before.

`trio.lowlevel.start_guest_run` would wait for input and output in threads that it starts for
that. Here the loop waits for it: it watches the descriptor of Trio's own selector. Trio has no
public names for that, so where they are missing, or the loop cannot watch descriptors, there is a
thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import selectors
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from operator import attrgetter
from typing import Any, Final, TypeVar

import trio

from trio_mcp.aio.crossing import Message
from trio_mcp.aio.run import EXIT_PATIENCE, ThreadRun, TrioRun
from trio_mcp.loggers import logger_of

try:
    from trio._core import _run
except ImportError:
    _trio: Any = None
else:
    _trio = _run

_SELECTOR: Final = "_epoll" if sys.platform == "linux" else "_kqueue"  # on Windows, neither
_needed: Final = attrgetter(
    "GLOBAL_RUN_CONTEXT",
    "GuestState.runner",
    "GuestState.unrolled_run_gen",
    "Runner.io_manager",
    "Runner.main_task_outcome",
    "TheIOManager.get_events",
    f"TheIOManager.{_SELECTOR}",
    "sniffio_library",
)

T = TypeVar("T")
logger = logger_of("trio_mcp.aio")


class GuestRun(TrioRun):
    """A Trio run that is driven by its event loop, or, once that is closed, by what closes it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._turns = threading.Lock()
        self._is_inside = self._is_due = False
        self._alarm: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._over = threading.Event()
        self._here: dict[str, Any] = {}
        """What Trio keeps for its thread; outside of a turn, the thread has no run."""
        self._hooks: Any = sys.get_asyncgen_hooks()
        super().__init__(loop)

    def _start(self) -> None:
        ticks: list[Any] = []
        contextvars.Context().run(self._inside, lambda: self._begin(ticks.append))
        state = ticks[0].__self__
        self._runner, io = state.runner, state.runner.io_manager
        self._run: Generator[float, Any, None] = state.unrolled_run_gen
        self._events: Callable[[float], Any] = io.get_events
        self._descriptor: int = getattr(io, _SELECTOR).fileno()
        self._loop.add_reader(self._descriptor, self._drive)
        self._drive_soon()

    def _begin(self, on_tick: Callable[[Any], None]) -> None:
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=on_tick,
            done_callback=lambda _: None,
            host_uses_signal_set_wakeup_fd=True,
        )

    # -- turns ----------------------------------------------------------------------------

    def _drive(self) -> None:
        """Have a turn, and the next one in time."""
        if self.is_copy:  # what is under way belongs to the other process
            return
        seconds = self._turn()
        if self.is_over:
            return
        if seconds <= 0:
            self._drive_soon()
            return
        due = time.monotonic() + seconds
        if self._alarm is None or due < self._due:
            if self._alarm is not None:
                self._alarm.cancel()
            self._due, self._alarm = due, self._loop.call_later(seconds, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        self._drive()

    def _drive_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._on_due)

    def _on_due(self) -> None:
        self._is_due = False  # only here: any other turn would have one more follow, each time
        self._drive()

    def _turn(self) -> float:
        """Do what was posted, what tasks can do now, and what they tell; return when to go on."""
        with self._turns:
            try:
                return 0 if self.is_over else self._inside(self._step)
            finally:
                if not self.is_orphan:
                    self._to_loop.empty()

    def _step(self) -> float:
        if self._token is not None:  # or else `_main` does it, when there is a nursery
            self._to_trio.empty()
        try:
            try:
                return self._run.send(self._events(0))
            except StopIteration:
                self._runner.main_task_outcome.unwrap()
        except BaseException as error:
            if BaseExceptionGroup("", [error]).subgroup(KeyboardInterrupt) is not None:
                self._end()
                raise KeyboardInterrupt from None  # caught by Trio, and meant for the program
            logger.critical("The Trio run beside asyncio has crashed", exc_info=True)
        self._end()
        return 0

    def _inside(self, function: Callable[[], T]) -> T:
        """Call a function as if this thread were Trio's."""
        thread, library = vars(_trio.GLOBAL_RUN_CONTEXT), _trio.sniffio_library
        outside, name, hooks = dict(thread), library.name, sys.get_asyncgen_hooks()
        thread.clear()
        thread.update(self._here)
        sys.set_asyncgen_hooks(*self._hooks)
        library.name, self._is_inside = "trio", True
        try:
            return function()
        finally:
            self._here, self._hooks = dict(thread), sys.get_asyncgen_hooks()
            library.name, self._is_inside = name, False
            sys.set_asyncgen_hooks(*hooks)
            thread.clear()
            thread.update(outside)

    # -- from either side -----------------------------------------------------------------

    def post_threadsafe(self, message: Message) -> None:
        with suppress(RuntimeError):  # the loop is closed; `abandon` ends this
            self._loop.call_soon_threadsafe(self.post, message)

    def _wake_trio(self, empty: Message) -> None:
        self._drive_soon()

    def _wake_loop(self, empty: Message) -> None:
        if not self._is_inside:  # or else it is called at the end of the turn
            self._loop.call_soon_threadsafe(empty)

    # -- the end --------------------------------------------------------------------------

    def abandon(self) -> None:
        if self._loop.is_running():
            self.post_threadsafe(self._orphan)
        else:
            self.post(self._orphan)
            self.join()

    def join(self) -> None:
        """Wait for its end, or run it to its end where the loop does not."""
        end = time.monotonic() + EXIT_PATIENCE
        if self._loop.is_running() and not self.is_copy:
            self._over.wait(EXIT_PATIENCE)
        while not (self.is_over or self.is_copy) and (left := end - time.monotonic()) > 0:
            self._rest(min(self._turn(), left))

    def _rest(self, seconds: float) -> None:
        """Wait for the descriptor. Another thread may not end the run meanwhile, and close it."""
        with self._turns, selectors.DefaultSelector() as selector:
            if not self.is_over:
                selector.register(self._descriptor, selectors.EVENT_READ)
                selector.select(seconds)

    def _end(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        with suppress(RuntimeError):  # if the loop is closed
            self._loop.remove_reader(self._descriptor)
        super()._end()
        self._over.set()


def run_of_servers() -> type[TrioRun]:
    """Return what runs apps: a guest, if loops watch descriptors and Trio has the names for it."""
    try:
        _needed(_trio)
    except AttributeError:
        return ThreadRun
    return GuestRun


RUN_OF_SERVERS: Final = run_of_servers()
