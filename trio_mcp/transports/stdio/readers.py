"""Receive streams over a file descriptor of any kind.

Strategy: read what is there, and wait only if there is nothing; under load that saves
the wait, and a quick client's next message is often there already.  A pipe or terminal
is read through a non-blocking description of our own, so that another process that was
quicker costs a retry and not a blocked event loop; it is waited for on the inherited one,
which knows whether a writer was ever there.  Where it cannot be opened anew, it is read
only once it is readable.  A socket takes the wish not to block per call.  What cannot be
waited for is read in a worker thread that cancellation abandons; a regular file is read
there by position, and the position moves only once the bytes have arrived, so that an
abandoned read loses nothing.
"""

import errno
import os
import socket
from abc import abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import trio

from trio_mcp.transports.stdio.descriptors import Kind, Lease, allows, duplicate, kind_of, reopen
from trio_mcp.transports.stdio.guard import Guard
from trio_mcp.transports.stdio.sockets import adopt

CHUNK = 65536  # bytes; what a pipe holds on Linux

# A terminal that was hung up and a socket whose client died: nobody is there any more.
_CLIENT_IS_GONE = frozenset({errno.EIO, errno.ECONNRESET})


class Reader(trio.abc.ReceiveStream):
    """The receiving end that all kinds share."""

    def __init__(self) -> None:
        self._guard = Guard("receive")

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Wait for bytes and return those that are there.

        Args:
            max_bytes: The most to return; 64 KiB when omitted.

        Returns:
            At least one byte, or ``b""`` at the end of input, which includes a terminal
            that was hung up and a socket whose client went away without a farewell.

        Raises:
            trio.BrokenResourceError: The descriptor cannot be read.
            trio.BusyResourceError: Another task is receiving.
            trio.ClosedResourceError: The stream is closed, before or meanwhile.

        Cancellation takes effect at once and loses no bytes, but for devices that can
        neither be waited for nor read by position.
        """
        size = CHUNK if max_bytes is None else max_bytes
        if size < 1:
            raise ValueError("max_bytes must be at least 1")
        with self._guard:
            try:
                return await self._read(size)
            except OSError as error:
                raise trio.BrokenResourceError("the input cannot be read") from error

    def close(self) -> None:
        """Close the stream now; closing it again does nothing."""
        if not self._guard.closed:
            self._guard.closed = True
            self._release()

    async def aclose(self) -> None:
        """Close the stream; a cancelled call closes it nonetheless."""
        self.close()
        await trio.lowlevel.checkpoint()

    @abstractmethod
    async def _read(self, size: int) -> bytes: ...

    @abstractmethod
    def _release(self) -> None: ...


class EmptyReader(Reader):
    """Stdin that was closed when the process started: at its end from the beginning."""

    async def _read(self, size: int) -> bytes:
        await trio.lowlevel.checkpoint()
        return b""

    def _release(self) -> None:
        pass


class PolledReader(Reader):
    """A pipe, socket or terminal.

    Args:
        fd: The descriptor to wait for.
        read: Reads up to so many bytes; raises `BlockingIOError` if there are none.
        resources: What to close in the end.
        wait_first: Whether *read* may only be called once *fd* is readable.
    """

    def __init__(
        self,
        fd: int,
        read: Callable[[int], bytes],
        resources: ExitStack,
        *,
        wait_first: bool = False,
    ) -> None:
        super().__init__()
        self._wait_first = wait_first
        self._fd = fd
        self._read_now = read
        self._resources = resources

    async def _read(self, size: int) -> bytes:
        await trio.lowlevel.checkpoint_if_cancelled()
        data = None if self._wait_first else self._read_some(size)
        if data is not None:
            # It is taken from the pipe: no cancellation may lose it.
            await trio.lowlevel.cancel_shielded_checkpoint()
            return data
        while data is None:
            await trio.lowlevel.wait_readable(self._fd)
            self._guard.check_open()  # it may have been closed since the wake-up
            data = self._read_some(size)
        return data

    def _read_some(self, size: int) -> bytes | None:
        try:
            return self._read_now(size)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno in _CLIENT_IS_GONE:
                return b""
            raise

    def _release(self) -> None:
        trio.lowlevel.notify_closing(self._fd)
        self._resources.close()


class ThreadReader(Reader):
    """A regular file, or a device that cannot be waited for.

    Args:
        fd: The descriptor; the reader owns it.
        by_position: Whether it has a position to read at.
    """

    def __init__(self, fd: int, *, by_position: bool) -> None:
        super().__init__()
        self._lease = Lease(fd)
        self._fetch = self._read_at_position if by_position else self._read_in_thread
        # Its own, so that stuck tools cannot keep it waiting; one, so that a read waits
        # for an abandoned one before it.
        self._limiter = trio.CapacityLimiter(1)
        self._scope = trio.CancelScope()

    async def _read(self, size: int) -> bytes:
        with trio.CancelScope() as self._scope:
            return await self._fetch(size)
        raise trio.ClosedResourceError("this stream was closed meanwhile")

    async def _read_in_thread(self, size: int) -> bytes:
        return await self._run(lambda fd: os.read(fd, size))

    async def _read_at_position(self, size: int) -> bytes:
        with self._lease as fd:
            position = os.lseek(fd, 0, os.SEEK_CUR)
            data = await self._run(lambda fd: os.pread(fd, size, position))
            os.lseek(fd, position + len(data), os.SEEK_SET)
        return data

    async def _run(self, read: Callable[[int], bytes]) -> bytes:
        return await trio.to_thread.run_sync(
            _borrowing, self._lease, read, abandon_on_cancel=True, limiter=self._limiter
        )

    def _release(self) -> None:
        self._scope.cancel()
        self._lease.close()


def _borrowing(lease: Lease, read: Callable[[int], bytes]) -> bytes:
    with lease as fd:
        return read(fd)


def _open_pipe_or_terminal(fd: int) -> Reader:
    with ExitStack() as resources:
        shared = duplicate(fd)
        resources.callback(os.close, shared)
        private = reopen(shared, os.O_RDONLY)
        if private is None:
            # Blocking, but there is something to read unless another process is quicker.
            read = partial(os.read, shared)
            return PolledReader(shared, read, resources.pop_all(), wait_first=True)
        resources.callback(os.close, private)
        return PolledReader(shared, partial(os.read, private), resources.pop_all())


def _open_socket(fd: int) -> Reader:
    with ExitStack() as resources:
        sock = resources.enter_context(adopt(duplicate(fd)))

        def read(size: int) -> bytes:
            return sock.recv(size, socket.MSG_DONTWAIT)

        return PolledReader(sock.fileno(), read, resources.pop_all())


def _open_file(fd: int) -> Reader:
    return ThreadReader(duplicate(fd), by_position=True)


def _open_other(fd: int) -> Reader:
    return ThreadReader(duplicate(fd), by_position=False)


_OPENERS: dict[Kind, Callable[[int], Reader]] = {
    Kind.PIPE: _open_pipe_or_terminal,
    Kind.TERMINAL: _open_pipe_or_terminal,
    Kind.SOCKET: _open_socket,
    Kind.FILE: _open_file,
    Kind.OTHER: _open_other,
}


def open_reader(fd: int | None) -> Reader:
    """Open a receive stream over a copy of *fd*; it is empty if *fd* cannot be read.

    Must be closed within the same `trio.run`.
    """
    if fd is None or not allows(fd, os.O_RDONLY):
        return EmptyReader()
    return _OPENERS[kind_of(fd)](fd)
