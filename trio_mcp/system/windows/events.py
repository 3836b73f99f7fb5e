"""Events with names, by which one process wakes another. One is gone with its last handle."""

import ctypes
import sys
from typing import Final

import trio

from trio_mcp.system.windows import kernel

assert sys.platform == "win32"

_MODIFY: Final = 0x2  # EVENT_MODIFY_STATE
_NOT_FOUND: Final = 2  # ERROR_FILE_NOT_FOUND


def _full(name: str) -> str:
    return rf"Global\trio-mcp-{name}"  # a service and a person have namespaces of their own


class NamedEvent:
    """An event that this process waits for, and its name in other processes."""

    def __init__(self, name: str) -> None:
        self._handle = kernel.checked(kernel.create_event(None, False, False, _full(name)))

    async def wait(self) -> None:
        """Wait until it is set, or has been since the last time."""
        await trio.lowlevel.WaitForSingleObject(self._handle)

    def close(self) -> None:
        kernel.close_handle(self._handle)


def set_event(name: str) -> bool:
    """Set an event; return `False` if there is none of that name."""
    handle = kernel.open_event(_MODIFY, False, _full(name))
    if not handle:
        return ctypes.get_last_error() != _NOT_FOUND
    kernel.set_event(handle)
    kernel.close_handle(handle)
    return True
