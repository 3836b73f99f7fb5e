"""Values that are kept for a while, within a bound of bytes: those that were used last."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from attrs import frozen

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@frozen
class _Kept(Generic[V]):
    value: V
    size: int
    until: float


class KeptValues(Generic[K, V]):
    """Values by their keys.

    Args:
        max_bytes: Bytes that they take at most; what was not used for the longest time goes first.

    Example:
        >>> kept = KeptValues(max_bytes=10)
        >>> kept.put("a", "value", 5, until=60.0)
        >>> kept.find("a", now=59.0), kept.find("a", now=60.0)
        ('value', None)
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[K, _Kept[V]] = OrderedDict()

    def __iter__(self) -> Iterator[tuple[K, V]]:
        """Go through keys and values. They may be dropped meanwhile."""
        return iter([(key, kept.value) for key, kept in self._kept.items()])

    def find(self, key: K, now: float) -> V | None:
        """Return a value whose time is not over; `None` if there is none."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if now >= kept.until:
            self.drop(key)
            return None
        self._kept.move_to_end(key)
        return kept.value

    def put(self, key: K, value: V, size: int, until: float) -> None:
        """Keep a value in place of an older one, if there can be room for it."""
        self.drop(key)
        if size > self._max_bytes:
            return
        self._kept[key] = _Kept(value, size, until)
        self._bytes += size
        while self._bytes > self._max_bytes:
            self.drop(next(iter(self._kept)))

    def drop(self, key: K) -> None:
        """Keep a value no longer. Nothing happens if there is none."""
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= kept.size

    def clear(self) -> None:
        self._kept.clear()
        self._bytes = 0
