"""What this system can do, found by looking and not by the system's name.

`TRIO_MCP_WITHOUT` in the environment names capabilities to ignore, separated by commas: with it,
tests make the library behave as on another system.
"""

import os
from typing import Final

import trio

_WITHOUT: Final = frozenset(os.environ.get("TRIO_MCP_WITHOUT", "").split(","))


def _can(name: str, found: bool) -> bool:
    return found and name not in _WITHOUT


POLLS: Final = _can("polling", hasattr(trio.lowlevel, "FdStream"))
"""The event loop can wait for pipes and terminals, and sockets are descriptors. Not on Windows."""

REOPENS: Final = _can("reopening", os.path.isdir("/proc/self/fd"))
"""A descriptor's file can be opened again. On Linux."""

WALKS: Final = _can("walking", os.open in os.supports_dir_fd and os.scandir in os.supports_fd)
"""Files can be opened within a directory that is open. Not on Windows."""
