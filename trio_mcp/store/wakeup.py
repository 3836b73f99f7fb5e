"""How one process wakes another: a named pipe beside the database; on Windows, a named event.

A named pipe can be awaited, needs no port and no permission but the file's, has no limit to the
length of its path, works between containers that share a folder, and tells whether anybody still
reads. What the news is stands in the database: a byte in the pipe only says that it is worth a
look, so a pipe that is full, or read late, loses nothing.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress
from typing import Final

import trio

if sys.platform == "win32":
    from trio_mcp.system.windows.events import NamedEvent, set_event

    class Wakeup:
        """A named event that this process waits for.

        Args:
            path: What others know it by: the end of that path.
            mode: Is not needed: others than this person cannot set it.
        """

        def __init__(self, path: str, mode: int) -> None:
            self.path: Final = path
            self._event = NamedEvent(os.path.basename(path))
            self.wait = self._event.wait
            self.close = self._event.close

    def wake(path: str) -> bool:
        """Wake the process that waits for an event. Return whether there is one."""
        return set_event(os.path.basename(path))

else:

    class Wakeup:
        """A named pipe that this process reads.

        Args:
            path: Where. It must not exist.
            mode: Its permissions.
        """

        def __init__(self, path: str, mode: int) -> None:
            self.path: Final = path
            os.mkfifo(path, mode)
            # Open for writing as well, it never reaches an end when those who write close it.
            self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

        async def wait(self) -> None:
            """Wait until somebody wakes this process, or has since the last time."""
            await trio.lowlevel.wait_readable(self._fd)
            with suppress(BlockingIOError):
                os.read(self._fd, 65536)

        def close(self) -> None:
            """Remove it."""
            with suppress(FileNotFoundError):
                os.unlink(self.path)
            os.close(self._fd)

    def wake(path: str) -> bool:
        """Wake the process that reads a pipe. Return whether there is one; if not, remove it."""
        try:
            # It fails at once if nobody reads.
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno not in (errno.ENXIO, errno.ENOENT):
                return True  # for all we know
            with suppress(OSError):
                os.unlink(path)
            return False
        try:
            if not stat.S_ISFIFO(os.fstat(fd).st_mode):  # nothing is written to anybody's file
                return False
            with suppress(BlockingIOError):  # it is full, so the process has been told
                os.write(fd, b"\n")
            return True
        finally:
            os.close(fd)
