"""Cutting a byte stream into lines, without I/O.

A piece is looked at once, when it arrives: the unfinished line grows in one buffer until its
newline, so a long line in small chunks costs no more time and memory than its length. Of a line
that outgrows the limit only the first bytes are kept. It is reported at once as `Oversized`, and
when it has ended as `Skipped`, with its length.
"""

from attrs import frozen

HEAD_BYTES = 1024
"""Bytes that are kept of a line that is too long, to look for its request id."""


@frozen
class Oversized:
    """A line passed the limit; the rest of it will be skipped."""

    head: bytes
    """The first `HEAD_BYTES` bytes of the line."""

    limit: int
    """The limit that it passed, in bytes."""


@frozen
class Skipped:
    """A line that was too long has ended."""

    size: int
    """Its whole length, in bytes."""


Frame = bytes | Oversized | Skipped


class LineDecoder:
    r"""Turns chunks of bytes into lines.

    Args:
        max_line_bytes: The longest line that is returned, in bytes, without its newline.

    Example:
        >>> decoder = LineDecoder(100)
        >>> decoder.feed(b"one\ntw")
        [b'one']
        >>> decoder.feed(b"o\n\n")
        [b'two']
    """

    __slots__ = ("_limit", "_partial", "_size", "_skipping")

    def __init__(self, max_line_bytes: int) -> None:
        self._limit = max_line_bytes
        self._partial = bytearray()  # the unfinished line, unless it is being skipped
        self._size = 0  # of the unfinished line, in bytes
        self._skipping = False  # the unfinished line is already over the limit

    def feed(self, chunk: bytes | bytearray) -> list[Frame]:
        """Take a chunk in and return what it completed, in order. Empty lines are left out."""
        *lines, last = bytes(chunk).split(b"\n")
        frames: list[Frame] = []
        if lines and self._size:  # the first one ends a line that has begun before
            frames += self._extend(lines.pop(0))
            frames += self._finish()
        if len(chunk) > self._limit:  # only then can one of the others be too long
            for line in lines:
                frames += self._extend(line)
                frames += self._finish()
        else:
            frames += filter(None, lines)
        if last:
            frames += self._extend(last)
        return frames

    def close(self) -> list[Frame]:
        """End the input: return the last line, if it has no newline."""
        return self._finish()

    def _extend(self, piece: bytes) -> list[Frame]:
        """Add a piece, free of newlines, to the unfinished line."""
        self._size += len(piece)
        if self._skipping:
            return []
        self._partial += piece
        if self._size <= self._limit:
            return []
        head = bytes(self._partial[: min(HEAD_BYTES, self._limit + 1)])
        self._partial = bytearray()
        self._skipping = True
        return [Oversized(head, self._limit)]

    def _finish(self) -> list[Frame]:
        frame: Frame = Skipped(self._size) if self._skipping else bytes(self._partial)
        self._partial = bytearray()  # not clear(): a buffer that has grown large is given back
        self._size = 0
        self._skipping = False
        return [frame] if frame else []
