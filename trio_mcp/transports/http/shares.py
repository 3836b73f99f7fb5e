"""What each client has of what all have together, so that none keeps the others out."""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from weakref import WeakValueDictionary

from trio_mcp.peer.inbound import InboundRequest, Slots
from trio_mcp.transports.http.policy import HttpPolicy
from trio_mcp.transports.http.request import Refusal

_RETRY: Final = [(b"retry-after", b"1")]
_SPARE: Final = 32
"""Requests of a client that may be read while as many as it may have are open."""


class Shares:
    """The slots for calls, and the open requests, of each client: a principal, or an address."""

    def __init__(self, policy: HttpPolicy) -> None:
        self._most = policy.max_concurrent_each
        self._all = Slots(policy.max_concurrent)
        self._slots: WeakValueDictionary[str, Slots] = WeakValueDictionary()
        self.slots_of = lru_cache(maxsize=1024)(self._slots_of)
        """Return the slots of a client, which are the same for as long as any is in use."""
        self._open: dict[str, int] = {}

    @property
    def waiting(self) -> int:
        """How many calls wait for a slot."""
        return self._all.waiting

    def _slots_of(self, owner: str) -> Slots:
        slots = self._slots.get(owner)
        if slots is None:
            slots = self._slots[owner] = Slots(self._most, self._all)
        return slots

    def enter(self, owner: str, *, is_stream: bool) -> None:
        """Count a request of a client as open until `leave`, or refuse one too many (429).

        What is not a stream may be an answer or a cancellation, which some of those that are open
        wait for. So there is some room left for them; a call has to `stay`.
        """
        count = self._open.get(owner, 0)
        if count >= (self._most if is_stream else self._most + _SPARE):
            raise _too_many()
        self._open[owner] = count + 1

    def stay(self, owner: str) -> None:
        """Let a request that was counted in stay open until it is answered, or refuse it (429)."""
        if self._open[owner] > self._most:
            raise _too_many()

    def leave(self, owner: str) -> None:
        count = self._open[owner] - 1
        if count:
            self._open[owner] = count
        else:
            del self._open[owner]


class SessionSlots(Slots):
    """The slots of a session, which has hold of its client's while it has a call.

    There are thousands of sessions without one, and each may be of another client.
    """

    __slots__ = ("_count", "_owner", "_shares")

    def __init__(self, count: int, shares: Shares, owner: str) -> None:
        super().__init__(count)
        self._count = count
        self._shares = shares
        self._owner = owner

    def take(self, request: InboundRequest) -> bool:
        if self._shared is None:
            self._shared = self._shares.slots_of(self._owner)
        return super().take(request)

    def give_back(self, request: InboundRequest) -> None:
        super().give_back(request)
        if self.free == self._count:
            self._shared = None


def _too_many() -> Refusal:
    what = "Too many open requests; wait until some have ended."
    return Refusal(429, what, _RETRY, reason="open requests")
