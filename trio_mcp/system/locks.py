"""Locks on files between processes. A lock ends with the descriptor, and so with its process."""

import sys

if sys.platform == "win32":
    import msvcrt

    def try_lock(fd: int) -> bool:
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)  # its first byte, be it there or not
        except OSError:
            return False
        return True

    def share_lock(fd: int) -> None:
        raise NotImplementedError

    def unlock(fd: int) -> None:
        raise NotImplementedError

else:
    import fcntl

    def try_lock(fd: int) -> bool:
        """Lock a file that is open for writing; return `False` if another process has the lock."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def share_lock(fd: int) -> None:
        """Lock a file together with others that share it; it excludes `try_lock`."""
        fcntl.flock(fd, fcntl.LOCK_SH)

    def unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)
