"""What the readers and the writers of descriptors have in common.

An end is one direction of a stream: used by one task at a time, and never after closing.  There
are two ways to wait for a descriptor, each a base class here: ask the event loop when it is ready,
or leave the waiting to a worker thread.
"""

from collections.abc import Awaitable, Callable
from typing import ClassVar, Generic, TypeVar

import trio

from trio_mcp.transports.stdio.descriptors import Lease

T = TypeVar("T")
From = TypeVar("From")
To = TypeVar("To")


class Guard:
    """Refuses a second task and a closed stream; wrap every operation in ``with guard``."""

    def __init__(self, use: str) -> None:
        self.closed = False
        self._busy = False
        self._use = use

    def __enter__(self) -> None:
        self.check_open()
        if self._busy:
            raise trio.BusyResourceError(f"another task is using this stream to {self._use}")
        self._busy = True

    def __exit__(self, *_: object) -> None:
        self._busy = False

    @property
    def idle(self) -> bool:
        return not (self.closed or self._busy)

    def check_open(self) -> None:
        if self.closed:
            raise trio.ClosedResourceError("this stream is closed")


class End(trio.abc.AsyncResource):
    """One direction of a stream over a descriptor."""

    _use: ClassVar[str]

    def __init__(self) -> None:
        self._guard = Guard(self._use)

    def close(self) -> None:
        if not self._guard.closed:
            self._guard.closed = True
            self._release()

    async def aclose(self) -> None:
        """Close the stream; a cancelled call closes it nonetheless."""
        self.close()
        await trio.lowlevel.checkpoint()

    def _release(self) -> None:
        """Let go of the descriptor, and wake the task that waits for it, if there are any."""


class PolledEnd(End, Generic[From, To]):
    """An end of a pipe, socket or terminal, which the event loop can wait for.

    Args:
        fd: The descriptor to wait for.
        call: Reads up to so many bytes, or writes some of its argument; raises `BlockingIOError` if
            there are none, or it takes nothing.
        close: Lets go of the descriptor, in the end.
        wait_first: Whether *call* may only be called once *fd* is ready.
    """

    def __init__(
        self,
        fd: int,
        call: Callable[[From], To],
        close: Callable[[], object],
        *,
        wait_first: bool = False,
    ) -> None:
        super().__init__()
        self._fd = fd
        self._call = call
        self._close = close
        self._wait_first = wait_first

    def fileno(self) -> int:
        return -1 if self._guard.closed else self._fd

    def _release(self) -> None:
        trio.lowlevel.notify_closing(self._fd)
        self._close()


class ThreadEnd(End):
    """An end, and owner, of a regular file or a device that cannot be waited for."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._lease = Lease(fd)
        # Its own, so that stuck tools cannot keep it waiting; one, so that a call waits
        # for an abandoned one before it.
        self._limiter = trio.CapacityLimiter(1)
        self._scope = trio.CancelScope()

    async def _until_closed(self, work: Callable[[], Awaitable[T]]) -> T:
        with trio.CancelScope() as self._scope:
            return await work()
        raise trio.ClosedResourceError("this stream was closed meanwhile")

    async def _in_thread(self, call: Callable[[int], T], *, abandon: bool = True) -> T:
        def borrowing() -> T:
            with self._lease as fd:
                return call(fd)

        return await trio.to_thread.run_sync(
            borrowing, abandon_on_cancel=abandon, limiter=self._limiter
        )

    def _release(self) -> None:
        self._scope.cancel()
        self._lease.close()
