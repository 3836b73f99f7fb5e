"""The slots of a call, which others may have while it waits for its client."""

from __future__ import annotations

from attrs import define, field

from trio_mcp.layers.concurrency import HeldSlots
from trio_mcp.peer.inbound import InboundRequest
from trio_mcp.peer.runner import wait_for_slots


@define(eq=False, repr=False)
class Lending:
    """What one call has of slots, and lends to others.

    It does not know its call, which knows it: what waits for a call to be gone, such as the room
    that its message holds, would wait for the garbage collector.
    """

    _held: list[HeldSlots] = field(factory=list, init=False)
    _lender: InboundRequest | None = field(default=None, init=False)

    def add(self, slots: HeldSlots) -> None:
        """Note that the call has further slots."""
        self._held.append(slots)

    def lend(self, call: InboundRequest) -> None:
        """Let others have the slots that they could need, until `take_back`."""
        self._lender = call.inbound.lend_slot(call.key)
        for slots in self._held:
            slots.lend()

    async def take_back(self) -> None:
        """Wait for slots in place of those that were lent."""
        lender, self._lender = self._lender, None
        if lender is not None and lender.inbound.take_slot_back(lender):
            await wait_for_slots(lender)
        for slots in self._held:
            await slots.take_back()
