"""Flags of `os.open`, zero on systems that lack one and behave so anyway.

Python opens every file for this process alone (`O_CLOEXEC`), on all systems.
"""

import os
from typing import Final

BINARY: Final[int] = getattr(os, "O_BINARY", 0)
"""Bytes are bytes. On Windows, where line ends would be translated."""
DIRECTORY: Final[int] = getattr(os, "O_DIRECTORY", 0)
NOCTTY: Final[int] = getattr(os, "O_NOCTTY", 0)
NOFOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK: Final[int] = getattr(os, "O_NONBLOCK", 0)
