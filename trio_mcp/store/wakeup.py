"""Wake other processes: by a named pipe beside the database; on Windows, a named event.

A named pipe can be awaited, needs no port and no permission but the file's, has no limit to the
length of its path, works between containers that share a folder, and shows whether its reader is
alive. The news itself is in the database: a byte in the pipe only says that it is worth a look, so
a pipe that is full, or read late, loses nothing.
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
    from trio_mcp.system.windows import NamedEvent, set_event

    class Wakeup:
        """A named event that this process waits for.

        Args:
            path: Ends with its name.
            mode: Not used: no other user can set it.
        """

        def __init__(self, path: str, mode: int) -> None:
            self.path: Final = path
            self._event = NamedEvent(os.path.basename(path))
            self.wait = self._event.wait
            self.close = self._event.close

    def wake(path: str) -> bool:
        """Wake the process that waits for an event. Return whether one does."""
        return set_event(os.path.basename(path))

else:

    class Wakeup:
        """A named pipe that this process reads, at a path that must not exist yet."""

        def __init__(self, path: str, mode: int) -> None:
            self.path: Final = path
            os.mkfifo(path, mode)
            # Open for writing as well, it never reaches an end when its writers close it.
            self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

        async def wait(self) -> None:
            """Wait until another process wakes this one, or has since the last time."""
            await trio.lowlevel.wait_readable(self._fd)
            with suppress(BlockingIOError):
                os.read(self._fd, 65536)

        def close(self) -> None:
            with suppress(FileNotFoundError):
                os.unlink(self.path)
            os.close(self._fd)

    def wake(path: str) -> bool:
        """Wake the process that reads a pipe. If there is none, remove it and return False."""
        try:
            # Without a reader, this fails at once.
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno not in (errno.ENXIO, errno.ENOENT):
                return True  # for all we know
            with suppress(OSError):
                os.unlink(path)
            return False
        try:
            if not stat.S_ISFIFO(os.fstat(fd).st_mode):  # another's file is left alone
                return False
            with suppress(BlockingIOError):  # it is full, so the process will look anyway
                os.write(fd, b"\n")
            return True
        finally:
            os.close(fd)
