"""Opening the listeners of a server: TCP or a Unix socket, in the clear or with TLS."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import stat
from collections.abc import Iterator, Sequence
from typing import Final

import trio

_UNIX: Final[int | None] = getattr(socket, "AF_UNIX", None)

Listeners = Sequence[trio.abc.Listener[trio.abc.Stream]]


async def open_tcp(
    host: str, port: int, *, ssl_context: ssl.SSLContext | None = None, backlog: int | None = None
) -> Listeners:
    """Listen on a TCP port.

    Args:
        host: A name or address of this machine. A name that stands for several addresses gives a
            listener for each.
        port: The port, or 0 for any that is free (for each address one of its own).
        ssl_context: Speak TLS, with this context.
        backlog: How many connections may wait to be accepted; as many as possible if left out.

    Raises:
        ValueError: The host is empty.
        OSError: The address is in use or not of this machine, or the name is not known. It says
            which address.
    """
    if host == "":
        raise ValueError("the host is empty: it is '127.0.0.1', or '0.0.0.0' for all addresses")
    try:
        listeners = await trio.open_tcp_listeners(port, host=host, backlog=backlog)
    except OSError as error:
        error.filename = f"{host}:{port}"  # it is shown, as a file is of which an error tells
        raise
    return secured(listeners, ssl_context)


async def open_unix(
    path: str | os.PathLike[str],
    *,
    mode: int = 0o600,
    ssl_context: ssl.SSLContext | None = None,
    backlog: int = 1024,
) -> Listeners:
    """Listen on a Unix socket, which is removed when the listener is closed.

    A socket that a dead process has left behind is replaced. No client can connect before the
    permissions are set.

    Args:
        path: Where to create the socket.
        mode: Its permissions: who may write to it may connect.
        ssl_context: Speak TLS, with this context.
        backlog: How many connections may wait to be accepted.

    Raises:
        ValueError: The path is empty.
        FileExistsError: There is something else at that path.
        OSError: Another server listens there, no socket can be created there, or Python has no Unix
            sockets on this system (Windows).
    """
    if _UNIX is None:
        raise OSError(errno.EAFNOSUPPORT, "there are no Unix sockets in Python on this system")
    path = os.fspath(path)
    if not path:  # Linux would make up a name
        raise ValueError("the path of the socket is empty")
    await _remove_dead(path, _UNIX)
    sock = trio.socket.socket(_UNIX, socket.SOCK_STREAM)
    try:
        await sock.bind(path)
        os.chmod(path, mode)
        sock.listen(backlog)
        listener = UnixListener(sock, path)
    except BaseException:
        sock.close()
        raise
    return secured([listener], ssl_context)


async def _remove_dead(path: str, unix: int) -> None:
    try:
        kind = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise FileExistsError(errno.EEXIST, "there is something that is not a socket at", path)
    with trio.socket.socket(unix, socket.SOCK_STREAM) as probe:
        try:
            await probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise OSError(errno.EADDRINUSE, "another server listens at", path)


class UnixListener(trio.abc.Listener[trio.SocketStream]):
    """A listener on a Unix socket that removes the socket's file with itself."""

    def __init__(self, sock: trio.socket.SocketType, path: str) -> None:
        self.transport_listener = trio.SocketListener(sock)
        self._path = path
        self._file: tuple[int, int] | None = _identity(path)

    async def accept(self) -> trio.SocketStream:
        return await self.transport_listener.accept()

    async def aclose(self) -> None:
        """Close the socket, and remove its file unless another one has taken its place."""
        mine, self._file = self._file, None
        try:
            if mine is not None and _identity(self._path) == mine:
                os.unlink(self._path)
        finally:
            await self.transport_listener.aclose()


_OTHERS_FIRST: Final = 0.001
"""Seconds in which a process leaves connections to others."""


class SharedListener(trio.abc.Listener[trio.SocketStream]):
    """A listener on a socket from which other processes accept connections as well.

    A process that is awake would take all connections that come at once, before any other has
    woken up, and have all their requests to itself for as long as they are kept. So it takes one,
    and lets the others go first before it takes more; one more each time while any still wait.

    What the socket is bound to is not removed with it.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.transport_listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        self._turn = self._left = 1

    async def accept(self) -> trio.SocketStream:
        if not self._left:
            await trio.sleep(_OTHERS_FIRST)
            is_any_left = self.transport_listener.socket.is_readable()
            self._turn = self._left = self._turn + 1 if is_any_left else 1
        stream = await self.transport_listener.accept()
        self._left -= 1
        return stream

    async def aclose(self) -> None:
        await self.transport_listener.aclose()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def secured(listeners: Listeners, ssl_context: ssl.SSLContext | None) -> Listeners:
    if ssl_context is None:
        return listeners
    return [trio.SSLListener(listener, ssl_context) for listener in listeners]


_AT_ONCE = 64


class Backlog:
    """The connections that wait at a listener, to take all of them and not just the first.

    A Trio listener gives one connection in a turn of the scheduler, and in a turn every connection
    that has something to do is served. So where many are busy, those who knock would wait for
    seconds.

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
            # The same socket again, for an `accept` that does not wait.
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
