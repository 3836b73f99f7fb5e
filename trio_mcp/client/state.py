"""The state of a connection, as values that can be watched."""

from collections.abc import AsyncIterator

from attrs import frozen

from trio_mcp.public import public
from trio_mcp.transports.observe import Broadcast


@public
@frozen
class Connecting:
    """The server is being started, or the handshake is under way."""


@public
@frozen
class Connected:
    """The handshake is done and the tools are known."""


@public
@frozen
class Disconnected:
    """The connection has ended, or never began.

    Args:
        error: Why; `None` if its block was left, or cancelled while it was being entered.
    """

    error: Exception | None = None


ClientState = Connecting | Connected | Disconnected


class StateLog:
    """The present state and its watchers. It ends exactly once."""

    def __init__(self) -> None:
        self.current: ClientState | None = None
        """`None` before anything has begun."""
        self._changes: Broadcast[ClientState] = Broadcast()

    def move(self, state: ClientState) -> None:
        """Change the state, unless it has ended."""
        if isinstance(self.current, Disconnected):
            return
        self.current = state
        self._changes.announce(state)
        if isinstance(state, Disconnected):
            self._changes.end()

    def listen(self) -> AsyncIterator[ClientState]:
        """Iterate over the states, from the present or else the first one."""
        return self._changes.listen(*([] if self.current is None else [self.current]))
