"""The events of a legacy session, kept for a client that loses its connection and comes back.

`MemoryEventStore` is a bounded list in memory; `HttpPolicy.event_store` makes any other.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from trio_mcp.public import public


@public
class EventStore(Protocol):
    """Keeps the events of the streams of one session.

    Its methods are called on the Trio thread and must not block.
    """

    def append(self, stream: str, line: bytes) -> int:
        """Keep an event; returns its number within its stream, from 1 on."""

    def since(self, stream: str, number: int) -> list[tuple[int, bytes]]:
        """Return those events of a stream that are kept and come after a number."""

    def drop(self, stream: str) -> None:
        """Forget a stream."""


class MemoryEventStore:
    """The last events, in memory.

    Args:
        most: Events that are kept, of all streams together.
        most_bytes: Bytes that these may have; the last event is kept however long it is.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._numbers: dict[str, int] = {}
        self._events: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def append(self, stream: str, line: bytes) -> int:
        """Keep an event; returns its number within its stream, from 1 on."""
        number = self._numbers[stream] = self._numbers.get(stream, 0) + 1
        self._events[stream, number] = line
        self._bytes += len(line)
        while len(self._events) > self._most or self._is_too_long():
            _, oldest = self._events.popitem(last=False)
            self._bytes -= len(oldest)
        return number

    def _is_too_long(self) -> bool:
        return self._bytes > self._most_bytes and len(self._events) > 1

    def since(self, stream: str, number: int) -> list[tuple[int, bytes]]:
        """Return those events of a stream that are kept and come after a number."""
        last = self._numbers.get(stream, 0)
        numbers = range(max(number + 1, last - self._most + 1), last + 1)
        return [
            (each, self._events[stream, each]) for each in numbers if (stream, each) in self._events
        ]

    def drop(self, stream: str) -> None:
        """Forget a stream."""
        last = self._numbers.pop(stream, 0)
        for number in range(max(1, last - self._most + 1), last + 1):
            self._bytes -= len(self._events.pop((stream, number), b""))
