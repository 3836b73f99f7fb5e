"""Reading the head of a request: the request line and the headers.

A head ends with the first empty line, so it is cut out of the bytes before anything parses it:
llhttp (which httptools wraps) gets exactly one head, and never sees what follows. It does not
tell where it stopped, and a server has to know.

llhttp keeps the grammar of the headers: tokens, control characters, folded lines, bare CR or LF.
What it lets pass is refused here, before or after it: HTTP/0.9 and HTTP/2, other protocols,
stray spaces in the request line, and whatever could make two servers disagree about where a
request ends or whom it is for. A request is understood in one way or not at all.
"""

import re
from itertools import compress, count
from operator import ne
from typing import Final
from urllib.parse import unquote

import httptools
from attrs import define, field

from trio_mcp.transports.http.server.asgi import Headers
from trio_mcp.transports.http.server.response import Refused, options_of

_REQUEST_LINE: Final = re.compile(
    rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([\x21\x22\x24-\x7e]+) HTTP/1\.([01])\r\n"
)
_AUTHORITY: Final = rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-._~]+)(?::[0-9]{0,5})?"
_HOST: Final = re.compile(_AUTHORITY)
_ABSOLUTE: Final = re.compile(rb"(?i:https?)://(" + _AUTHORITY + rb")([/?].*)?")
_PLAIN: Final = re.compile(rb"[\t\x20-\x7e]+")
_LENGTH: Final = re.compile(rb"[0-9]{1,15}")
_LENGTH_LINE: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,15})\r\n", re.IGNORECASE)
_IMPOSSIBLE: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|(?<!\r)\n|\r(?!\n|\Z)")
_LINE_END: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_OTHER_LINES: Final = 3
"""Those of a head without its headers: the first one, and what follows the last two line ends."""

CHUNKED: Final = -1
"""In place of a length: the body comes in chunks."""


@define(eq=False)
class Head:
    """The head of a request, understood. It is not to be changed."""

    method: str
    http_version: str
    path: str
    raw_path: bytes
    query: bytes
    headers: Headers = field(repr=False)
    length: int
    """The length of the body in bytes, or `CHUNKED`."""
    keep_alive: bool
    """The client would use the connection again."""
    expects_continue: bool
    """The client waits for `100 Continue` before it sends the body."""

    def with_headers(self, headers: Headers, length: int) -> "Head":
        """Return the same head with other headers, of a body of another length."""
        return Head(
            self.method,
            self.http_version,
            self.path,
            self.raw_path,
            self.query,
            headers,
            length,
            self.keep_alive,
            self.expects_continue,
        )


class HeadReader:
    """Cuts the heads of requests out of a buffer, however the bytes arrive.

    A client that keeps its connection sends much the same head again and again, so a head is not
    parsed again if only the number in Content-Length, or the values of plain headers, are others
    than in the last one.
    """

    def __init__(self, max_bytes: int, max_headers: int) -> None:
        self._max_bytes = max_bytes
        self._max_headers = max_headers
        self._last: Head | None = None
        self._raw = self._before = self._after = b""  # the last one, and around its Content-Length
        self._scanned = 0  # bytes of the buffer in which no head ends
        self._skipped = False

    def take(self, buffer: bytearray) -> Head | None:
        """Take a head from the front of the buffer, if it is complete. It may be the last one.

        Raises:
            Refused: It is malformed, ambiguous or too large, or would be if it went on.
        """
        last = self._last
        if last is not None:
            if buffer.startswith(self._raw):
                self._begin_after(buffer, len(self._raw))
                return last
            if buffer.startswith(self._before):
                head = self._take_similar(buffer, last)
                if head is not None:
                    return head
        if buffer.startswith(_LINE_END) and not self._skipped:
            self._skipped = True  # old clients send one empty line after a body
            del buffer[:2]
        end = buffer.find(_HEAD_END, max(0, self._scanned - 3)) + 4
        if end == 3:  # not found
            self._check_beginning(buffer)
            return None
        if end > self._max_bytes:
            raise self._too_large(buffer)
        raw = bytes(memoryview(buffer)[:end])
        self._begin_after(buffer, end)
        head = None if last is None else _similar(last, self._raw, raw)
        self._last = head or parse_head(raw, self._max_headers)
        self._raw = raw
        line = _LENGTH_LINE.search(raw)
        start, stop = (end, end) if line is None else line.span(1)
        self._before, self._after = raw[:start], raw[stop:]
        return self._last

    def _take_similar(self, buffer: bytearray, last: Head) -> Head | None:
        """Take a head that begins like the last one, if only its Content-Length is another."""
        start = len(self._before)
        stop = buffer.find(_LINE_END, start, start + 17)
        if stop < 0 or not buffer.startswith(self._after, stop):
            return None
        digits, end = bytes(memoryview(buffer)[start:stop]), stop + len(self._after)
        if not digits.isdigit() or end > self._max_bytes:
            return None
        self._raw = self._before + digits + self._after
        self._begin_after(buffer, end)
        headers = [
            (name, digits if name == b"content-length" else value) for name, value in last.headers
        ]
        self._last = last.with_headers(headers, int(digits))
        return self._last

    def _begin_after(self, buffer: bytearray, end: int) -> None:
        del buffer[:end]
        self._scanned = 0
        self._skipped = False

    def _check_beginning(self, buffer: bytearray) -> None:
        if _IMPOSSIBLE.search(buffer, max(0, self._scanned - 1)):
            raise Refused(400, "This is not HTTP/1.1: a line does not end with CR LF.")
        if len(buffer) > self._max_bytes:
            raise self._too_large(buffer)
        self._scanned = len(buffer)

    def _too_large(self, buffer: bytearray) -> Refused:
        if buffer.find(_LINE_END, 0, self._max_bytes) < 0:
            return Refused(414, f"The target is longer than {self._max_bytes} bytes.")
        return Refused(431, f"The headers are longer than {self._max_bytes} bytes.")


