"""Lines on their way in and out: what a connection reads from and writes to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from itertools import accumulate
from typing import Final, Protocol

import trio

from trio_mcp.threads import offload
from trio_mcp.wire.framing import Frame, LineDecoder
from trio_mcp.wire.jsonrpc import Message, decode
from trio_mcp.wire.limits import Limits

IO_ERRORS: Final = (trio.BrokenResourceError, trio.ClosedResourceError)

_CHUNK_BYTES: Final = 65536
_MOST_LINES: Final = 256
"""Lines that wait to be written, however short they are: each may own some KiB."""
_WRITE_BYTES: Final = 65536
"""So many are worth a write of their own, whatever else is ready: what a pipe holds on Linux."""


SendNowait = Callable[[bytes], int]
"""Sends what fits without waiting and returns how many bytes that was."""


class LineTransport(Protocol):
    """Where lines come from and go to."""

    async def receive(self) -> list[Frame]:
        """Wait for lines and return those that are there; `[]` when there will be no more.

        Raises:
            trio.BrokenResourceError: Nothing can be read.
            trio.ClosedResourceError: It is closed.
        """

    async def send(self, lines: list[bytes]) -> None:
        """Send lines, each with its newline.

        Raises:
            trio.BrokenResourceError: The other side reads no more.
            trio.ClosedResourceError: It is closed.
        """


class LineQueue(Protocol):
    """Where lines are put that are to be sent."""

    @property
    def full(self) -> bool:
        """Whether there is no room."""

    async def wait_for_room(self) -> None:
        """Wait until there is."""

    def put_nowait(self, line: bytes) -> None:
        """Add a line, whether there is room or not."""

    def send_nowait(self, line: bytes) -> None:
        """Do the same with a line that no other is likely to follow soon."""


class StreamLines:
    """The lines of a byte stream (a `LineTransport`).

    Args:
        stream: Where bytes come from and go to.
        max_line_bytes: The longest line that is read, without its newline.
        send_nowait: The stream's way to send without waiting, if it has one.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        max_line_bytes: int,
        send_nowait: SendNowait | None = None,
    ) -> None:
        self._stream = stream
        # Of a stapled stream, its half that receives: a call less for each read.
        reader = stream.receive_stream if isinstance(stream, trio.StapledStream) else stream
        self._receive_some = reader.receive_some
        self._send_nowait = send_nowait
        self._decoder = LineDecoder(max_line_bytes)

    async def receive(self) -> list[Frame]:
        """Read until a line is complete; return all those of the last chunk."""
        while True:
            chunk = await self._receive_some(_CHUNK_BYTES)
            if not chunk:
                return self._decoder.close()  # the last line, if it came without a newline
            frames = self._decoder.feed(chunk)
            if frames:
                return frames

    async def send(self, lines: list[bytes]) -> None:
        data = lines[0] if len(lines) == 1 else b"".join(lines)
        if self._send_nowait is not None:
            # Mostly all of it fits, and the checkpoint of `send_all` would be a turn of the
            # scheduler for nothing: the writer has one whenever it takes lines.
            sent = self._send_nowait(data)
            if sent < len(data):
                await self._stream.send_all(memoryview(data)[sent:])  # not a copy: it may be long
            return
        await self._stream.send_all(data)


async def lines_of(
    stream: trio.abc.Stream, limit: int = Limits().max_message_bytes
) -> AsyncIterator[bytes]:
    """Read lines until the stream ends or breaks; skip those too long for a message."""
    lines = StreamLines(stream, limit)
    with suppress(*IO_ERRORS):
        while frames := await lines.receive():
            for frame in frames:
                if isinstance(frame, bytes):
                    yield frame


def decoded(line: bytes, limits: Limits) -> Awaitable[Message | None]:
    """Turn a line into a message, as `decode` does; in a worker thread if that takes long.

    No checkpoint if it does not. Cancelled, it leaves the thread behind, which ends by itself.
    """
    return offload(decode, line, limits.max_batch, limits.max_message_values)


