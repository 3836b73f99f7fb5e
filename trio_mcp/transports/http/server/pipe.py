"""The bytes of one connection, in and out.

A plain socket is read and written with one system call each, as soon as the kernel is ready: on
the way of a request nothing else takes so long. Any other stream (TLS, or memory in tests) goes
the usual way.
"""

import os
import socket
import struct
from typing import Final

import trio

from trio_mcp.system.capabilities import POLLS

READ_BYTES: Final = 64 * 1024


class Pipe:
    """What a connection does with its stream, whichever that is.

    To write raises `trio.BrokenResourceError` if the client is gone.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._is_open = False

    async def open(self) -> None:
        """Get ready to read and write, or raise `trio.BrokenResourceError`."""
        if isinstance(self._stream, trio.SSLStream):
            await self._stream.do_handshake()
        self._is_open = True

    async def receive(self) -> bytes:
        """Wait for some bytes. None mean that the client has closed, or is gone."""
        try:
            return bytes(await self._stream.receive_some(READ_BYTES))
        except trio.BrokenResourceError:
            return b""

    def send_nowait(self, data: bytes) -> int:
        """Write as much as can be written without waiting, and return how many bytes that was."""
        return 0

    async def send(self, data: memoryview) -> None:
        """Write everything. Cancelled, it leaves open how much was written."""
        await self._stream.send_all(data)

    async def close(self) -> None:
        """Close in good order. The client may take its time to notice."""
        if self._is_open:  # else without a word to the client
            await self._stream.aclose()

    def tear(self) -> None:
        """Have the close that follows look like a failure to the client, if it would not."""


class _SocketPipe(Pipe):
    """A connected stream socket, where that is a descriptor."""

    def __init__(self, stream: trio.SocketStream) -> None:
        super().__init__(stream)
        self._socket = stream.socket
        # Asked for each time: when the socket is closed, its number may be that of another.
        self._descriptor = stream.socket.fileno

    async def receive(self) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return os.read(self._descriptor(), READ_BYTES)
            except BlockingIOError:  # woken for nothing
                continue
            except OSError:
                return b""

    def send_nowait(self, data: bytes) -> int:
        try:
            return os.write(self._descriptor(), data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError(str(error)) from error

    def tear(self) -> None:
        now = struct.pack("ii", 1, 0)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)


def pipe_over(stream: trio.abc.Stream) -> Pipe:
    """The quickest way to read and write a stream."""
    if isinstance(stream, trio.SocketStream) and POLLS:
        return _SocketPipe(stream)
    return Pipe(stream)
