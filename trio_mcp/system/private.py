"""Files that are for one person, and read while they are replaced."""

import os
import stat
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

if sys.platform == "win32":
    _PATIENCE: Final = 2.0
    """Seconds that readers have to close the file: it is a small one, read at one go."""
    _PAUSE: Final = 0.01

    def is_private(about: os.stat_result) -> bool:
        """Whether nobody but this person may read a file, as far as its mode tells: it does not."""
        return True

    def replace(new: Path, path: Path) -> None:
        """Put a file in the place of another, in a thread.

        Raises:
            OSError: It cannot be done, or somebody has kept the other one open all the time.
        """
        ends = time.monotonic() + _PATIENCE
        while True:
            try:
                return os.replace(new, path)
            except PermissionError:  # who reads it keeps it in place, and nobody tells when it ends
                if time.monotonic() > ends:
                    raise
                time.sleep(_PAUSE)

else:

    def is_private(about: os.stat_result) -> bool:
        """Whether nobody but this person may read a file."""
        return about.st_uid == os.geteuid() and not stat.S_IMODE(about.st_mode) & 0o077

    def replace(new: Path, path: Path) -> None:
        """Put a file in the place of another, in a thread.

        Raises:
            OSError: It cannot be done.
        """
        os.replace(new, path)


def write_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Put data in the place of a file at one stroke, in a thread: nobody ever reads half of it.

    Raises:
        OSError: It cannot be done; then the file is as it was.
    """
    handle, new = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # with mode 0600
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        if mode != 0o600:
            os.chmod(new, mode)
        replace(Path(new), path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(new)
        raise
