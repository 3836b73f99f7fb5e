"""Taking all the connections that wait, and not just the first of them.

A Trio listener gives one connection in a turn of the scheduler, and in a turn every connection
that has something to do is served. So where many are busy, those who knock would wait for seconds.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import trio

from trio_mcp.transports.http.server.listeners import SharedListener

_AT_ONCE = 64


class Backlog:
    """The connections that wait at a listener.

    Args:
        listener: A listener on a socket. At any other (one that speaks TLS, say, where handshakes
            cost much more than turns; or one that is shared, where they are for other processes
            too) none is ever seen to wait.
    """

    def __init__(self, listener: trio.abc.Listener[trio.abc.Stream]) -> None:
        if not isinstance(listener, trio.SSLListener | SharedListener):
            listener = getattr(listener, "transport_listener", listener)
        self._socket: socket.socket | None = None
        if isinstance(listener, trio.SocketListener):
            # The same socket once more, for an `accept` that does not wait.
            self._socket = socket.socket(fileno=socket.dup(listener.socket.fileno()))
            self._socket.setblocking(False)

    def take(self) -> Iterator[trio.SocketStream]:
        if self._socket is None:
            return
        for _ in range(_AT_ONCE):
            try:
                accepted, _ = self._socket.accept()
            except OSError:  # none waits, or the listener will say what is wrong
                return
            yield trio.SocketStream(trio.socket.from_stdlib_socket(accepted))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
