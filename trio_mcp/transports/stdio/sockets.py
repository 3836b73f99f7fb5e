"""Sockets that were inherited as plain descriptors."""

import os
import socket
from typing import Final

from trio_mcp.system.descriptors import is_blocking, make_blocking

DONTWAIT: Final[int] = getattr(socket, "MSG_DONTWAIT", 0)
"""The flag of a call that must not block. Where sockets cannot be polled, none is used so."""


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
