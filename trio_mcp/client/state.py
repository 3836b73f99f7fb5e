"""The state of a connection, as values that can be watched."""

from collections.abc import AsyncIterator

from attrs import frozen

from trio_mcp.errors import ClientError
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
    """The connection has ended, with an error or, left as usual, with none."""

    error: ClientError | None = None


ClientState = Connecting | Connected | Disconnected


class StateLog:
    """The present state, and those who watch it change. It ends exactly once."""

    def __init__(self) -> None:
        self.current: ClientState = Connecting()
        self._changes: Broadcast[ClientState] = Broadcast()

    def connected(self) -> None:
        """Move on, unless the connection has ended already."""
        if not isinstance(self.current, Disconnected):
            self._move(Connected())

    def disconnected(self, error: ClientError | None) -> None:
        """End, the first time that this is called."""
        if not isinstance(self.current, Disconnected):
            self._move(Disconnected(error))
            self._changes.end()

    def _move(self, state: ClientState) -> None:
        self.current = state
        self._changes.announce(state)

    def listen(self) -> AsyncIterator[ClientState]:
        """Iterate from the present state to the end."""
        return self._changes.listen(self.current)
