"""The slots of a call, which others may have while it waits for its client."""

from __future__ import annotations

from attrs import define, field

from trio_mcp.layers.concurrency import HeldSlots
from trio_mcp.peer.inbound import InboundRequest
from trio_mcp.peer.runner import wait_for_slots


@define(eq=False, repr=False)
class Lending:
    """What one call has of slots, and lends to others."""

    _call: InboundRequest
    _held: list[HeldSlots] = field(factory=list, init=False)
    _lender: InboundRequest | None = field(default=None, init=False)

    def add(self, slots: HeldSlots) -> None:
        """Note that the call has further slots."""
        self._held.append(slots)

    def lend(self) -> None:
        """Let others have the slots that they could need, until `take_back`."""
        self._lender = self._call.inbound.lend_slot(self._call.key)
        for slots in self._held:
            slots.lend()

    async def take_back(self) -> None:
        """Wait for slots in place of those that were lent."""
        if self._lender is not None and self._call.inbound.take_slot_back(self._lender):
            await wait_for_slots(self._lender)
        for slots in self._held:
            await slots.take_back()
