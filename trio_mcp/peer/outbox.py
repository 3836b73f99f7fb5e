"""The lines that wait to be written.

Lines that are put one after the other are written together: they never interleave, and a burst
of answers costs few system calls. Usually a task of its own does that (`write_to`). When nothing
more is about to come, `flush` writes on the spot whatever the stream takes without waiting, which
saves a lone answer the detour; and so does `wake` once a good few lines have gathered, so that the
other side has something to do while we go on.

Those who put lines wait once `max_bytes` are pending: a reader that stalls stops the work instead
of filling the memory. Lines are copied into one buffer, because what the encoder returns may own
much more memory than it is long.
"""

from collections.abc import Callable
from typing import Final

import trio

_BURST: Final = 32
"""So many lines are worth a system call of their own."""

SendNowait = Callable[[bytearray], int]
"""Sends what fits without waiting and returns how many bytes that was."""


class Outbox:
    """A queue of lines, bounded in bytes.

    Args:
        max_bytes: Once so many bytes are pending, `put` waits and `full` is true.
        send_nowait: The stream's way to send without waiting, if it has one.
    """

    __slots__ = (
        "_closed",
        "_data",
        "_idle",
        "_lines",
        "_max_bytes",
        "_pending",
        "_room",
        "_send_nowait",
        "_sending",
        "_work",
        "dropped",
        "sent",
    )

    def __init__(self, max_bytes: int, send_nowait: SendNowait | None = None) -> None:
        self._max_bytes = max_bytes
        self._send_nowait = send_nowait
        self._data = bytearray()
        self._lines = 0  # in it
        self._pending = 0  # bytes that are not written yet
        self._idle = False  # `write_to` waits for work
        self._sending = True  # `write_to` is in the middle of a write, or has not begun
        self._work = trio.lowlevel.ParkingLot()  # where it waits
        self._room = trio.lowlevel.ParkingLot()  # where others wait until something was written
        self._closed = False
        self.sent = 0
        """Lines that were written."""
        self.dropped = 0
        """Lines that could not be written."""

    @property
    def full(self) -> bool:
        """Whether `put` would wait."""
        return self._pending > self._max_bytes

    def put_nowait(self, line: bytes) -> None:
        """Add a line, whether there is room or not. `wake` or `flush` must follow."""
        if self._closed:
            self.dropped += 1
        else:
            self._data += line
            self._lines += 1
            self._pending += len(line)

    async def put(self, line: bytes) -> None:
        """Add a line once there is room. Cancelled while it waits, the line is dropped."""
        try:
            await self.wait_for_room()
        except trio.Cancelled:
            self.dropped += 1
            raise
        self.put_nowait(line)

    async def wait_for_room(self) -> None:
        """Wait until the outbox is not full. No checkpoint if it is not."""
        while self.full:
            self.wake()
            await self._room.park()

    async def wait_empty(self) -> None:
        """Wait until everything has been written. No checkpoint if it has."""
        while self._pending:
            self.wake()
            await self._room.park()

    def wake(self) -> None:
        """Have what is there written soon, or now if it is a good deal."""
        if self._lines >= _BURST:
            self._write_now()
        if self._idle and self._data:
            self._idle = False
            self._work.unpark()

    def flush(self) -> None:
        """Write what can be written without waiting, and leave the rest to `write_to`."""
        self._write_now()
        self.wake()

    def _write_now(self) -> None:
        if self._sending or self._send_nowait is None or not self._data:
            return
        data = self._take()
        sent = self._send_nowait(data)
        self._written(data, sent)
        if sent < len(data):
            del data[:sent]
            self._data = data
            self._sending = True  # the stream is full: from here on `write_to` waits for it

    async def write_to(self, stream: trio.abc.SendStream) -> None:
        """Write what comes, until cancelled or until the stream is broken.

        Raises:
            trio.BrokenResourceError: The stream takes no more; what was pending is dropped.
        """
        try:
            while True:
                if not self._data:
                    self._idle = True
                    self._sending = False
                    await self._work.park()
                    continue
                data = self._take()
                self._sending = True
                try:
                    await stream.send_all(data)
                except BaseException:
                    self.dropped += data.count(b"\n")
                    raise
                if not self._closed:
                    self._written(data, len(data))
        finally:
            self.close()

    def _take(self) -> bytearray:
        data, self._data = self._data, bytearray()
        self._lines = 0
        return data

    def _written(self, data: bytearray, size: int) -> None:
        self.sent += data.count(b"\n", 0, size)  # lines end with their only newline
        self._pending -= size
        if self._room:
            self._room.unpark_all()

    def close(self) -> None:
        """Drop what was not written yet, and whatever else is put."""
        self.dropped += self._data.count(b"\n")
        self._data = bytearray()
        self._lines = 0
        self._pending = 0
        self._idle = False
        self._closed = True
        self._room.unpark_all()
