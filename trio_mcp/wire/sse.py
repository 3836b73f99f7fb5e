"""Server-sent events, without I/O (WHATWG HTML, "Server-sent events").

A stream is cut into lines first, which may end in CR, LF or both, and may arrive in any pieces; a
line is looked at once, when it is complete. Lines add up to an event, which a blank line ends. What
no blank line has ended is not an event: a stream that breaks off in the middle of one loses it, and
the id to resume with is that of the event before.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

_BOM: Final = b"\xef\xbb\xbf"
_MOST_RETRY_DIGITS: Final = 12
_LEAST_LINE_BYTES: Final = 1024
"""Room for a field's name and for fields other than data, however small events may be."""

KEEP_ALIVE: Final = b": keep-alive\n\n"
"""A comment: it shows that the stream is alive, and says nothing."""


class EventTooLarge(ValueError):
    """A line or an event is longer than allowed. The stream cannot be read any further."""


@frozen
class Event:
    """An event of a stream.

    Args:
        data: Its data; the lines of it are joined with LF.
        event: Its type.
        id: The last event id of the stream so far, which may be an earlier event's.
        retry: Milliseconds to wait before coming back to the stream, if the event says so.
    """

    data: bytes
    event: str = "message"
    id: str | None = None
    retry: int | None = None


class EventParser:
    r"""Turns chunks of bytes into events.

    Args:
        max_event_bytes: The most data of one event, in bytes.
        max_line_bytes: The longest line, in bytes, without its end; by default a little more than
            an event may have.

    Attributes:
        last_event_id: The id to resume the stream with; `None` while there was none.
        retry: Milliseconds to wait before coming back to the stream, if it said so. Unlike an
            event's own, it stays, and blocks without data set it, too.

    Example:
        >>> parser = EventParser(1000)
        >>> parser.feed(b"id: 7\ndata: on")
        []
        >>> parser.feed(b"e\n\n: a comment\n\n")
        [Event(data=b'one', event='message', id='7', retry=None)]
    """

    __slots__ = (
        "_after_cr",
        "_data",
        "_event",
        "_first",
        "_id",
        "_max_line",
        "_partial",
        "_retry",
        "last_event_id",
        "max_event_bytes",
        "retry",
    )

    def __init__(self, max_event_bytes: int, *, max_line_bytes: int | None = None) -> None:
        self.max_event_bytes = max_event_bytes
        if max_line_bytes is None:
            max_line_bytes = max_event_bytes + _LEAST_LINE_BYTES
        self._max_line = max_line_bytes
        self._partial = bytearray()  # the unfinished line
        self._after_cr = False  # the last chunk ended in CR: LF would be the same line's end
        self._first = True  # the first line has not ended yet: it may begin with a byte order mark
        self._data: bytes | bytearray | None = None  # a bytearray once there are two lines of it
        self._event = ""
        self._id: str | None = None
        self._retry: int | None = None
        self.last_event_id: str | None = None
        self.retry: int | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        """Take a chunk in and return the events that it completed, in order.

        Raises:
            EventTooLarge: A line or an event is too long. Feed nothing more.
        """
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        if not chunk:
            return []
        lines = chunk.splitlines()
        self._after_cr = chunk.endswith(b"\r")
        unfinished = b"" if chunk.endswith((b"\n", b"\r")) else lines.pop()
        events: list[Event] = []
        for line in lines:
            if self._partial:
                self._extend(line)
                line = bytes(self._partial)
                self._partial = bytearray()  # not clear(): a large buffer is given back
            elif len(line) > self._max_line:
                raise self._line_too_long()
            if self._first:
                self._first = False
                line = line.removeprefix(_BOM)
            if line:
                self._field(line)
            else:
                self._dispatch(events)
        self._extend(unfinished)
        return events

    def _extend(self, piece: bytes) -> None:
        if len(self._partial) + len(piece) > self._max_line:
            raise self._line_too_long()
        self._partial += piece

    def _line_too_long(self) -> EventTooLarge:
        return EventTooLarge(f"a line of the event stream is longer than {self._max_line} bytes")

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._add(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) <= _MOST_RETRY_DIGITS:
            self._retry = self.retry = int(value)

    def _add(self, value: bytes) -> None:
        if self._data is None:
            self._data = value
        else:
            if isinstance(self._data, bytes):
                self._data = bytearray(self._data)
            self._data += b"\n"
            self._data += value
        if len(self._data) > self.max_event_bytes:
            raise EventTooLarge(f"an event has more than {self.max_event_bytes} bytes of data")

    def _dispatch(self, events: list[Event]) -> None:
        """End an event at a blank line. Without data it is none."""
        self.last_event_id = self._id
        if self._data is not None:
            kind = self._event or "message"
            events.append(Event(bytes(self._data), kind, self._id, self._retry))
            self._data = None
        self._event = ""
        self._retry = None


def encode_event(
    data: bytes, *, id: str | None = None, retry: int | None = None, event: str | None = None
) -> bytes:
    r"""Encode an event.

    Args:
        data: Its data. The reader gets each line end in it as LF.
        id: Its id.
        retry: Milliseconds to wait before coming back to the stream.
        event: Its type; without one, it is a `message`.

    Raises:
        ValueError: The id or the type has more than one line, the id has a NUL, or `retry` is
            negative.

    Example:
        >>> encode_event(b'{"jsonrpc": "2.0"}', id="7")
        b'id: 7\ndata: {"jsonrpc": "2.0"}\n\n'
    """
    head = b""
    if event is not None:
        head += b"event: %b\n" % _one_line(event)
    if id is not None:
        if "\0" in id:
            raise ValueError("the id of an event has no NUL")
        head += b"id: %b\n" % _one_line(id)
    if retry is not None:
        if retry < 0:
            raise ValueError("the time before a retry is not negative")
        head += b"retry: %d\n" % retry
    if b"\n" in data or b"\r" in data:
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        data = lines.replace(b"\n", b"\ndata: ")  # there may be millions of them
    return b"%bdata: %b\n\n" % (head, data)


def _one_line(text: str) -> bytes:
    if "\n" in text or "\r" in text:
        raise ValueError("the id and the type of an event have one line")
    return text.encode()
