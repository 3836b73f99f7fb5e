"""A worker: whether there can be any, and what one does beside serving."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import trio

from trio_mcp.background import background_nursery
from trio_mcp.system import flags
from trio_mcp.system.capabilities import POLLS
from trio_mcp.system.lifeline import end_at_hangup
from trio_mcp.system.locks import share_lock, try_lock, unlock
from trio_mcp.transports.http.server import SharedListener
from trio_mcp.transports.http.workers.channel import ENVIRONMENT, Channel, Report

_TIMEOUT: Final = 2.0
"""Seconds that the parent has for an answer, or to take the last words."""


_AGAIN = {"": "the interactive interpreter", "-c": "python -c", "-": "a program on stdin"}


def check_workers(number: int, own_process: bool, listeners: object) -> None:
    """Make sure that there can be workers.

    Raises:
        ValueError: There cannot; the message says why, and what to do.
    """
    if type(number) is not int or number < 1:
        raise ValueError(f"workers must be 1 or more, not {number!r:.100}")
    if not POLLS:
        raise ValueError("there are no workers on Windows; start several servers at other ports")
    if not own_process:
        raise ValueError(
            "workers are processes that run this whole program again, so it must be the server's "
            "own: serve_http(..., workers=..., own_process=True)"
        )
    if listeners is not None:
        raise ValueError("workers share what serve_http opens; give host and port, or unix_socket")
    kind = _AGAIN.get(sys.argv[0] if sys.argv else "")
    if kind is not None or not sys.executable:
        raise ValueError(
            f"workers run this program again, and {kind or 'this interpreter'} cannot be; "
            "put it into a file, or use trio-mcp serve --workers"
        )
    if threading.current_thread() is not threading.main_thread():
        raise ValueError("workers are looked after by the main thread; call serve_http there")


async def join() -> Worker | None:
    """Become a worker if a parent has started this process as one.

    Raises:
        SystemExit: The parent has gone already.
    """
    fd = os.environ.pop(ENVIRONMENT, None)  # what is started from here is not a worker
    if fd is None:
        return None
    if sys.platform != "win32" and threading.current_thread() is threading.main_thread():
        # For the parent, but it may have been sent to all processes of that name.
        signal.signal(signal.SIGHUP, lambda *_: None)
    channel = Channel(_not_inherited(int(fd)))
    messages = channel.messages()
    async for first in messages:
        end_at_hangup(int(fd), first["settings"]["timeout"])
        return Worker(channel, messages, first)
    raise SystemExit("The server that has started this worker is gone.")


def _not_inherited(fd: int) -> socket.socket:
    sock = socket.socket(fileno=fd)
    sock.set_inheritable(False)
    return sock


class Worker:
    """This process, as one of several that serve."""

    def __init__(
        self, channel: Channel, messages: AsyncIterator[dict[str, Any]], first: dict[str, Any]
    ) -> None:
        self._channel = channel
        self._first = first
        self._messages = messages
        settings = first["settings"]
        self.listeners: Final = [SharedListener(_not_inherited(fd)) for fd in settings["sockets"]]
        self.store: Final[str] = settings["store"]
        """What all workers share, if the program has not said it."""
        self.since: Final[float] = settings["since"]
        """When the parent began, by `time.monotonic`."""
        self.live = 0
        self.ending = False
        """All workers end, and not just this one."""
        self._folder = _Folder(settings["folder"])
        self._report: Callable[[], Report]
        self._total: Report | None = None
        self._told = trio.lowlevel.ParkingLot()

    @asynccontextmanager
    async def serving(
        self, stop: Callable[[], None], report: Callable[[], Report]
    ) -> AsyncIterator[None]:
        """Listen to the parent during the block, and have its last word at the end."""
        self._report = report
        with self._folder:
            async with background_nursery(self._channel.send_news, partial(self._hear, stop)):
                yield
            with trio.move_on_after(_TIMEOUT, shield=True):
                self._channel.tell(report=report(), left=True)
                await self._channel.flush()

    def listens(self) -> None:
        self._channel.tell(ready=True)

    async def total(self) -> Report:
        """What all workers report; this one alone while the parent does not answer."""
        self._total = None
        self._channel.tell(sum=True)
        with trio.move_on_after(_TIMEOUT):
            while self._total is None:
                await self._told.park()
        return self._total or self._report()

    async def _hear(self, stop: Callable[[], None]) -> None:
        self._take(self._first, stop)  # it may end with `stop`: a reload was quicker
        async for message in self._messages:
            self._take(message, stop)
        self._folder.is_ours = self.ending = True  # the parent is gone, however that happened
        stop()

    def _take(self, message: dict[str, Any], stop: Callable[[], None]) -> None:
        self.live = message.get("live", self.live)
        self.ending = message.get("ending", self.ending)
        if "ask" in message:
            self._channel.tell(report=self._report())
        if "total" in message:
            self._total = message["total"]
            self._told.unpark_all()
        if "stop" in message:
            stop()


class _Folder:
    """The private folder of the workers, which the parent removes; without it, the last of them.

    Each has a lock on it that they share. The one that gets it alone is the last.
    """

    def __init__(self, path: str | None) -> None:
        self.is_ours = False
        self._path = path
        self._fd = -1

    def __enter__(self) -> None:
        if self._path is not None:
            self._fd = os.open(self._path, os.O_RDONLY | flags.DIRECTORY)
            share_lock(self._fd)

    def __exit__(self, *_: object) -> None:
        if self._path is None:
            return
        unlock(self._fd)  # or two that end together would keep each other out
        if self.is_ours and try_lock(self._fd):
            shutil.rmtree(self._path, ignore_errors=True)
        os.close(self._fd)
