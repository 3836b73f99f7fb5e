"""Turning an app's response into bytes, and seeing to it that they are one HTTP response.

How the body is delimited is the server's business: by the app's Content-Length if it gives one
(and keeps to it), by a length of ours if the whole body is there at once, else by chunks, or with
HTTP/1.0 by the end of the connection. The head waits for the first piece of the body, so that a
response in one piece is one write.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Final, Literal

_FIELDS: Final = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+: [\t\x20-\x7e\x80-\xff]*\r\n)*+")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")
_STATUS_LINES: Final = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode())
    for status in HTTPStatus
}
_NO_CONTENT: Final = 204
_BODILESS: Final = frozenset((_NO_CONTENT, 304))
_USUAL: Final = 2
"""Headers of most responses: of which type the body is, and how long, or whose session it is of."""
_HOP_BY_HOP: Final = frozenset((b"transfer-encoding", b"connection", b"keep-alive", b"upgrade"))


def status_line(status: int) -> bytes:
    """The first line of a response. The reason is left empty if the status is not a known one."""
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


def options_of(connection: bytes) -> set[bytes]:
    return {option.strip(b" \t") for option in connection.lower().split(b",")}


class Refused(Exception):
    """A request is not answered by the app; its connection ends with a few plain words."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status: Final = status
        self.reason: Final = reason

    def response(self, date: bytes, *, with_body: bool) -> bytes:
        body = self.reason.encode() + b"\n"
        head = (
            b"%bcontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
            b"connection: close\r\n%b\r\n"
        ) % (status_line(self.status), len(body), date)
        return head + body if with_body else head


class ResponseError(RuntimeError):
    """An app's response breaks the rules of ASGI or of HTTP; the text says which."""


_Delimiter = Literal["nothing", "length", "chunk", "close"]
"""What ends the body of a response: it has none, its length, an empty chunk, the connection."""


