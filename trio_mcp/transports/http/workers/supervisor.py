"""The parent: it starts workers, starts others in place of those that die, and ends them all.

It knows processes, signals and sums, and nothing of what is served. Its channel to each worker is
also what ties them together: when the parent is gone, however that happened, the channel ends, and
with it the worker.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from typing import Any, Final

import trio
from attrs import define, field

from trio_mcp.backoff import backoff
from trio_mcp.loggers import logger_of
from trio_mcp.system import flags
from trio_mcp.system.notify import NOTIFY_SOCKET, notify
from trio_mcp.system.signals import ENDING, end_by
from trio_mcp.transports.http.workers.channel import (
    ENVIRONMENT,
    Channel,
    Report,
    Snapshot,
    add,
    note_servers,
)

logger = logger_of("trio_mcp.http")

_START_TIMEOUT: Final = 60.0
"""Seconds that a worker has to import the program and open its lifespan, until it listens."""
_QUICK: Final = 1.0
"""A worker that listened for fewer seconds has died at once."""
_MOST_DEAF: Final = 6
"""Workers that may end before they listen, one after the other in the same slot."""
_FIRST_DELAY: Final = 0.1
_MOST_DELAY: Final = 1.0
"""Seconds until a worker is replaced that had listened: that it dies may be a client's doing."""
_MOST_DEAF_DELAY: Final = 10.0
_REPORT_TIMEOUT: Final = 1.0
_LEAST_SILENCE: Final = 2.0
"""Seconds for which the loop of a worker that is to stop may not answer, beside the grace."""
_TERMINATE_TIMEOUT: Final = 5.0
_HANGUP: Final[int] = getattr(signal, "SIGHUP", 0)  # which Windows does not have, nor workers


@define(eq=False)
class Child:
    """A worker, as the parent sees it."""

    process: trio.Process
    channel: Channel
    ready: float | None = None
    stopping: bool = False
    left: bool = False
    """It has served, has reported for the last time, and answers no more."""
    ended: bool = False
    report: Report = field(factory=lambda: Report(metrics={}, servers={}))
    asked: bool = False
    _changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)

    def changed(self) -> None:
        self._changed.unpark_all()

    async def until(self, what: Callable[[Child], bool]) -> None:
        while not (self.ended or what(self)):
            await self._changed.park()

    def stop(self) -> None:
        self.stopping = True
        self.channel.tell(stop=True)
        self.changed()

    @property
    def is_live(self) -> bool:
        return self.ready is not None and not self.stopping and not self.ended

    @property
    def died_at_once(self) -> bool:
        return self.ready is None or trio.current_time() - self.ready < _QUICK

    @property
    def status(self) -> int:
        """The exit status to end with because of it, as a shell would give it."""
        code = self.process.returncode or 1  # it was to serve, so even 0 is none of success
        return code if code > 0 else 128 - code

    @property
    def end(self) -> str:
        code = self.process.returncode or 0
        how = f"was killed by signal {-code}" if code < 0 else f"exited with status {code}"
        return how if self.ready is not None else f"{how} before it listened"


