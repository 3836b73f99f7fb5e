"""Taking the body of a request out of a buffer: by its length, or chunk by chunk.

Chunks are read as strictly as RFC 9112, section 7.1, defines them, without the white space that
it has readers tolerate. Extensions and trailers are ignored, and how much of them there may be
is bounded: a stream of them is no way to keep a server busy for nothing.
"""

import re
from typing import Final

from trio_mcp.transports.http.server.head import CHUNKED
from trio_mcp.transports.http.server.response import Refused

_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER: Final = re.compile(
    rb"(?!(?i:content-length|transfer-encoding|host):)"
    rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*"
)
_MAX_LINE: Final = 1024
_MAX_IGNORED: Final = 8 * 1024


class FixedBody:
    """A body whose length is known."""

    def __init__(self, length: int) -> None:
        self.received = 0
        """Bytes that were taken so far."""
        self.remaining = length
        self.complete = not length

    def take(self, buffer: bytearray) -> bytes:
        """Take what the buffer has of the body, and nothing of what comes after it."""
        size = len(buffer)
        if size <= self.remaining:
            data = bytes(buffer)
            buffer.clear()
        else:
            size = self.remaining
            data = bytes(memoryview(buffer)[:size])
            del buffer[:size]
        self.received += size
        self.remaining -= size
        self.complete = not self.remaining
        return data


class ChunkedBody:
    """A body in chunks, as long as its last chunk says it is."""

    def __init__(self, max_bytes: int) -> None:
        self.received = 0
        self.remaining = None
        self.complete = False
        self._max_bytes = max_bytes
        self._chunk = 0  # bytes of the current chunk that are still to come
        self._ignored = 0  # bytes of extensions and trailers
        self._step = self._size_line

    def take(self, buffer: bytearray) -> bytes:
        """Take what the buffer has of the body, and nothing of what comes after it.

        Raises:
            Refused: The body is malformed or too large.
        """
        pieces: list[bytes] = []
        while not self.complete and self._step(buffer, pieces):
            pass
        return b"".join(pieces)

    # Each step takes one thing from the buffer, and says whether it was all there.

    def _size_line(self, buffer: bytearray, pieces: list[bytes]) -> bool:
        line = self._line(buffer)
        if line is None:
            return False
        match = _CHUNK_LINE.fullmatch(line)
        if match is None:
            raise Refused(400, "A chunk must begin with its size in hexadecimal digits.")
        self._ignore(match[2] or b"")
        self._chunk = int(match[1], 16)
        if self.received + self._chunk > self._max_bytes:
            raise _too_large(self._max_bytes)
        self._step = self._data if self._chunk else self._trailer
        return True

    def _data(self, buffer: bytearray, pieces: list[bytes]) -> bool:
        piece = bytes(memoryview(buffer)[: self._chunk])
        del buffer[: len(piece)]
        self.received += len(piece)
        self._chunk -= len(piece)
        pieces.append(piece)
        if self._chunk:
            return False
        self._step = self._data_end
        return True

    def _data_end(self, buffer: bytearray, pieces: list[bytes]) -> bool:
        end = buffer[:2]
        if not b"\r\n".startswith(end):
            raise Refused(400, "A chunk is longer than it says.")
        if len(end) < 2:
            return False
        del buffer[:2]
        self._step = self._size_line
        return True

    def _trailer(self, buffer: bytearray, pieces: list[bytes]) -> bool:
        line = self._line(buffer)
        if line is None:
            return False
        if line and not _TRAILER.fullmatch(line):
            raise Refused(400, "A trailer is malformed, or belongs among the headers.")
        self._ignore(line)
        self.complete = not line
        return True

    def _line(self, buffer: bytearray) -> bytes | None:
        end = buffer.find(b"\n", 0, _MAX_LINE)
        if end < 0:
            if len(buffer) >= _MAX_LINE:
                raise Refused(400, f"A line between chunks is longer than {_MAX_LINE} bytes.")
            return None
        line = bytes(memoryview(buffer)[:end])
        del buffer[: end + 1]
        if not line.endswith(b"\r"):
            raise Refused(400, "A line between chunks does not end with CR LF.")
        return line[:-1]

    def _ignore(self, data: bytes) -> None:
        self._ignored += len(data)
        if self._ignored > _MAX_IGNORED:
            raise Refused(400, f"There are more than {_MAX_IGNORED} bytes between the chunks.")


Body = FixedBody | ChunkedBody


def body_of(length: int, max_bytes: int) -> Body:
    """Return the body that a head announces, of a length in bytes or `CHUNKED`, or refuse it."""
    if length == CHUNKED:
        return ChunkedBody(max_bytes)
    if length > max_bytes:
        raise _too_large(max_bytes)
    return FixedBody(length)


def _too_large(max_bytes: int) -> Refused:
    return Refused(413, f"The body is longer than {max_bytes} bytes.")
