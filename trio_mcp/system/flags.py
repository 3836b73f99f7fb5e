"""Flags of `os.open` that not every system has; there, what they ask for is the case anyway.

Python opens every file for this process alone (`O_CLOEXEC`), on all systems.
"""

import os
from typing import Final


def _flag(name: str) -> int:
    found: int = getattr(os, name, 0)
    return found


BINARY: Final = _flag("O_BINARY")
"""Bytes are bytes. On Windows, where line ends would be translated."""
DIRECTORY: Final = _flag("O_DIRECTORY")
NOCTTY: Final = _flag("O_NOCTTY")
NOFOLLOW: Final = _flag("O_NOFOLLOW")
NONBLOCK: Final = _flag("O_NONBLOCK")
