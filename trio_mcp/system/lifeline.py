"""A process that ends with the one that has started it, even if its event loop is stuck."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from trio_mcp.system.capabilities import POLLS

_ENVIRONMENT: Final = "TRIO_MCP_LIFELINE"
"""Names the descriptor of the end of a pipe and a time, in the environment of a process."""


@contextmanager
def lifeline(seconds: float) -> Iterator[dict[str, Any]]:
    """Tie processes to this one, for the length of the block.

    Args:
        seconds: How long they have to end once this process is gone.

    Yields:
        Options to start a process with that is to `hold_on`. Where processes cannot be tied so
        (Windows), there are none.
    """
    if not POLLS:
        yield {}
        return
    theirs, ours = os.pipe()
    try:
        environment = os.environ | {_ENVIRONMENT: f"{theirs} {seconds}"}
        yield {"env": environment, "pass_fds": (theirs,)}
    finally:
        os.close(theirs)
        os.close(ours)


def hold_on() -> None:
    """Ask this process to end (SIGTERM) when the one that tied it is gone, and kill it in time.

    Nothing happens in a process that was not tied.
    """
    tied = os.environ.pop(_ENVIRONMENT, None)  # what is started from here is not
    if tied is not None:
        fd, seconds = tied.split()
        os.set_inheritable(int(fd), False)
        end_at_hangup(int(fd), float(seconds), ask=True)


def end_at_hangup(fd: int, seconds: float, *, ask: bool = False) -> None:
    """Kill this process some seconds after the other end of a pipe or a socket is closed.

    A thread does it, because a loop that is stuck would not notice.

    Args:
        fd: Our end. It may be closed at any time.
        seconds: How long the process has to end by itself.
        ask: Whether it has to be asked to, by SIGTERM.
    """
    if sys.platform != "win32":  # where no process is tied
        descriptor = os.dup(fd)

        def wait() -> None:
            hangup = select.poll()
            hangup.register(descriptor, 0)  # nothing but a hang-up, which is always reported
            hangup.poll()
            if ask:
                os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(seconds)
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=wait, name="trio-mcp lifeline", daemon=True).start()
