"""Sockets that were inherited as plain descriptors."""

import os
import socket


def adopt(fd: int) -> socket.socket:
    """Wrap *fd*, which the result then owns, without touching its blocking mode.

    `socket.socket` makes it non-blocking for everybody who shares it when a default
    time-out is set; this is taken back at once.
    """
    blocking = os.get_blocking(fd)
    try:
        sock = socket.socket(fileno=fd)
    except BaseException:
        os.close(fd)
        raise
    if os.get_blocking(fd) != blocking:
        os.set_blocking(fd, blocking)
    return sock
