"""Long bodies of requests: how much of them is in memory, and who makes room for others.

What is short costs nothing here, as the number of open requests bounds it. What is longer counts
from the moment it comes until its request has been answered, or its call in a session has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from weakref import finalize

import trio
from attrs import define, field

SHARE: Final = 3 / 4
"""What one owner may have of all bytes."""

SHORT: Final = 64 * 1024
"""Bytes of a body that is not counted."""


class NoRoom(Exception):
    """There is no room for a long body, or not any more."""


@define(eq=False)
class LongBody:
    """What one request holds of the room for long bodies."""

    bodies: Bodies
    owner: str
    size: int = 0
    _scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """Receive the body within this block; it may have to make room for those of others.

        Raises:
            NoRoom: It had to.
        """
        self.bodies.receiving[self] = None
        try:
            with self._scope:
                yield
        finally:
            self.bodies.receiving.pop(self, None)
        if self._scope.cancelled_caught:
            raise NoRoom

    def drop(self) -> None:
        """Receive no more of it."""
        del self.bodies.receiving[self]
        self.leave()
        self._scope.cancel()

    def grow(self, size: int) -> None:
        """Hold so many bytes.

        Raises:
            NoRoom: The owner has its share, or all bytes are held by those who have no more.
        """
        self.bodies.make_room(self.owner, size - self.size)
        self.bodies.count(self.owner, size - self.size)
        self.size = size

    def leave(self) -> None:
        """Hold nothing any more."""
        self.bodies.count(self.owner, -self.size)
        self.size = 0

    def leave_when_unused(self) -> None:
        """Hold nothing any more once nothing refers to it."""
        finalize(self, self.bodies.count, self.owner, -self.size).atexit = False


class Bodies:
    """The long bodies that are in memory.

    Args:
        max_bytes: Bytes of all of them.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: Counter[str] = Counter()
        self._total = 0
        self.receiving: Final[dict[LongBody, None]] = {}
        """Those of which more is to come, the first one first."""

    def count(self, owner: str, more: int) -> None:
        self._total += more
        self._held[owner] += more
        if not self._held[owner]:
            del self._held[owner]

    def make_room(self, owner: str, more: int) -> None:
        """Have the owner who has most lose bodies, if that is not the one who needs room.

        Raises:
            NoRoom: No owner has more.
        """
        own = self._held[owner] + more
        if own > self._max_bytes * SHARE:
            raise NoRoom
        while self._total + more > self._max_bytes:
            first = max(self.receiving, key=lambda body: self._held[body.owner], default=None)
            if first is None or self._held[first.owner] <= own:
                raise NoRoom
            first.drop()