class Supervisor:
    """Runs a program in several processes, with listeners that are closed when they are to stop.

    `settings` are what workers get first, and `timeout` the seconds that one has to stop; `grace`
    the seconds for which its loop may not answer meanwhile.
    """

    def __init__(
        self,
        number: int,
        listeners: Sequence[trio.abc.Listener[Any]],
        settings: dict[str, Any],
        timeout: float,
        grace: float,
    ) -> None:
        self._slots: list[Child | None] = [None] * number
        self._children: set[Child] = set()  # those as well that have been replaced, and drain
        self._listeners = listeners
        sockets: list[Any] = [getattr(one, "transport_listener", one) for one in listeners]
        self._fds: list[int] = [listener.socket.fileno() for listener in sockets]
        since = time.monotonic()  # by a clock that all processes of the machine have
        ours = {"sockets": self._fds, "timeout": timeout, "since": since}
        self._settings = {**settings, **ours}
        self._timeout = timeout
        self._silence = grace + _LEAST_SILENCE
        self.counted: Final[Snapshot] = {}
        """What workers have counted that have ended."""
        self._has_listened = False  # any worker, ever
        self._stop = trio.Event()
        self._hangups = trio.Event()
        self._ended = trio.lowlevel.ParkingLot()
        self._failed: Child | None = None
        self._last_signal = 0

    def stop(self) -> None:
        self._stop.set()

    async def run(self, started: Callable[[], None]) -> None:
        """Keep the workers running until stopped or cancelled."""
        async with trio.open_nursery() as self._processes:
            await self._processes.start(self._heed_signals)
            async with trio.open_nursery() as keepers:
                keepers.start_soon(self._start_all, keepers, started)
                await self._stop.wait()
                keepers.cancel_scope.cancel()
            notify("STOPPING=1")
            await self._end_all()
            self._processes.cancel_scope.cancel()

    def leave(self) -> None:
        """End this process as well if it has to tell its own parent why, when all is cleaned up.

        Raises:
            SystemExit: Workers ended before they listened, again and again; with the status of the
                last one.
        """
        if self._last_signal:
            end_by(self._last_signal)
        if self._failed is not None:
            raise SystemExit(self._failed.status)

    # -- the slots -----------------------------------------------------------------------

    async def _start_all(self, keepers: trio.Nursery, started: Callable[[], None]) -> None:
        first, *others = range(len(self._slots))
        await keepers.start(self._keep, first)  # alone: what is wrong at all is said once
        async with trio.open_nursery() as starting:
            for slot in others:
                starting.start_soon(keepers.start, self._keep, slot)
        notify("READY=1")
        started()
        keepers.start_soon(self._reload_at_hangups)

    async def _keep(self, slot: int, task_status: trio.TaskStatus[None]) -> None:
        quick = deaf = 0
        child = self._slots[slot] = await self._spawn()
        while True:
            await child.until(lambda child: child.ready is not None)
            if child.ready is not None and task_status is not trio.TASK_STATUS_IGNORED:
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
            await child.until(lambda child: False)
            if self._slots[slot] is child:
                quick = quick + 1 if child.died_at_once else 0
                deaf = deaf + 1 if child.ready is None else 0
                await self._back_off(child, quick, deaf)
            if self._slots[slot] is child:  # or a reload has put another one there
                fresh = await self._spawn()
                if self._slots[slot] is child:
                    self._slots[slot] = fresh
                else:
                    fresh.stop()
            child = self._in(slot)

    async def _back_off(self, child: Child, quick: int, deaf: int) -> None:
        if deaf > _MOST_DEAF or (deaf and not self._has_listened):
            logger.critical("A worker %s; the server ends", child.end)
            self._failed = child
            self.stop()
            await trio.sleep_forever()  # which is cancelled
        delay = backoff(quick + 1, _FIRST_DELAY, _MOST_DEAF_DELAY if deaf else _MOST_DELAY)
        logger.error("A worker %s; the next one starts in %.1f s", child.end, delay)
        await trio.sleep(delay)

    def _in(self, slot: int) -> Child:
        child = self._slots[slot]
        assert child is not None
        return child

    async def _reload_at_hangups(self) -> None:
        while True:
            await self._hangups.wait()
            self._hangups = trio.Event()
            notify("RELOADING=1")
            await self._reload()
            notify("READY=1")

    async def _reload(self) -> None:
        """Replace the workers, each when the new one listens; none, if new ones do not."""
        for slot in range(len(self._slots)):
            fresh = await self._spawn()
            await fresh.until(lambda child: child.ready is not None)
            if fresh.ended:
                logger.error("A new worker %s; the old ones stay", fresh.end)
                return
            old, self._slots[slot] = self._in(slot), fresh
            old.stop()
            self._tell_live()
        logger.info("The workers were replaced")

    # -- processes ------------------------------------------------------------------------

    async def _spawn(self) -> Child:
        while True:
            try:
                ours, theirs = socket.socketpair()
                with theirs:
                    try:
                        process = await self._run_again(theirs.fileno())
                    except BaseException:
                        ours.close()
                        raise
            except OSError as error:  # no descriptors, memory or processes, for the moment
                logger.error("Cannot start a worker: %s", error)
                await trio.sleep(_MOST_DEAF_DELAY)
            else:
                break
        child = Child(process, Channel(ours))
        child.channel.tell(settings=self._settings)
        self._children.add(child)
        self._processes.start_soon(self._attend, child)
        return child

    async def _run_again(self, fd: int) -> trio.Process:
        kept = {key: each for key, each in os.environ.items() if key != NOTIFY_SOCKET}
        options: dict[str, Any] = {  # which Windows does not have, but neither has it workers
            "stdin": subprocess.DEVNULL,
            "pass_fds": (fd, *self._fds),
            "env": {**kept, ENVIRONMENT: str(fd)},
            "start_new_session": True,  # Ctrl-C is for the parent, which then stops them once
        }
        return await trio.lowlevel.open_process([sys.executable, *sys.orig_argv[1:]], **options)

    async def _attend(self, child: Child) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(child.channel.send_news)
                nursery.start_soon(self._kill_if_late, child)
                heard = trio.Event()
                nursery.start_soon(self._hear, child, heard)
                await child.process.wait()
                with trio.move_on_after(_REPORT_TIMEOUT):
                    await heard.wait()  # its last words
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await _end(child.process)
                await child.channel.aclose()
            add(self.counted, child.report["metrics"], ended=True)
            self._children.discard(child)
            child.ended = True
            child.changed()
            self._ended.unpark_all()
            self._tell_live()

    async def _kill_if_late(self, child: Child) -> None:
        with trio.move_on_after(_START_TIMEOUT):
            await child.until(lambda child: child.ready is not None)
        if child.ready is None:
            logger.error("A worker does not listen after %.0f s", _START_TIMEOUT)
            child.process.kill()
        await child.until(lambda child: child.stopping)
        what = "A worker does not end"
        with trio.move_on_after(self._timeout):
            await self._fall_silent(child)
            what = "The loop of a worker does not answer"
        logger.error("%s; it is killed", what)
        child.process.kill()

    async def _fall_silent(self, child: Child) -> None:
        """Wait until the loop of a worker, which a call of its may block, does not answer."""
        while True:
            child.asked = True
            child.channel.tell(ask=True)
            with trio.move_on_after(self._silence) as waiting:
                await child.until(lambda child: child.left or not child.asked)
            if waiting.cancelled_caught:
                return
            await trio.sleep(inf if child.left else _REPORT_TIMEOUT)

    async def _end_all(self) -> None:
        for listener in self._listeners:
            await listener.aclose()
        for child in self._children:
            child.channel.tell(ending=True)
            child.stop()
        while self._children:
            await self._ended.park()

    # -- what workers tell ----------------------------------------------------------------

    async def _hear(self, child: Child, heard: trio.Event) -> None:
        async for message in child.channel.messages():
            if "ready" in message:
                child.ready = trio.current_time()
                self._has_listened = True
                self._tell_live()
            if "report" in message:
                child.report, child.asked = message["report"], False
                child.left = "left" in message
            if "sum" in message:
                self._processes.start_soon(self._tell_total, child)
            child.changed()
        heard.set()

    def _tell_live(self) -> None:
        live = sum(child.is_live for child in self._children)
        for child in self._children:
            child.channel.tell(live=live)

    async def _tell_total(self, asker: Child) -> None:
        """Tell a worker what all of them have counted; of one that is stuck, what it told last."""
        for child in self._children:
            if child.ready is not None and not child.asked:
                child.asked = True
                child.channel.tell(ask=True)
        with trio.move_on_after(_REPORT_TIMEOUT):
            for child in list(self._children):
                await child.until(lambda child: not child.asked)
        total = Report(metrics={}, servers={})
        add(total["metrics"], self.counted)
        for child in self._children:
            add(total["metrics"], child.report["metrics"])
            if child.is_live:
                note_servers(total["servers"], child.report["servers"])
        asker.channel.tell(total=total)

    # -- signals --------------------------------------------------------------------------

    async def _heed_signals(self, task_status: trio.TaskStatus[None]) -> None:
        wanted = [*ENDING, _HANGUP]
        heeded = [number for number in wanted if signal.getsignal(number) is not signal.SIG_IGN]
        had_terminal = _has_terminal()
        with trio.open_signal_receiver(*heeded) as received:
            task_status.started()
            async for number in received:
                if number == _HANGUP and (_has_terminal() or not had_terminal):
                    self._hangups.set()
                elif not self._stop.is_set():
                    self._stop.set()
                else:
                    self._last_signal = number
                    for child in self._children:
                        child.process.kill()


@contextmanager
def shared_settings(private_store: bool) -> Iterator[dict[str, object]]:
    """What workers are to share during the block: a store too, if they have none yet."""
    if not private_store:
        yield {"folder": None, "store": None}
        return
    # What a worker may still be removing, or writing when it was killed, is no reason to fail.
    with tempfile.TemporaryDirectory(prefix="trio-mcp-", ignore_cleanup_errors=True) as folder:
        yield {"folder": folder, "store": os.path.join(folder, "store.db")}


def _has_terminal() -> bool:
    """Whether there is a terminal by which it could be stopped: SIGHUP also says that it closed."""
    with suppress(OSError):
        os.close(os.open("/dev/tty", os.O_RDWR | flags.NOCTTY))
        return True
    return False


async def _end(process: trio.Process) -> None:
    if process.returncode is None:
        process.terminate()
        with trio.move_on_after(_TERMINATE_TIMEOUT):
            await process.wait()
        process.kill()
        await process.wait()
