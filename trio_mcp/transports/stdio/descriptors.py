"""What a file descriptor is, and copies of it that are ours alone.

Strategy: an inherited descriptor shares its open file description, and with it the
blocking mode, with the parent process and often with stderr.  So nothing here ever sets
a flag on one.  A pipe or terminal is opened a second time through ``/proc/self/fd``,
which yields a description of our own that may be non-blocking; everything else is used
in ways that need no flag.  `kind_of` names the few kinds that readers and writers tell
apart.
"""

import contextlib
import enum
import errno
import os
import socket
import stat
import threading
from typing import Final

from trio_mcp.system import flags
from trio_mcp.system.capabilities import POLLS, REOPENS
from trio_mcp.system.descriptors import device_of, is_blocking, make_blocking

DONTWAIT: Final[int] = getattr(socket, "MSG_DONTWAIT", 0)
"""The flag of a call that must not block. Where sockets cannot be polled, none is used so."""

_PTY_MASTER = (5, 2)  # Linux's /dev/ptmx: opening it again makes another terminal


class Kind(enum.Enum):
    """The kinds of file that are read and written in different ways."""

    PIPE = enum.auto()
    SOCKET = enum.auto()
    TERMINAL = enum.auto()
    FILE = enum.auto()
    OTHER = enum.auto()


_FILES = {stat.S_IFREG: Kind.FILE} if hasattr(os, "pread") else {}
# Where the event loop can wait for none of these, all of them are OTHER.
_KINDS = _FILES | ({stat.S_IFIFO: Kind.PIPE, stat.S_IFSOCK: Kind.SOCKET} if POLLS else {})


def kind_of(fd: int) -> Kind:
    if POLLS and os.isatty(fd):
        return Kind.TERMINAL
    return _KINDS.get(stat.S_IFMT(os.fstat(fd).st_mode), Kind.OTHER)


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError as error:
        if error.errno == errno.EBADF:
            return False
        raise
    return True


def reopen(fd: int, access: int) -> int | None:
    """Open the pipe or terminal behind *fd* again, non-blocking and for us alone.

    Args:
        fd: A descriptor of a pipe or terminal.
        access: ``os.O_RDONLY`` or ``os.O_WRONLY``.

    Returns:
        A close-on-exec descriptor, or None where the system cannot give one: there is
        no ``/proc``, the file belongs to another user, or the terminal is a master.
    """
    original = os.fstat(fd)
    if not REOPENS or (stat.S_ISCHR(original.st_mode) and device_of(fd) == _PTY_MASTER):
        return None
    try:
        private = os.open(f"/proc/self/fd/{fd}", access | flags.NONBLOCK | flags.NOCTTY)
    except OSError:
        return None
    if os.path.samestat(original, os.fstat(private)) and not is_blocking(private):
        return private
    os.close(private)
    return None


def adopt(fd: int) -> socket.socket:
    """Wrap *fd*, which the result then owns, without touching its blocking mode.

    `socket.socket` makes it non-blocking for all who share it when a default
    time-out is set; this is taken back at once.
    """
    blocking = is_blocking(fd)
    try:
        sock = socket.socket(fileno=fd)
    except BaseException:
        os.close(fd)
        raise
    if blocking and not is_blocking(fd):
        make_blocking(fd)
    return sock


class Lease:
    """A descriptor that stays open until its owner and every borrower have let go.

    A worker thread may be abandoned in the middle of a system call.  Were the descriptor
    closed under it, the number could come to mean another file; so the last to let go
    closes it.  Borrow it with ``with lease as fd``; this raises `OSError` (EBADF) once
    the owner has called `close` and no borrower holds it.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._holders = 1
        self._lock = threading.Lock()

    def __enter__(self) -> int:
        with self._lock:
            if not self._holders:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            self._holders += 1
        return self._fd

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go as the owner; call it once."""
        with self._lock:
            self._holders -= 1
            last = not self._holders
        if last:
            with contextlib.suppress(OSError):  # e.g. a late NFS error, too late for any user
                os.close(self._fd)
