"""Where it is noted that a sealed state was used: each is good for one request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from trio_mcp.wire.jsonrpc import Json

if TYPE_CHECKING:  # most requests bring no state
    from trio_mcp.registry.sealing import CheckedState, Sealer


class StateRecord(Protocol):
    """The states that were used."""

    def open(self, sealer: Sealer, state: str, binding: Json) -> CheckedState:
        """Open a state that a client presents.

        Args:
            sealer: Has sealed it.
            state: What the client sent.
            binding: What the request at hand is.

        Raises:
            StateRefused: It is not good, or not any more.
        """

    async def consume(self, principal: str | None, state: CheckedState) -> None:
        """Note that a state is used, before the work begins that it is for.

        Raises:
            StateRefused: It was used before.
            McpError: That cannot be known now.
        """


class LocalStates:
    """The states that were used in this process: opening one uses it (a `StateRecord`)."""

    def open(self, sealer: Sealer, state: str, binding: Json) -> CheckedState:
        """Open a state, once."""
        checked = sealer.check(state, binding)
        sealer.use(checked)
        return checked

    async def consume(self, principal: str | None, state: CheckedState) -> None:
        """Do nothing: that was done when it was opened."""
