"""Large messages, encoded in slices: other threads have their turn in between.

The encoder holds the interpreter's lock until it is done, which is 1 to 2 ms for each mebibyte.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

SLICE: Final = 128 * 1024
"""Characters of a text, or about as many bytes of anything else, that are encoded at once."""
FEW: Final = 20
"""Members of an object or an array up to which each is encoded by itself: it may be large."""
_LEVELS: Final = 8
"""What is nested more deeply is encoded at once."""


def slices(value: Any, write: Callable[[Any], bytes], depth: int = 0) -> Iterator[bytes]:
    """Encode a JSON value in slices, which are together what it would be encoded to as a whole.

    Args:
        value: The value.
        write: Encodes a part of it. What it raises is raised here.
        depth: How many arrays and objects the value is in.
    """
    kind = value.__class__
    if kind is str and len(value) > SLICE:
        yield b'"'
        for at in range(0, len(value), SLICE):
            yield write(value[at : at + SLICE])[1:-1]
        yield b'"'
    elif value and (kind is list or kind is dict) and depth < _LEVELS:
        yield from _members(value, write, depth)
    else:
        yield _whole(value, write, depth)


def _members(value: Any, write: Callable[[Any], bytes], depth: int) -> Iterator[bytes]:
    """Encode the members of an array or an object one by one; of many, as many as fill a slice."""
    kind = value.__class__
    members = iter(value if kind is list else value.items())
    before, count = b"[" if kind is list else b"{", 1
    while part := kind(islice(members, count)):
        yield before
        before = b","
        if count > 1:
            pieces = [_whole(part, write, depth)[1:-1]]
        elif kind is list:
            pieces = [*slices(part[0], write, depth + 1)]
        else:
            ((name, member),) = part.items()
            pieces = [write({name: 0})[1:-2], *slices(member, write, depth + 1)]
        yield from pieces
        if len(value) > FEW:
            count = min(2 * count, max(count * SLICE // sum(map(len, pieces)), 1))
    yield b"]" if kind is list else b"}"


def _whole(value: Any, write: Callable[[Any], bytes], depth: int) -> bytes:
    """Encode a value at once. It is refused if it is nested too deeply where it is."""
    for _ in range(depth):
        value = [value]
    line = write(value)
    return line[depth : len(line) - depth]
