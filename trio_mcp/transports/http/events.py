"""The events of legacy sessions, kept for clients that lose their connection and come back.

`MemoryEventStore` is a bounded list in memory, and `EventMemory` what all of these have together.
`SessionOptions.event_store` makes any other.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Final, Protocol

from trio_mcp.public import public

_LEAST_BYTES: Final = 1024
"""What a short event takes, with all that is around it."""

Key = tuple[str, int]


@public
class EventStore(Protocol):
    """Keeps the events of the streams of one session.

    Its methods are called on the Trio thread and must not block. When the session ends, all of its
    streams are dropped.
    """

    def append(self, stream: str, line: bytes) -> int:
        """Keep an event. Return its number within its stream, from 1 on."""

    def since(self, stream: str, number: int) -> list[tuple[int, bytes]]:
        """Return the events of a stream that are kept and come after a number."""

    def drop(self, stream: str) -> None:
        """Forget a stream."""


class EventMemory:
    """The memory that the events of all sessions have together.

    When it is full, an owner who adds an event loses older ones, if that owner has more than a fair
    share of it; otherwise the owner who has most does. So none loses any to one who has more.

    Args:
        max_bytes: Bytes of all events together. An event counts with its length, but with 1 KiB
            at least; the last one is kept however long it is.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.size = 0
        self._sizes: Counter[str] = Counter()  # by owner, as what follows, with the oldest first
        self._events: dict[str, OrderedDict[tuple[MemoryEventStore, Key], int]] = {}

    def add(self, owner: str, store: MemoryEventStore, key: Key, length: int) -> None:
        """Count an event, and have others forgotten that there is no room for any more."""
        size = max(length, _LEAST_BYTES)
        events = self._events.setdefault(owner, OrderedDict())
        events[store, key] = size
        self._sizes[owner] += size
        self.size += size
        while self.size > self._max_bytes and self.size > size:
            loser = owner
            if len(events) == 1 or self._sizes[owner] * len(self._events) <= self._max_bytes:
                sizes = {**self._sizes, owner: self._sizes[owner] - size}
                loser = max(sizes, key=sizes.__getitem__)
            oldest, number = next(iter(self._events[loser]))
            oldest.forget(number)

    def remove(self, owner: str, store: MemoryEventStore, key: Key) -> None:
        size = self._events[owner].pop((store, key))
        self._sizes[owner] -= size
        self.size -= size
        if not self._events[owner]:
            del self._events[owner], self._sizes[owner]


class MemoryEventStore:
    """The last events of a session, in memory.

    Args:
        limit: Events that are kept, of all streams together.
        max_bytes: Bytes that these may have; the last event is kept however long it is.
        memory: What all sessions have together.
        owner: Whose share of that it is.
    """

    def __init__(
        self, limit: int, max_bytes: int, memory: EventMemory | None = None, owner: str = ""
    ) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._memory: Final = memory or EventMemory(max_bytes)
        self._owner = owner
        self._bytes = 0
        self._numbers: dict[str, int] = {}
        self._events: OrderedDict[Key, bytes] = OrderedDict()

    def append(self, stream: str, line: bytes) -> int:
        number = self._numbers[stream] = self._numbers.get(stream, 0) + 1
        self._events[stream, number] = line
        self._bytes += len(line)
        while (count := len(self._events)) > self._limit or (
            count > 1 and self._bytes > self._max_bytes
        ):
            self.forget(next(iter(self._events)))
        self._memory.add(self._owner, self, (stream, number), len(line))
        return number

    def since(self, stream: str, number: int) -> list[tuple[int, bytes]]:
        last = self._numbers.get(stream, 0)
        numbers = range(max(number + 1, last - self._limit + 1), last + 1)
        return [
            (number, self._events[stream, number])
            for number in numbers
            if (stream, number) in self._events
        ]

    def drop(self, stream: str) -> None:
        last = self._numbers.pop(stream, 0)
        for number in range(max(1, last - self._limit + 1), last + 1):
            if (stream, number) in self._events:
                self.forget((stream, number))

    def forget(self, key: Key) -> None:
        self._bytes -= len(self._events.pop(key))
        self._memory.remove(self._owner, self, key)
