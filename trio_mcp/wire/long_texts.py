"""Long texts, parsed apart from the message that they are in.

Most large messages are mostly one text, such as a file, or an array of texts. It begins near the
beginning of the message, and ends near its end. If what is between these two places can be parsed
as a text, or as an array of nothing but texts, then that is what it is, and nothing of it is lost:
there are no names in it, and no numbers. All that is left to check is the rest of the message.

If a place was not the right one, the parser refuses what is between them. Then, as whenever the
message is of another kind, all of it is parsed together.
"""

import re
from typing import Any, Final

from trio_mcp.wire import codec
from trio_mcp.wire.exact import LongIntegers, RepeatedKey, exact
from trio_mcp.wire.weight import is_heavier

_SHORTEST: Final = 256 * 1024
"""Bytes of a message from which on this saves time."""
_ENDS: Final = 1024
"""Bytes at either end of a message in which the text must begin and end."""
_LATEST: Final = _ENDS // 2
"""Where it must have begun, so that it is not a short one that goes beyond these bytes."""
_BEFORE: Final = re.compile(rb'[^"]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"]*+)*+(?=")', re.DOTALL)
"""What precedes a string that does not end: whole strings, and what is between them."""
_REST_OF_STRING: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+(?=")', re.DOTALL)
_BACKSLASH: Final = b"\\"
_ESCAPE: Final = b"\\u"

_NAME: Final = "a long text"
_PLACE: Final = b'"%b"' % _NAME.encode()
"""What stands for it in the rest. To be another way to write that, a text needs an escape."""

_SLICE: Final = 128 * 1024
"""Bytes of a text that are parsed at once, so that other threads have their turn in between."""
_CUT: Final = re.compile(rb"[ -\x5b\x5d-\x7e]{6}(?=[ -\x7e])")
"""Where a text may be cut: within no character, no escape sequence, and no pair of these."""
_NEAR: Final = 4096

_VERY_LONG: Final = 2 * 1024 * 1024
"""Characters of a text that takes more than a few milliseconds to encode."""
_FEW: Final = 20


def loads_around(line: bytes, most_values: int, most_bytes: int) -> Any:
    """Parse a message of which most is one long text, or an array of texts.

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
    at = len(line) - _ENDS
    while line[at - 1 : at] == _BACKSLASH:  # an escape sequence must not be cut
        at += 1
    closed = _REST_OF_STRING.match(line, at)
    if closed is None:
        return None
    begin, end = before.end(), closed.end() + 1
    rest = b"".join((line[:begin], _PLACE, line[end:]))
    if rest.count(_PLACE) > 1 or rest.find(_ESCAPE) >= 0 or is_heavier(rest, most_values):
        return None
    try:
        value = exact(rest, codec.loads(rest), most_bytes)
        texts = _texts(line, begin, end, most_values)
    except (ValueError, TypeError, RepeatedKey, LongIntegers):  # which is for the whole to say
        return None
    return value if set(map(type, texts)) == {str} and _fill(value, texts) else None


def _texts(line: bytes, begin: int, end: int, most_values: int) -> Any:
    """Parse a string, or else the array that begins and ends with strings.

    Raises:
        ValueError: It is neither, or there is too much in it.
    """
    try:
        return [_text(line, begin + 1, end - 1)]
    except ValueError:
        is_array = line[begin - 1 : begin] == b"[" and line[end : end + 1] == b"]"
        if not is_array or is_heavier(line, most_values):
            raise
    return codec.loads(memoryview(line)[begin - 1 : end + 1])


def _text(line: bytes, begin: int, end: int) -> str:
    """Parse what is between two quotation marks.

    Raises:
        ValueError: It is not the whole of a string, and no more.
    """
    pieces = []
    while begin < end:
        near = begin + _SLICE
        cut = _CUT.search(line, near, min(near + _NEAR, end))
        until = cut.end() if cut else end
        pieces.append(codec.loads(b"".join((b'"', memoryview(line)[begin:until], b'"'))))
        begin = until
    return "".join(pieces)


def _fill(value: Any, texts: list[str]) -> bool:
    """Put the texts in their place. Returns whether it is in the value, not the name of another."""
    parts = [value]
    for part in parts:  # which grow meanwhile
        if part.__class__ is list and _NAME in part:
            at = part.index(_NAME)
            part[at : at + 1] = texts
            return True
        if part.__class__ is dict:
            for name, item in part.items():
                if item == _NAME:
                    (part[name],) = texts
                    return True
            parts += part.values()
        elif part.__class__ is list:
            parts += part
    return False


def with_texts_encoded(value: Any, levels: int = 8) -> Any:
    """Copy a JSON value, with texts in place of which `codec` writes what they were encoded to.

    Very long texts are encoded in slices, for the same reason as above: an escape sequence takes
    the encoder much longer than a character that is written as it is. What has many members, or
    many levels, is not looked through.
    """
    kind = value.__class__
    if kind is str:
        return _encoded(value) if len(value) > _VERY_LONG else value
    if levels == 0 or not (kind is dict or kind is list) or len(value) > _FEW:
        return value
    if kind is dict:
        return {name: with_texts_encoded(item, levels - 1) for name, item in value.items()}
    return [with_texts_encoded(item, levels - 1) for item in value]


def _encoded(text: str) -> codec.Fragment:
    slices = (text[at : at + _SLICE] for at in range(0, len(text), _SLICE))
    encoded = (codec.dumps(part)[1:-1] for part in slices)
    return codec.Fragment(b"".join((b'"', *encoded, b'"')))
