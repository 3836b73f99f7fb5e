"""Files that only one person may read, replaced while they are read."""

import os
import stat
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

if sys.platform == "win32":
    _TIMEOUT: Final = 2.0
    """Seconds that readers have to close the file: it is a small one, read at one go."""
    _PAUSE: Final = 0.01

    def is_private(about: os.stat_result) -> bool:
        return True  # a mode says nothing about that

    def replace(new: Path, path: Path) -> None:
        ends = time.monotonic() + _TIMEOUT
        while True:
            try:
                return os.replace(new, path)
            except PermissionError:  # a reader keeps the file in place
                if time.monotonic() > ends:
                    raise
                time.sleep(_PAUSE)

else:

    def is_private(about: os.stat_result) -> bool:
        """Whether a file is readable by its owner alone, who runs this process."""
        return about.st_uid == os.geteuid() and not stat.S_IMODE(about.st_mode) & 0o077

    def replace(new: Path, path: Path) -> None:
        """Replace a file by another; this may block for two seconds, while a reader has it open."""
        os.replace(new, path)


def write_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a file's content atomically, or leave it as it was: no reader sees half of it."""
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
