"""Receive streams over a file descriptor of any kind.

Strategy: read first, and wait only if there is nothing; under load that saves
the wait, and a quick client's next message is often there already.  A pipe or terminal
is read through a non-blocking description of our own, so that another process that was
quicker costs a retry and not a blocked event loop; it is waited for on the inherited one,
which knows whether a writer was ever there.  Where it cannot be opened again, it is read
only once it is readable.  A socket takes the wish not to block per call.  What cannot be
waited for is read in a worker thread that cancellation abandons; what that brings is kept
for the next read.  A regular file is read there by position, and the position moves only
once the bytes have arrived, so that an abandoned read takes nothing from other readers.
"""

import errno
import os
from abc import abstractmethod
from functools import partial

import trio

from trio_mcp.system.descriptors import allows, duplicate, read_at
from trio_mcp.transports.stdio.descriptors import DONTWAIT, Kind, adopt, kind_of, reopen
from trio_mcp.transports.stdio.ends import End, PolledEnd, ThreadEnd

CHUNK = 65536  # bytes; what a pipe holds on Linux

# A terminal that was hung up and a socket whose client died: the other end is gone.
_CLIENT_IS_GONE = frozenset({errno.EIO, errno.ECONNRESET})


class Reader(End, trio.abc.ReceiveStream):
    """The receiving end that all kinds share."""

    _use = "receive"

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Wait for bytes and return those that are there.

        Returns:
            At least one byte, or ``b""`` at the end of input, which includes a terminal
            that was hung up and a socket whose client went away without a farewell.

        Raises:
            trio.BrokenResourceError: The descriptor cannot be read.
            trio.BusyResourceError: Another task is receiving.
            trio.ClosedResourceError: The stream is closed, before or meanwhile.

        Cancellation takes effect at once and loses no bytes; but if the stream is closed then,
        devices that can neither be waited for nor read by position lose what comes next.
        """
        size = CHUNK if max_bytes is None else max_bytes
        if size < 1:
            raise ValueError("max_bytes must be at least 1")
        with self._guard:
            try:
                return await self._read(size)
            except OSError as error:
                raise trio.BrokenResourceError("the input cannot be read") from error

    @abstractmethod
    async def _read(self, size: int) -> bytes: ...


class EmptyReader(Reader):
    """Stdin that was closed when the process started: at its end from the beginning."""

    async def _read(self, size: int) -> bytes:
        await trio.lowlevel.checkpoint()
        return b""


class PolledReader(PolledEnd[int, bytes], Reader):
    """A pipe, socket or terminal."""

    _emptied = False  # the last read took all that there was

    async def _read(self, size: int) -> bytes:
        data = None
        if not (self._wait_first or self._emptied):
            await trio.lowlevel.checkpoint_if_cancelled()
            data = self._read_some(size)
            if data is not None:
                # It is taken from the pipe: no cancellation may lose it.
                await trio.lowlevel.cancel_shielded_checkpoint()
        while data is None:
            await trio.lowlevel.wait_readable(self._fd)
            self._guard.check_open()  # it may have been closed since the wake-up
            data = self._read_some(size)
        return data

    def _read_some(self, size: int) -> bytes | None:
        try:
            data = self._call(size)
            self._emptied = len(data) < size
            return data
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno in _CLIENT_IS_GONE:
                return b""
            raise


class ThreadReader(ThreadEnd, Reader):
    """A regular file, which is read at its position, or a device that cannot be waited for."""

    def __init__(self, fd: int, *, by_position: bool) -> None:
        super().__init__(fd)
        self._fetch = self._read_at_position if by_position else self._read_in_thread
        self._left = b""  # what came for a read that had been cancelled meanwhile

    async def _read(self, size: int) -> bytes:
        return await self._until_closed(partial(self._fetch, size))

    async def _read_in_thread(self, size: int) -> bytes:
        def fetch(fd: int) -> None:
            if not self._left:  # of a thread that was abandoned, and was first
                self._left = os.read(fd, size)

        await self._in_thread(fetch)
        data, self._left = self._left[:size], self._left[size:]
        return data

    async def _read_at_position(self, size: int) -> bytes:
        with self._lease as fd:
            position = os.lseek(fd, 0, os.SEEK_CUR)
            data = await self._in_thread(lambda fd: read_at(fd, size, position))
            os.lseek(fd, position + len(data), os.SEEK_SET)
        return data


def open_reader(fd: int | None) -> Reader:
    """Open a receive stream over a copy of *fd*; it is empty if *fd* cannot be read.

    Must be closed within the same `trio.run`.
    """
    if fd is None or not allows(fd, os.O_RDONLY):
        return EmptyReader()
    kind = kind_of(fd)
    if kind in (Kind.PIPE, Kind.TERMINAL):
        return _open_pipe_or_terminal(fd)
    if kind is Kind.SOCKET:
        return _open_socket(fd)
    return ThreadReader(duplicate(fd), by_position=kind is Kind.FILE)


def _open_pipe_or_terminal(fd: int) -> Reader:
    shared = duplicate(fd)
    private = reopen(shared, os.O_RDONLY)
    if private is None:
        # Blocking, but there is something to read unless another process is quicker.
        close = partial(os.close, shared)
        return PolledReader(shared, partial(os.read, shared), close, wait_first=True)

    def close_both() -> None:
        os.close(private)
        os.close(shared)

    return PolledReader(shared, partial(os.read, private), close_both)


def _open_socket(fd: int) -> Reader:
    sock = adopt(duplicate(fd))
    return PolledReader(sock.fileno(), lambda size: sock.recv(size, DONTWAIT), sock.close)
