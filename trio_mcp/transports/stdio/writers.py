"""Send streams over a file descriptor of any kind.

Strategy: write first, and wait only for what did not fit.  A pipe or terminal is written
through a non-blocking description of our own, a socket with the wish not to block given
per call.  A pipe that cannot be opened again gets pieces so small that, once it is
writable, they cannot block.  Everything else is written in a worker thread: a regular
file in pieces that are always finished; a device that may block forever is abandoned on
cancellation and is broken from then on, since there is no telling what it still takes.
"""

import os
import select
import socket
from abc import abstractmethod
from functools import partial

import trio

from trio_mcp.system.descriptors import allows, duplicate
from trio_mcp.transports.stdio.descriptors import DONTWAIT, Kind, adopt, kind_of, reopen
from trio_mcp.transports.stdio.ends import End, PolledEnd, ThreadEnd

Buffer = bytes | bytearray | memoryview
_ATOMIC: int = getattr(select, "PIPE_BUF", 512)  # bytes that fit if any do
PIECE = 1 << 20  # bytes; what a worker thread writes between two looks at cancellation


class Writer(End, trio.abc.SendStream):
    """The sending end that all kinds share."""

    _use = "send"

    async def send_all(self, data: Buffer) -> None:
        """Send all of *data*, waiting for as long as the other side takes.

        Raises:
            trio.BrokenResourceError: The other end is closed, or it cannot be written.
            trio.BusyResourceError: Another task is sending.
            trio.ClosedResourceError: The stream is closed, before or meanwhile.

        When it is cancelled, any part of *data* may have been sent; a piece (at most
        1 MiB) on its way to a regular file is finished first.
        """
        with self._guard:
            try:
                await self._write(data)
            except OSError as error:
                raise trio.BrokenResourceError("the output cannot be written") from error

    def send_nowait(self, data: Buffer) -> int:
        """Send as much of *data* as the other side takes at once, and return how much that was.

        It is nothing if the output is not of a kind that can tell, is in use by another task,
        closed or broken: `send_all` then says so.
        """
        return 0

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the output may take something; raises as `send_all` does."""
        with self._guard:
            await self._wait()

    @abstractmethod
    async def _write(self, data: Buffer) -> None: ...

    @abstractmethod
    async def _wait(self) -> None: ...


class BrokenWriter(Writer):
    """Stdout that was closed when the process started: broken from the beginning."""

    async def _write(self, data: Buffer) -> None:
        await self._wait()

    async def _wait(self) -> None:
        await trio.lowlevel.checkpoint()
        raise trio.BrokenResourceError("there is no output to write to")


class PolledWriter(PolledEnd[Buffer, int], Writer):
    """A pipe, socket or terminal."""

    def send_nowait(self, data: Buffer) -> int:
        if self._wait_first or not self._guard.idle:
            return 0
        try:
            return self._call(data)
        except OSError:
            return 0

    async def _write(self, data: Buffer) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        sent = 0 if self._wait_first else self._write_some(data)
        if sent == len(data):
            # It is done: no cancellation may claim otherwise.
            await trio.lowlevel.cancel_shielded_checkpoint()
            return
        with memoryview(data) as view:
            while sent < len(view):
                await self._wait()
                self._guard.check_open()  # it may have been closed since the wake-up
                sent += self._write_some(view[sent:])

    def _write_some(self, data: Buffer) -> int:
        try:
            return self._call(data)
        except BlockingIOError:
            return 0

    async def _wait(self) -> None:
        await trio.lowlevel.wait_writable(self._fd)


class ThreadWriter(ThreadEnd, Writer):
    """A regular file, or a device that cannot be waited for.

    Args:
        fd: The descriptor; the writer owns it.
        may_block: Whether a write can take forever, and must be abandoned when
            cancelled.
    """

    def __init__(self, fd: int, *, may_block: bool) -> None:
        super().__init__(fd)
        self._may_block = may_block
        self._broken = False

    async def _write(self, data: Buffer) -> None:
        await self._wait()
        await self._until_closed(partial(self._write_pieces, data))

    async def _write_pieces(self, data: Buffer) -> None:
        sent = 0
        while sent < len(data):
            self._guard.check_open()
            # A copy, since an abandoned thread may outlive the caller's buffer.
            sent += await self._write_piece(bytes(data[sent : sent + PIECE]))

    async def _write_piece(self, piece: bytes) -> int:
        try:
            return await self._in_thread(lambda fd: os.write(fd, piece), abandon=self._may_block)
        except trio.Cancelled:
            self._broken = self._may_block
            raise

    async def _wait(self) -> None:
        await trio.lowlevel.checkpoint()
        if self._broken:
            raise trio.BrokenResourceError("an earlier write was abandoned")


def open_writer(fd: int | None) -> Writer:
    """Open a send stream over a copy of *fd*; it is broken if *fd* cannot be written.

    Must be closed within the same `trio.run`.
    """
    if fd is None or not allows(fd, os.O_WRONLY):
        return BrokenWriter()
    kind = kind_of(fd)
    if kind is Kind.PIPE:
        return _open_private(fd) or _open_shared_pipe(fd)
    if kind is Kind.SOCKET:
        return _open_socket(fd)
    # A writable terminal may still have less room than any piece: hence a thread.
    private = _open_private(fd) if kind is Kind.TERMINAL else None
    return private or ThreadWriter(duplicate(fd), may_block=kind is not Kind.FILE)


def _open_private(fd: int) -> Writer | None:
    private = reopen(fd, os.O_WRONLY)
    if private is None:
        return None
    return PolledWriter(private, partial(os.write, private), partial(os.close, private))


def _open_shared_pipe(fd: int) -> Writer:
    shared = duplicate(fd)

    def write(data: Buffer) -> int:
        return os.write(shared, data[:_ATOMIC])

    return PolledWriter(shared, write, partial(os.close, shared), wait_first=True)


def _open_socket(fd: int) -> Writer:
    flags = DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0)
    sock = adopt(duplicate(fd))
    return PolledWriter(sock.fileno(), lambda data: sock.send(data, flags), sock.close)
