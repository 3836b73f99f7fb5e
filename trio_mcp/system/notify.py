"""Notify systemd of a service's state (`sd_notify`), by a datagram to a socket that it names."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from typing import Final

_UNIX: Final[int | None] = getattr(socket, "AF_UNIX", None)
NOTIFY_SOCKET: Final = "NOTIFY_SOCKET"


def notify(state: str) -> None:
    """Notify the service manager that started this process, if it asked for that.

    Args:
        state: `READY=1`, `RELOADING=1` or `STOPPING=1`.
    """
    place = os.environ.get(NOTIFY_SOCKET)
    if _UNIX is None or not place:
        return
    if state == "RELOADING=1":  # without the time, systemd takes the next READY=1 for an older one
        state += f"\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"
    address = "\0" + place[1:] if place.startswith("@") else place
    # The manager may have exited, and a server does not end because of that.
    with suppress(OSError), socket.socket(_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.sendto(state.encode(), address)
