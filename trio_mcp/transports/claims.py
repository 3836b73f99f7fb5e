"""Who uses a stream: one connection at a time, or both would read parts of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

_CLAIMED: Final = trio.lowlevel.RunVar[set[int]]("claimed streams")
_PARTS: Final = ("transport_stream", "send_stream", "receive_stream", "socket")
"""What Trio's own streams are put together of: the same pipe can be in several of them."""


@contextmanager
def claimed(stream: trio.abc.Stream) -> Iterator[None]:
    """Have a stream for oneself for the length of the block.

    Raises:
        trio.BusyResourceError: Another connection has it, or a part of it.
    """
    held = _CLAIMED.get(set())
    _CLAIMED.set(held)
    parts = _parts(stream)  # kept until the end: their ids may not become another object's
    ids = set(map(id, parts))
    if held & ids:
        raise trio.BusyResourceError("this stream is in use by another connection")
    held |= ids
    try:
        yield
    finally:
        held -= ids


def _parts(stream: object) -> list[object]:
    inner = [getattr(stream, name, None) for name in _PARTS]
    return [stream, *(part for found in inner if found is not None for part in _parts(found))]
