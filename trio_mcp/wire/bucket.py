"""A token bucket: so many at once, so many in a second after that."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from attrs import define, field

_ROUNDING: Final = 1e-9
"""A caller that returns after exactly the time that it was given need not wait again."""


@define
class TokenBucket:
    """Says how often something may happen.

    Args:
        rate: How often in a second, in the long run.
        burst: How often at once.

    Example:
        >>> bucket = TokenBucket(rate=1.0, burst=2.0)
        >>> [bucket.take(now) for now in (0.0, 0.1, 0.2, 1.5)]
        [True, True, False, True]
    """

    rate: float
    burst: float
    _filled: float = field(init=False)
    _since: float | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._filled = self.burst

    def take(self, now: float) -> bool:
        """Take a token, if there is one. The clock may be any that does not go back."""
        return self.wait(now) == 0.0

    def charge(self, now: float) -> None:
        """Take a token whether there is one or not, and owe it: as many as make a full bucket."""
        if self.wait(now):
            self._filled = max(-self.burst, self._filled - 1.0)

    def put_back(self) -> None:
        """Put a token back that was not needed after all."""
        self._filled = min(self.burst, self._filled + 1.0)

    def wait(self, now: float) -> float:
        """Take a token, or say in how many seconds there will be one."""
        if self._since is not None:
            self._filled = min(self.burst, self._filled + (now - self._since) * self.rate)
        self._since = now
        if self._filled >= 1.0 - _ROUNDING:
            self._filled -= 1.0
            return 0.0
        return (1.0 - self._filled) / self.rate


B = TypeVar("B", bound=TokenBucket)
K = TypeVar("K", bound=Hashable)


class Buckets(Generic[K, B]):
    """A bucket for each key. The last `limit` that were used are remembered."""

    def __init__(self, make: Callable[[K], B], limit: int) -> None:
        self._make = make
        self._limit = limit
        self._buckets: OrderedDict[K, B] = OrderedDict()

    def of(self, key: K) -> B:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = self._make(key)
            if len(self._buckets) > self._limit:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        return bucket

    async def fill(self, key: K) -> None:
        """Have what other processes leave of a rate here, if there are any."""


class TokenBuckets(Buckets[Hashable, TokenBucket]):
    """A `TokenBucket` for each key, in this process."""

    def __init__(self, rate: float, burst: float, limit: int) -> None:
        super().__init__(lambda _: TokenBucket(rate, burst), limit)
