"""Open directories, and the paths of open files."""

import ctypes
import msvcrt
import re
import sys
from typing import Final

from trio_mcp.system.windows import kernel

assert sys.platform == "win32"

_LIST: Final = 0x1  # FILE_LIST_DIRECTORY
_SHARED: Final = 0x1 | 0x2  # for reading and writing, but not for deleting or moving it
_EXISTING: Final = 3  # OPEN_EXISTING
_OF_DIRECTORIES: Final = 0x02000000  # FILE_FLAG_BACKUP_SEMANTICS
_LONGEST: Final = 0x8000
"""UTF-16 units that a path may have."""

_SPECIAL: Final = re.compile(r'[<>:"/\\|?*\x00-\x1f]')


def is_name(name: str) -> bool:
    """Whether a file may have that name: a colon or a backslash would lead elsewhere."""
    return _SPECIAL.search(name) is None


def open_directory(path: str) -> int:
    """Open a directory, which cannot be moved meanwhile, and return a descriptor."""
    handle = kernel.create_file(path, _LIST, _SHARED, None, _EXISTING, _OF_DIRECTORIES, None)
    return msvcrt.open_osfhandle(kernel.checked(handle), 0)


def path_of(fd: int) -> str:
    r"""The path of what is open: the whole one, without links, beginning with `\\?\`."""
    path = ctypes.create_unicode_buffer(_LONGEST)
    kernel.checked(kernel.final_path(msvcrt.get_osfhandle(fd), path, _LONGEST, 0))
    return path.value