class Response:
    """One response on its way to bytes."""

    # How each one begins.
    _status = 0
    _headers: Iterable[tuple[bytes, bytes]] = ()
    _delimiter: _Delimiter = "nothing"
    _remaining = 0  # bytes of the body still to come, if there is a length
    begun = False
    complete = False
    keep_alive = True
    """The connection can be used again. To be set before the first piece of the body."""

    def __init__(self, method: str, http_version: str) -> None:
        self._method = method
        self._is_1_1 = http_version == "1.1"
        self._is_usual = self._is_1_1 and method != "HEAD"

    @property
    def ended_by_close(self) -> bool:
        """Only the end of the connection tells the client that the response is complete."""
        return self._delimiter == "close"

    @property
    def is_stream(self) -> bool:
        """Whether it has begun, and any more may come."""
        return self.begun and not self.complete and self._delimiter in ("chunk", "close")

    def start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Take the app's status and headers. They go out with the first piece of the body.

        Raises:
            ResponseError: The response was started already, or the status is not a final one.
        """
        if self._status:
            raise ResponseError("the response was started already")
        if not isinstance(status, int) or not 200 <= status <= 999:
            raise ResponseError(f"a response cannot have the status {status!r}")
        self._status = status
        self._headers = headers

    def whole(
        self, status: int, headers: Sequence[tuple[bytes, bytes]], data: bytes, date: bytes
    ) -> bytes:
        """Take a whole response: what `start` and `body` do together, which raise the same."""
        if self.keep_alive and self._is_usual and not self._status and len(headers) <= _USUAL:
            plain = _plain_beginning_of(status, tuple(headers))  # by the shortest way
            if plain:
                self._status, self._delimiter = status, "length"
                self.begun = self.complete = True
                return b"%b%d\r\n%b\r\n%b" % (plain, len(data), date, data)
        self.start(status, headers)
        return self.body(data, False, date)

    def body(self, data: bytes, more: bool, date: bytes) -> bytes:
        """Take a piece of the body.

        Returns:
            The bytes to write, at once.

        Raises:
            ResponseError: This is no time for a body, the headers are malformed, or the body
                is not as long as they say. Nothing is to be written any more.
        """
        if not self._status or self.complete:
            raise ResponseError(
                "the response is complete" if self.complete else "the response was not started"
            )
        if self.begun:
            out = self._piece(data, more)
        else:
            head = self._head(None if more else len(data), date)
            out = head + self._piece(data, more)
            self.begun = True
        self.complete = not more
        return out

    def _piece(self, data: bytes, more: bool) -> bytes:
        delimiter = self._delimiter
        if delimiter == "length":
            self._remaining -= len(data)
            if self._remaining < 0 or (self._remaining and not more):
                raise ResponseError("the body is not as long as its Content-Length says")
            return data
        if delimiter == "chunk":
            chunk = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
            return chunk if more else chunk + b"0\r\n\r\n"
        return data if delimiter == "close" else b""

    def _head(self, whole: int | None, date: bytes) -> bytes:
        """The head, for a body whose length is known if it comes as a whole."""
        headers = tuple(map(tuple, self._headers))
        # Those with more have mostly one of their own, such as a length: not worth keeping.
        look = _seen_beginning_of if len(headers) <= _USUAL else _beginning_of
        begin, length, closes, dated = look(self._status, headers)
        if closes:
            self.keep_alive = False
        return b"%b%b%b%b\r\n" % (
            begin,
            self._delimit(length, whole),
            b"" if dated else date,
            b"" if self.keep_alive and self._is_1_1 else self._connection(),
        )

    def _delimit(self, length: int | None, whole: int | None) -> bytes:
        """Decide what ends the body, and return the header line that says so, if one is due."""
        if self._status in _BODILESS or self._method == "HEAD":
            self._delimiter = "nothing"
            if not whole or length is not None or self._status in _BODILESS:
                return b""
            return b"content-length: %d\r\n" % whole
        if length is not None:
            self._delimiter = "length"
            self._remaining = length
            return b""
        if whole is not None:
            self._delimiter = "length"
            self._remaining = whole
            return b"content-length: %d\r\n" % whole
        if self._is_1_1:
            self._delimiter = "chunk"
            return b"transfer-encoding: chunked\r\n"
        self._delimiter = "close"
        self.keep_alive = False
        return b""

    def _connection(self) -> bytes:
        if not self.keep_alive:
            return b"connection: close\r\n"
        return b"" if self._is_1_1 else b"connection: keep-alive\r\n"


def _beginning_of(
    status: int, headers: tuple[tuple[bytes, ...], ...]
) -> tuple[bytes, int | None, bool, bool]:
    """Write down the status and the headers that an app gave.

    Returns:
        The lines of those that are sent, what they say of the body's length, whether they end the
        connection, and whether a date is among them.
    """
    lines = []
    length: int | None = None
    closes = dated = False
    for given, value in headers:
        name = given.lower()
        if name == b"content-length":
            length = _parse_length(value, length)
            if status == _NO_CONTENT:
                continue
        elif name in _HOP_BY_HOP:
            closes |= name == b"connection" and b"close" in options_of(value)
            continue
        elif name == b"date":
            dated = True
        elif b":" in name:
            raise ResponseError(f"a header cannot be named {name!r}")
        lines.append(b"%b: %b\r\n" % (name, value))
    fields = b"".join(lines)
    if not _FIELDS.fullmatch(fields) or fields.count(b"\r\n") != len(lines):
        raise ResponseError("a header of the response has characters that it must not have")
    return status_line(status) + fields, length, closes, dated


_seen_beginning_of = lru_cache(maxsize=1024)(_beginning_of)


@lru_cache(maxsize=1024)
def _plain_beginning_of(status: int, headers: tuple[tuple[bytes, ...], ...]) -> bytes:
    """Write down the same up to the body's length, if nothing stands between. Empty if not so."""
    if status in _BODILESS or status not in _STATUS_LINES or status < HTTPStatus.OK:
        return b""
    begin, length, closes, dated = _beginning_of(status, headers)
    return b"" if length is not None or closes or dated else begin + b"content-length: "


def _parse_length(value: bytes, before: int | None) -> int:
    if before is not None or not _LENGTH.fullmatch(value):
        raise ResponseError("a response has at most one Content-Length, of decimal digits")
    return int(value)