class OutgoingLines:
    """The memory channel to the writer, bounded in lines and in bytes.

    It carries lists of lines, as the channel from the reader does: what is put while one of them
    waits there is added to it, until the writer takes it.

    A task that puts a line waits while there is no room: a client that does not read stops the
    work. What cannot wait is put all the same (`put_nowait`), and follows the lines before it.

    Args:
        max_bytes: Once so many bytes are pending, `put` waits.
        send_nowait: The stream's way to send without waiting, if it has one.
    """

    def __init__(self, max_bytes: int, send_nowait: SendNowait | None = None) -> None:
        self._send, self._receive = trio.open_memory_channel[list[bytes]](1)
        self._ready: list[bytes] = []  # the list in the channel; if it is empty, none is there
        self._writing: list[bytes] = []  # what the writer has taken, and not written yet
        self._max_bytes = max_bytes
        self._send_nowait = send_nowait
        self._waiting = 0  # tasks in `put`
        self._room = trio.lowlevel.ParkingLot()
        self._closed = False
        self.pending = 0
        """Bytes that are not written yet."""
        self.full = False
        """Whether `put` would wait. A plain attribute: it is looked at twice for each call."""
        self.sent = 0
        """Lines that were written."""
        self.dropped = 0
        """Lines that could not be written."""

    def put_nowait(self, line: bytes) -> None:
        """Add a line, whether there is room or not. After the end it is dropped."""
        if self._closed:
            self.dropped += 1
            return
        ready = self._ready
        if not ready:
            self._send.send_nowait(ready)  # there is room, as the writer has taken the last one
        ready.append(line)
        self.pending += len(line)
        if self.pending > self._max_bytes or len(ready) > _MOST_LINES:
            self.full = True

    def send_nowait(self, line: bytes) -> None:
        """Do the same, but without the writer where it need not wait: it has a turn less to run."""
        is_short = len(line) <= _WRITE_BYTES  # else most of it would be copied
        if self._send_nowait is not None and is_short and not (self.pending or self._closed):
            sent = self._send_nowait(line)
            if sent == len(line):
                self.sent += 1
                return
            line = line[sent:]
        self.put_nowait(line)

    async def put(self, line: bytes) -> None:
        """Add a line once there is room. Cancelled while it waits, the line is dropped."""
        if self.full:
            self._waiting += 1
            try:
                await self.wait_for_room()
            except trio.Cancelled:
                self.dropped += not self._closed  # else `close` has counted it
                raise
            finally:
                self._waiting -= 1
            if self._closed:
                return
        self.put_nowait(line)

    async def wait_for_room(self) -> None:
        """Wait until there is room. No checkpoint if there is."""
        while self.full:
            await self._room.park()

    async def wait_empty(self) -> None:
        """Wait until everything has been written or dropped. No checkpoint if it has.

        What waits for room counts too: it is woken together with the tasks that wait here.
        """
        while self.pending or (self._waiting and not self._closed):
            await self._room.park()

    async def write_to(self, transport: LineTransport) -> None:
        """Write what is put, as much at a time as is ready, until cancelled.

        Raises:
            trio.BrokenResourceError: The other side reads no more; what was pending is dropped.
        """
        try:
            while True:
                self._writing = await self._receive.receive()
                self._ready = []
                while self._writing:
                    lines = _worth_a_write(self._writing)
                    await transport.send(lines)
                    self._note_written(lines)
        finally:
            self.close()

    def _note_written(self, lines: list[bytes]) -> None:
        self._writing = self._writing[len(lines) :]
        self.sent += len(lines)
        self.pending -= sum(map(len, lines))
        self.full = self.pending > self._max_bytes or len(self._ready) > _MOST_LINES
        if self._room:
            self._room.unpark_all()

    def close(self) -> None:
        """Drop what was not written, and whatever else is put."""
        if not self._closed:
            self._closed = True
            self.dropped += len(self._writing) + len(self._ready) + self._waiting
            self._writing = []
            self._ready.clear()  # in the channel, too
            self.pending = 0
            self.full = False
            self._room.unpark_all()


def _worth_a_write(lines: list[bytes]) -> list[bytes]:
    """The first of some lines: all of them, or as many as fill a write."""
    if sum(map(len, lines)) <= _WRITE_BYTES:
        return lines
    ends = list(accumulate(map(len, lines)))
    return lines[: bisect_left(ends, _WRITE_BYTES) + 1]
