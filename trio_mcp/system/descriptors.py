"""Operations on descriptors that not every system has."""

import os
import select
import sys
from typing import Final

_HUNG_UP: Final = getattr(select, "POLLHUP", 0) | getattr(select, "POLLRDHUP", 0)
_READ_NO_MORE: Final = getattr(select, "POLLHUP", 0) | getattr(select, "POLLERR", 0)
_FIRST_PRIVATE: Final = 3  # below are stdin, stdout and stderr, even where they are closed

if sys.platform == "win32":
    import msvcrt

    def allows(fd: int, access: int) -> bool:
        return True  # reading or writing will fail

    def duplicate(fd: int) -> int:
        copy = os.dup(fd)
        if copy >= _FIRST_PRIVATE:
            msvcrt.setmode(copy, os.O_BINARY)  # or line ends are translated
            return copy
        try:
            return duplicate(fd)  # while that number is taken
        finally:
            os.close(copy)

    def device_of(fd: int) -> tuple[int, int]:
        return 0, 0

    def is_blocking(fd: int) -> bool:
        return True

    def make_blocking(fd: int) -> None:
        pass

    def read_at(fd: int, size: int, position: int) -> bytes:
        raise NotImplementedError

else:
    import fcntl

    def allows(fd: int, access: int) -> bool:
        """Tell whether *fd* was opened for *access*, ``os.O_RDONLY`` or ``os.O_WRONLY``."""
        mode = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
        return mode in (access, os.O_RDWR)

    def duplicate(fd: int) -> int:
        """Copy *fd* to a descriptor that is neither one of the standard three, nor inherited."""
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_PRIVATE)

    def device_of(fd: int) -> tuple[int, int]:
        """Return the major and the minor number of the device behind *fd*."""
        device = os.fstat(fd).st_rdev
        return os.major(device), os.minor(device)

    def is_blocking(fd: int) -> bool:
        return os.get_blocking(fd)

    def make_blocking(fd: int) -> None:
        os.set_blocking(fd, True)

    def read_at(fd: int, size: int, position: int) -> bytes:
        """Read from a position, without moving that of *fd*."""
        return os.pread(fd, size, position)


def has_hung_up(fd: int) -> bool:
    """Tell whether the other end of a pipe or socket sends no more, whatever is left to be read.

    Where the system cannot tell, it is not known to have.
    """
    return _is_seen(fd, _HUNG_UP)


def is_read_no_more(fd: int) -> bool:
    """Tell whether the other end of a pipe or socket reads no more.

    Where the system cannot tell, it is not known.
    """
    return _is_seen(fd, _READ_NO_MORE)


def _is_seen(fd: int, wanted: int) -> bool:
    if not hasattr(select, "poll") or fd < 0:
        return False
    poll = select.poll()
    poll.register(fd, wanted)
    return any(events & wanted for _, events in poll.poll(0))
