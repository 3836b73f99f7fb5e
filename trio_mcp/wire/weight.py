"""How much there is in a JSON text, found out before it is parsed.

A parser makes an object of each value, and cannot be interrupted. So it is not the length of a text
that matters, but what is in it: ten megabytes are one string and a few milliseconds, or three
million lists, half a second and half a gigabyte.
"""

from collections.abc import Iterator
from typing import Final

_NOT_COUNTED: Final = bytes(set(range(256)) - set(b"[{:,"))
_AS_MANY: Final = 5  # values that take as long to make as an array, an object or a name
_DENSEST: Final = 2.5  # weight of a byte, in valid JSON: of nested arrays
_PIECE: Final = 256 * 1024
_LONG: Final = 4 * 1024 * 1024
_SLOW: Final = 256 * 1024
"""Bytes that are parsed in 10 ms if there are integers beyond 64 bits."""
_HEAVY: Final = 100_000
"""So much is parsed, and looked at again, in about 10 ms."""
_SPARSE: Final = 8192
"""Bytes for each quotation mark: from there on it is worth while to go from one to the next."""

_BACKSLASH: Final = ord("\\")
_DIGITS_TO_ZERO: Final = bytes.maketrans(b"123456789-", b"0000000000")
_BEYOND: Final = b"0" * 20
"""Digits, and a sign, of which shorter integers have fewer: they fit 64 bits."""


def is_long(text: bytes) -> bool:
    """Whether a text takes so long to parse that other tasks should get their turn meanwhile."""
    if len(text) > _LONG:
        return True
    bare = without_strings(text)
    return _weight(bare) > _HEAVY or (len(text) > _SLOW and has_long_integers(bare))


def is_heavier(text: bytes, limit: int) -> bool:
    """Whether there is more in a text than may be, by `Limits.max_message_values`."""
    if _DENSEST * len(text) <= limit:
        return False
    bare = without_strings(text)
    weight = _weight(bare)
    if weight <= limit or weight - _weight_within(bare) <= limit:
        return False
    weight = 0
    for piece in _outside_strings(text):
        weight += _weight(piece)
        if weight > limit:
            return True
    return False


def has_long_integers(text: bytes) -> bool:
    """Whether a text may have integers beyond 64 bits; digits in its strings count, too."""
    zeros = text.translate(_DIGITS_TO_ZERO)
    at = zeros.find(_BEYOND)
    while at >= 0:
        if zeros[at - 1 : at] not in (b".", b"0"):  # a fraction, or the rest of one
            return True
        at = zeros.find(_BEYOND, at + len(_BEYOND))
    return False


def without_strings(text: bytes) -> bytes:
    """Leave out the strings, names among them; or nothing, if there are many of them."""
    pieces, at, end, hops = [], 0, 0, len(text) // _SPARSE
    while (begin := text.find(b'"', at)) >= 0:
        pieces.append(text[at:begin])
        end = begin
        while end == begin or _is_escaped(text, at, end):
            at, end, hops = end + 1, text.find(b'"', end + 1), hops - 1
            if end < 0 or hops < 0:
                return text
        at = end + 1
    return b"".join([*pieces, text[at:]])


def _is_escaped(text: bytes, begin: int, at: int) -> bool:
    if text[at - 1] != _BACKSLASH:
        return False
    before = text[begin:at]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1


def _weight(text: bytes) -> int:
    marks = text.translate(None, _NOT_COUNTED)
    return _AS_MANY * len(marks) - (_AS_MANY - 1) * marks.count(b",")


def _weight_within(text: bytes) -> int:
    """Return what some of the names weigh in JSON that is itself in a string: most are such ones.

    Their colons follow an escaped quotation mark, if it is not the backslash that is escaped.
    """
    return 0 if text.rfind(b'\\\\":') >= 0 else _AS_MANY * text.count(b'\\":')


def _outside_strings(text: bytes) -> Iterator[bytes]:
    """Leave out the strings. It goes on in pieces, so that in a thread it is interrupted."""
    inside = start = 0
    while start < len(text):
        piece = text[start : start + _PIECE]
        backslashes = len(piece) - len(piece.rstrip(b"\\"))
        if backslashes % 2:  # an escape sequence must not be cut
            piece = text[start : start + _PIECE + 1]
        start += len(piece)
        bare = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = bare.split(b'"')
        yield b"".join(parts[inside::2])
        inside = (inside + len(parts) - 1) % 2
