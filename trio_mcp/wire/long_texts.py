"""Long texts, parsed apart from the message that they are in.

Most large messages are mostly one text, such as a file, or an array of texts, or objects with a
text in each, such as blocks of content. The first one begins near the beginning of the message,
and the last one ends near its end. If what is in such a place can be parsed as a text, or as an
array of nothing but texts, then that is what it is, and nothing of it is lost: there are no names
in it, and no numbers. All that is left to check is the rest of the message.

If a place was not the right one, the parser refuses what is in it. Then, as whenever the message is
of another kind, all of it is parsed together.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from trio_mcp.wire import codec
from trio_mcp.wire.exact import LongIntegers, RepeatedKey, exact
from trio_mcp.wire.weight import is_heavier

_SHORTEST: Final = 256 * 1024
"""Bytes of a message from which on this saves time."""
_ENDS: Final = 1024
"""Bytes at either end of a message in which the first text must begin, and the last one end."""
_LATEST: Final = _ENDS // 2
"""Where it must have begun, so that it is not a short one that goes beyond these bytes."""
_BEFORE: Final = re.compile(rb'[^"]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"]*+)*+(?=")', re.DOTALL)
"""What precedes a string that does not end: whole strings, and what is between them."""
_REST_OF_STRING: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+(?=")', re.DOTALL)
_BACKSLASH: Final = b"\\"
_QUOTE: Final = ord('"')
_BRACKET: Final = ord("[")
_ESCAPE: Final = b"\\u"

_Span = tuple[int, int]
"""Where a string, or an array, begins and ends in a message."""
_COLON_BEFORE: Final = re.compile(rb'"[ \t\r\n]*+:[ \t\r\n]*+"\Z')
"""What is between a name and its string."""
_LEAST: Final = 4096
"""Bytes of one of several texts from which on it saves time to parse it apart; as many again where
what is before it differs from what is before the others."""
_LARGE: Final = 2 * 1024 * 1024
"""Bytes of a message from which on half of that is enough: to parse it fills new memory."""
_NEAR: Final = 256
"""Bytes that are more than there are between two texts."""

_NAME: Final = "a long text"
_PLACE: Final = b'"%b"' % _NAME.encode()
"""What stands for it in the rest. To be another way to write that, a text needs an escape."""

_SLICE: Final = 128 * 1024
"""Bytes of a text that are parsed at once, so that other threads have their turn in between."""
_CUT: Final = re.compile(rb"[ -\x5b\x5d-\x7e]{6}(?=[ -\x7e])")
"""Where a text may be cut: within no character, no escape sequence, and no pair of these."""
_FURTHER: Final = 4096


def loads_around(line: bytes, most_values: int, most_bytes: int) -> Any:
    """Parse a message of which most is one long text, an array of texts, or texts in objects.

    Args:
        line: The message.
        most_values: How much may be in it, as for `is_heavier`.
        most_bytes: How long it may be with integers beyond 64 bits, as for `exact`.

    Returns:
        Its value, of which nothing is lost. `None` if the message is of another kind, or cannot be
        served.
    """
    before = _BEFORE.match(line, 0, _ENDS) if len(line) >= _SHORTEST else None
    if before is None or before.end() > _LATEST:
        return None
    begin = before.end()
    end = _end_of_string(line, begin + 1, len(line), _ENDS)
    for spans in _guesses(line, begin, end, most_values) if end else ():
        try:
            return _loads(line, spans, most_values, most_bytes)
        except (ValueError, TypeError, RepeatedKey, LongIntegers):  # which is for the whole to say
            pass
    return None


def _guesses(line: bytes, begin: int, end: int, most_values: int) -> Iterator[list[_Span]]:
    """Yield guesses where the long texts are, if the first begins and the last ends there."""
    yield [(begin, end)]
    if line[begin - 1 : begin] != b"[" or line[end : end + 1] != b"]":
        if spans := _named(line, begin, end):
            yield spans
    elif not is_heavier(line, most_values):
        yield [(begin - 1, end + 1)]


def _named(line: bytes, first: int, end: int) -> list[_Span]:
    """Find several long texts, each behind a name: the first begins and the last ends there.

    It goes from the last one on. What is between two of them is mostly the same everywhere, or of
    two kinds; otherwise it is looked at each time. None are found if that would not save time.
    """
    named = _COLON_BEFORE.search(line, 0, first + 1)
    if named is None:
        return []
    colon, spans = named[0], list[_Span]()
    least = _LEAST if len(line) < _LARGE else _LEAST // 2
    worth = 4 * least
    between = other = b'"'  # where there is always a colon
    while (begin := _begin_of_string(line, colon, end)) > first:
        spans.append((begin, end))
        worth += end - begin - least
        if not line.endswith(between, first, begin):
            between, other = other, between
        if not line.endswith(between, first, begin):
            before = _end_of_string(line, first + 1, begin, _NEAR)
            if before is None:
                return []
            between = line[before:begin]
            worth -= least
        if worth < 0:
            return []
        end = begin - len(between)
    return [(first, end), *reversed(spans)] if spans and begin == first else []


def _begin_of_string(line: bytes, colon: bytes, end: int) -> int:
    """Find where a string with a name begins that ends there; -1 if it has none.

    Its quotation marks are escaped. To find a single byte takes a tenth of the time.
    """
    begin = line.rfind(b'"', 0, end - 1)
    if line.endswith(colon, 0, begin + 1):
        return begin
    if line[begin - 1 : begin] != _BACKSLASH:
        return -1
    return line.rfind(colon, 0, begin) + len(colon) - 1


def _end_of_string(line: bytes, begin: int, before: int, near: int) -> int | None:
    """Find where a string ends that begins far from a place, and ends near it."""
    at = max(begin, before - near)
    while line[at - 1 : at] == _BACKSLASH:  # an escape sequence must not be cut
        at += 1
    closed = _REST_OF_STRING.match(line, at, before)
    return closed and closed.end() + 1


def _loads(line: bytes, spans: list[_Span], most_values: int, most_bytes: int) -> Any:
    """Parse a message with texts, or an array of texts, in some places.

    Raises:
        ValueError: There is something else, or nothing, or too much.
    """
    place = [_NAME] if line[spans[0][0]] == _BRACKET else _NAME
    ends = [0, *chain.from_iterable(spans), len(line)]
    between = [line[begin:end] for begin, end in zip(ends[::2], ends[1::2], strict=True)]
    rest = codec.dumps(place).join(between)
    if rest.count(_PLACE) != len(spans) or rest.find(_ESCAPE) >= 0 or is_heavier(rest, most_values):
        raise ValueError
    whole = [exact(rest, codec.loads(rest), most_bytes)]
    # The longest first: a wrong place has more in it than there should be.
    texts = {span: _parsed(line, *span) for span in sorted(spans, key=_length, reverse=True)}
    left = [texts[span] for span in reversed(spans)]
    _fill(whole, place, left)
    if left:  # one is in the place of a name
        raise ValueError
    return whole[0]


def _length(span: _Span) -> int:
    return span[1] - span[0]


def _parsed(line: bytes, begin: int, end: int) -> Any:
    """Parse a string, or an array of nothing but strings.

    Raises:
        ValueError: It is neither.
    """
    if end - begin > _SLICE and line[begin] == line[end - 1] == _QUOTE:
        return _text(line, begin + 1, end - 1)
    parsed = codec.loads(memoryview(line)[begin:end])
    if parsed.__class__ is list and set(map(type, parsed)) != {str}:
        raise ValueError
    return parsed


def _text(line: bytes, begin: int, end: int) -> str:
    """Parse what is between two quotation marks.

    Raises:
        ValueError: It is not the whole of a string, and no more.
    """
    pieces = []
    while begin < end:
        near = begin + _SLICE
        cut = _CUT.search(line, near, min(near + _FURTHER, end))
        until = cut.end() if cut else end
        pieces.append(codec.loads(b"".join((b'"', memoryview(line)[begin:until], b'"'))))
        begin = until
    return "".join(pieces)


def _fill(part: Any, place: Any, left: list[Any]) -> None:
    """Put texts, the last of these first, in their places within an array or an object."""
    for key, item in part.items() if part.__class__ is dict else enumerate(part):
        if item == place:
            part[key] = left.pop()
        elif item.__class__ is dict or item.__class__ is list:
            _fill(item, place, left)
