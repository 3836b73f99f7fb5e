"""The bytes of one connection, in and out.

A plain socket is read and written with one system call each, as soon as the kernel is ready: on
the way of a request nothing else takes so long. Any other stream (TLS, or memory in tests) goes
the usual way.
"""

import os
import socket
import struct
from typing import Final, Protocol

import trio

from trio_mcp.system.capabilities import POLLS

READ_BYTES: Final = 64 * 1024
"""The most bytes that one read brings."""


class Pipe(Protocol):
    """What a connection does with its stream."""

    async def open(self) -> None:
        """Get ready to read and write.

        Raises:
            trio.BrokenResourceError: The client does not play along.
        """

    async def receive(self) -> bytes:
        """Wait for some bytes. None mean that the client has closed, or is gone."""

    def send_nowait(self, data: bytes) -> int:
        """Write as much as can be written without waiting, and return how many bytes that was.

        Raises:
            trio.BrokenResourceError: The client is gone.
        """

    async def send(self, data: memoryview) -> None:
        """Write everything. Cancelled, it leaves open how much was written.

        Raises:
            trio.BrokenResourceError: The client is gone.
        """

    async def close(self) -> None:
        """Close in good order. The client may take its time to notice."""

    def tear(self) -> None:
        """Have the close that follows look like a failure to the client, if it can."""


class StreamPipe:
    """Any Trio stream."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._is_open = False

    async def open(self) -> None:
        """Shake hands, if that is to be done."""
        if isinstance(self._stream, trio.SSLStream):
            await self._stream.do_handshake()
        self._is_open = True

    async def receive(self) -> bytes:
        """Wait for some bytes."""
        try:
            return bytes(await self._stream.receive_some(READ_BYTES))
        except trio.BrokenResourceError:
            return b""

    def send_nowait(self, data: bytes) -> int:
        """Nothing is written without waiting."""
        return 0

    async def send(self, data: memoryview) -> None:
        """Write everything."""
        await self._stream.send_all(data)

    async def close(self) -> None:
        """Close, with a word to the client where the protocol has one.

        A stream that was never open is left to be closed without a word.
        """
        if self._is_open:
            await self._stream.aclose()

    def tear(self) -> None:
        """Do nothing: what is closed without a word looks like a failure where it matters."""


class SocketPipe:
    """A connected stream socket, where that is a descriptor."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._descriptor = stream.socket.fileno()
        self.send = stream.send_all
        self.close = stream.aclose

    async def open(self) -> None:
        """There is nothing to do."""

    async def receive(self) -> bytes:
        """Wait for some bytes."""
        while True:
            await trio.lowlevel.wait_readable(self._descriptor)
            try:
                return os.read(self._descriptor, READ_BYTES)
            except BlockingIOError:  # woken for nothing
                continue
            except OSError:
                return b""

    def send_nowait(self, data: bytes) -> int:
        """Write as much as the kernel takes."""
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError(str(error)) from error

    def tear(self) -> None:
        """Have the kernel reset the connection when it is closed."""
        now = struct.pack("ii", 1, 0)
        self._stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)


def pipe_over(stream: trio.abc.Stream) -> Pipe:
    """The quickest way to read and write a stream."""
    if isinstance(stream, trio.SocketStream) and POLLS:
        return SocketPipe(stream)
    return StreamPipe(stream)
