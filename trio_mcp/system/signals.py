"""The signals by which a process is asked to end."""

import atexit
import signal
import sys
from typing import Final

from trio_mcp.system.processes import kill_living

if sys.platform == "win32":
    ENDING: Final = (signal.SIGINT, signal.SIGBREAK)  # SIGTERM cannot be sent there
else:
    ENDING: Final = (signal.SIGINT, signal.SIGTERM)


def end_by(number: int) -> None:
    """End this process by a signal's default action, so that its parent sees the cause.

    Server processes that it has started are ended first. On Windows, this is an exit with status 3.
    """
    kill_living()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def end_soon(number: int, seconds: float) -> None:
    """End this process by a signal when it exits, and after so many seconds at the latest.

    On Windows, it ends at once.
    """
    if sys.platform == "win32":
        end_by(number)
    else:
        atexit.register(end_by, number)
        signal.signal(signal.SIGALRM, lambda *_: end_by(number))
        signal.setitimer(signal.ITIMER_REAL, seconds)
