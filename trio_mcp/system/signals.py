"""The signals by which a process is asked to end."""

import signal
import sys
from typing import Final

if sys.platform == "win32":
    ENDING: Final = (signal.SIGINT, signal.SIGBREAK)  # SIGTERM cannot be sent there
else:
    ENDING: Final = (signal.SIGINT, signal.SIGTERM)


def end_by(number: int) -> None:
    """End this process by a signal's default action, so that its parent sees the cause.

    On Windows, this is an exit with status 3.
    """
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
