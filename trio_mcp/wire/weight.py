"""How much there is in a JSON text, found out before it is parsed.

A parser makes an object of each value, and cannot be interrupted. So it is not the length of a text
that matters, but what is in it: ten megabytes are one string and a few milliseconds, or three
million lists, half a second and half a gigabyte.
"""

from collections.abc import Iterator
from typing import Final

_COMPOUND: Final = b"[{:"
_AS_MANY: Final = 5  # values that take as long to make as an array, an object or a name
_PIECE: Final = 256 * 1024
_LONG: Final = 4 * 1024 * 1024
_HEAVY: Final = 100_000
"""So much is parsed, and looked at again, in about 10 ms."""


def is_long(text: bytes) -> bool:
    """Whether a text takes so long to parse that other tasks should get their turn meanwhile."""
    return len(text) > _LONG or _weight(text) > _HEAVY


def is_heavier(text: bytes, limit: int) -> bool:
    """Whether there is more in a text than may be, by `Limits.max_message_values`."""
    if _weight(text) <= limit:  # although what is in its strings was counted
        return False
    weight = 0
    for piece in _outside_strings(text):
        weight += _weight(piece)
        if weight > limit:
            return True
    return False


def _weight(text: bytes) -> int:
    compound = len(text) - len(text.translate(None, _COMPOUND))
    return text.count(b",") + _AS_MANY * compound


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
