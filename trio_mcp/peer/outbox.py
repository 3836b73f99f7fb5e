"""The lines that wait to be written.

There is one writer. It takes whatever is there and writes it in one go, so lines never
interleave and a burst of answers costs one system call. Those who put lines wait once
`max_bytes` are pending: a reader that stalls stops the work instead of filling the memory.
"""

import trio


class Outbox:
    """A queue of lines, bounded in bytes, with any number of writers-to and one taker.

    Args:
        max_bytes: Once so many bytes are pending, `put` waits and `full` is true.
    """

    __slots__ = ("_closed", "_lines", "_lot", "_max_bytes", "_pending", "_room", "dropped", "sent")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lines: list[bytes] = []
        self._pending = 0  # bytes that are not written yet
        self._lot = trio.lowlevel.ParkingLot()  # the taker
        self._room = trio.lowlevel.ParkingLot()  # those who wait for room, or for the end
        self._closed = False
        self.sent = 0
        """Lines that were written."""
        self.dropped = 0
        """Lines that could not be written."""

    @property
    def full(self) -> bool:
        """Whether `put` would wait."""
        return self._pending > self._max_bytes and not self._closed

    @property
    def empty(self) -> bool:
        """Whether everything has been written, or nothing more will be."""
        return self._pending == 0

    def put_nowait(self, line: bytes) -> None:
        """Add a line, whether there is room or not."""
        if self._closed:
            self.dropped += 1
            return
        self._lines.append(line)
        self._pending += len(line)
        if self._lot:
            self._lot.unpark()

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
            await self._room.park()

    async def wait_empty(self) -> None:
        """Wait until everything has been written. No checkpoint if it has."""
        while self._pending:
            await self._room.park()

    async def write_to(self, stream: trio.abc.SendStream) -> None:
        """Write what comes, until cancelled or until the stream is broken.

        Raises:
            trio.BrokenResourceError: The stream takes no more; what was pending is dropped.
        """
        try:
            while True:
                if not self._lines:
                    await self._lot.park()
                lines, self._lines = self._lines, []
                data = lines[0] if len(lines) == 1 else b"".join(lines)
                try:
                    await stream.send_all(data)
                except BaseException:
                    self.dropped += len(lines)
                    raise
                self.sent += len(lines)
                self._pending -= len(data)
                if self._room:
                    self._room.unpark_all()
        finally:
            self._close()

    def _close(self) -> None:
        self.dropped += len(self._lines)
        self._lines.clear()
        self._pending = 0
        self._closed = True
        self._room.unpark_all()
