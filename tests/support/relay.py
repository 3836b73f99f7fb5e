"""A network between a program and a server, which can be cut and healed while both run."""

from __future__ import annotations

from contextlib import suppress

import trio
from attrs import define, field

_CHUNK = 65536


def _set() -> trio.Event:
    event = trio.Event()
    event.set()
    return event


@define(eq=False)
class Way:
    """One direction. While it is cut, bytes are accepted and held back, and nobody is told."""

    whole: trio.Event = field(factory=_set)
    held: trio.Event = field(factory=trio.Event)
    """Whether something is held back."""

    def cut(self) -> None:
        """Let nothing through from now on."""
        self.whole, self.held = trio.Event(), trio.Event()

    async def passable(self) -> None:
        """Wait until something may pass."""
        if not self.whole.is_set():
            self.held.set()
            await self.whole.wait()


@define(eq=False)
class _Connection:
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    forgotten: bool = False


@define(eq=False)
class Relay:
    """Passes each connection on to a port of this machine.

    What is held back while it is cut comes through once it is healed, as if the system had sent it
    again. A firewall in between may have forgotten the connections, though: then nothing that was
    or will be sent on them comes through, and their ends are not told.

    Args:
        target: The port of the server.
    """

    target: int
    port: int = field(default=0, init=False)
    requests: Way = field(factory=Way, init=False)
    answers: Way = field(factory=Way, init=False)
    _connections: set[_Connection] = field(factory=set, init=False)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Pass on what comes, until cancelled."""
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listener.socket.getsockname()[1]
        task_status.started()
        await trio.serve_listeners(self._pass_on, [listener])

    def cut(self) -> None:
        """Let nothing through from now on, either way."""
        self.requests.cut()
        self.answers.cut()

    def heal(self, *, forget: bool = False) -> None:
        """Let everything through again.

        Args:
            forget: Nothing more comes through on the connections that there are.
        """
        for each in self._connections:
            each.forgotten |= forget
        self.requests.whole.set()
        self.answers.whole.set()

    def reset(self) -> None:
        """End all connections that there are."""
        for each in self._connections:
            each.scope.cancel()

    async def _pass_on(self, client: trio.SocketStream) -> None:
        connection = _Connection()
        self._connections.add(connection)
        with connection.scope, suppress(OSError):  # the server may not be there
            async with (
                await trio.open_tcp_stream("127.0.0.1", self.target) as server,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(self._pump, connection, server, client, self.answers)
                await self._pump(connection, client, server, self.requests)
                nursery.cancel_scope.cancel()
        self._connections.discard(connection)

    async def _pump(
        self,
        connection: _Connection,
        source: trio.SocketStream,
        sink: trio.SocketStream,
        way: Way,
    ) -> None:
        try:
            while chunk := await source.receive_some(_CHUNK):
                await way.passable()
                if not connection.forgotten:
                    await sink.send_all(chunk)
            await way.passable()
            if not connection.forgotten:
                await sink.send_eof()
        except trio.BrokenResourceError:  # one of the two has gone
            connection.scope.cancel()