def _similar(last: Head, raw_last: bytes, raw: bytes) -> Head | None:
    """Understand a head by the last one, if only values differ that say nothing of the request."""
    before, lines = raw_last.split(_LINE_END), raw.split(_LINE_END)
    if len(lines) != len(before) or len(lines) != len(last.headers) + _OTHER_LINES:
        return None
    headers, length = last.headers.copy(), last.length
    for at in compress(count(), map(ne, lines, before)):
        if at == 0:
            return None
        given, _, value = lines[at].partition(b":")
        name, value = headers[at - 1][0], value.strip(b" \t")
        if given.lower() != name or not _PLAIN.fullmatch(value):
            return None
        if name == b"content-length" and _LENGTH.fullmatch(value):
            length = int(value)
        elif name in _TELLING:
            return None
        headers[at - 1] = name, value
    return last.with_headers(headers, length)


def parse_head(raw: bytes, max_headers: int) -> Head:
    """Understand a whole head, from the request line to the empty line.

    Raises:
        Refused: It is malformed or ambiguous, or asks for what is not offered.
    """
    line = _REQUEST_LINE.match(raw)
    if line is None:
        raise Refused(400, "The request line is not that of HTTP/1.0 or HTTP/1.1.")
    method, target, minor = line.groups()
    headers = _parse_headers(raw, method)
    if len(headers) > max_headers:
        raise Refused(431, f"There are more than {max_headers} headers.")
    special: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _SPECIAL:
            _note(special, name, value)
    is_1_1 = minor == b"1"
    _check_host(special.get(b"host"), is_1_1)
    if not target.startswith(b"/"):
        target = _other_form(method, target, headers)
    raw_path, _, query = target.partition(b"?")
    return Head(
        method.decode(),
        "1.1" if is_1_1 else "1.0",
        raw_path.decode() if b"%" not in raw_path else _decode_path(raw_path),
        raw_path,
        query,
        headers,
        _body_length(special.get(b"content-length"), special.get(b"transfer-encoding"), is_1_1),
        _keeps_alive(special[b"connection"], is_1_1) if b"connection" in special else is_1_1,
        b"expect" in special and _expects_continue(special[b"expect"], is_1_1),
    )


_SPECIAL: Final = frozenset(
    (b"host", b"content-length", b"transfer-encoding", b"connection", b"expect")
)
_TELLING: Final = _SPECIAL | {b"proxy-connection", b"upgrade"}
"""Headers that say something of the request, to us or to llhttp."""


@define
class _Collector:
    """What llhttp finds."""

    headers: Headers = field(factory=list, repr=False)
    complete: bool = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value.strip()))

    def on_headers_complete(self) -> None:
        self.complete = True


def _parse_headers(raw: bytes, method: bytes) -> Headers:
    collector = _Collector()
    try:
        httptools.HttpRequestParser(collector).feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # the offer to speak another protocol is not taken up
    except httptools.HttpParserInvalidMethodError:
        raise Refused(501, f"The method {method.decode()} is not known.") from None
    except httptools.HttpParserError as error:
        raise Refused(400, f"The request cannot be understood: {error}.") from None
    if method == b"CONNECT":
        raise Refused(501, "This is not a proxy.")
    assert collector.complete  # or llhttp has another idea of where a head ends
    return collector.headers


def _note(special: dict[bytes, bytes], name: bytes, value: bytes) -> None:
    """Note a header that says how to treat the request. Only Connection may be repeated."""
    if name not in special:
        special[name] = value
    elif name == b"connection":
        special[name] += b"," + value
    else:
        raise Refused(400, f"There must be only one {name.decode().title()} header.")


def _check_host(host: bytes | None, is_1_1: bool) -> None:
    if host is None:
        if is_1_1:
            raise Refused(400, "There must be a Host header.")
    elif not _HOST.fullmatch(host):
        raise Refused(400, "The Host header must be a host name or address, and maybe a port.")


def _other_form(method: bytes, target: bytes, headers: Headers) -> bytes:
    if target == b"*" and method == b"OPTIONS":
        return target
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        raise Refused(400, "The target must be a path, or an http URL with a host.")
    authority, path = absolute.groups(b"/")
    # RFC 9112, section 3.2.2: the URL says whom the request is for, whatever Host says.
    headers[:] = [(name, authority if name == b"host" else value) for name, value in headers]
    return path if path.startswith(b"/") else b"/" + path


def _decode_path(raw: bytes) -> str:
    try:
        return unquote(raw.decode(), errors="strict")
    except UnicodeDecodeError:
        raise Refused(400, "The path is not UTF-8 once it is percent-decoded.") from None


def _body_length(length: bytes | None, coding: bytes | None, is_1_1: bool) -> int:
    if coding is not None:
        if coding.lower() != b"chunked" or not is_1_1 or length is not None:
            raise Refused(
                400, "A Transfer-Encoding must be chunked, with HTTP/1.1 and no Content-Length."
            )
        return CHUNKED
    if length is None:
        return 0
    if not _LENGTH.fullmatch(length):
        raise Refused(400, "The Content-Length must be 1 to 15 decimal digits.")
    return int(length)


def _keeps_alive(connection: bytes, is_1_1: bool) -> bool:
    options = options_of(connection)
    return b"close" not in options and (is_1_1 or b"keep-alive" in options)


def _expects_continue(expectation: bytes, is_1_1: bool) -> bool:
    if expectation.lower() != b"100-continue":
        raise Refused(417, "The only thing to expect is 100-continue.")
    return is_1_1
