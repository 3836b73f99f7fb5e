"""Directories that are open, in which files are opened by their names, and never through links.

A path from outside is never joined to another and looked up: between checking such a path and
opening it, another process may swap a directory for a link. Instead it is walked one name at a
time, through real directories only.

There are two ways. Most systems open a file within a directory that is open, and refuse links by
themselves. Others, Windows for one, open paths only. There what was opened is asked for its own
path: it has to be that of the directory and the name, which no link leads to. A directory that is
open cannot be moved there.

Everything here blocks.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import TYPE_CHECKING, Final

from trio_mcp.system import flags
from trio_mcp.system.capabilities import WALKS

if TYPE_CHECKING:
    from os import _ScandirIterator as ScandirIterator


_DIRECTORY: Final = os.O_RDONLY | flags.NONBLOCK | flags.DIRECTORY
_FILE: Final = os.O_RDONLY | flags.BINARY | flags.NONBLOCK | flags.NOFOLLOW | flags.NOCTTY


def _regular(fd: int) -> int:
    """Return a descriptor if it is a regular file's, and close it if not."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.ENODEV, "it is not a regular file")
    return fd


class _ByDescriptor:
    """A directory in which names can be opened."""

    def __init__(self, fd: int) -> None:
        self._fd: Final = fd

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> _ByDescriptor:
        return cls(os.open(path, _DIRECTORY))

    def inner(self, name: str) -> _ByDescriptor:
        """Open a directory in it; a link (`ELOOP`), or anything else (`ENOTDIR`), is an error."""
        return _ByDescriptor(os.open(name, _DIRECTORY | flags.NOFOLLOW, dir_fd=self._fd))

    def open_file(self, name: str) -> int:
        """Open a regular file in it for reading; a link (`ELOOP`) or a device (`ENODEV`) fails."""
        # To open a device can set it going, so look first. What counts is what was opened.
        status = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            raise OSError(errno.ENODEV, "it is not a regular file")
        return _regular(os.open(name, _FILE, dir_fd=self._fd))

    def entries(self) -> ScandirIterator[str]:
        return os.scandir(self._fd)

    def close(self) -> None:
        os.close(self._fd)


class _ByPath:
    """A directory whose path is known, and stays as it is; with the methods of the other one."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd: Final = fd  # which keeps it where it is
        self._path: Final = path

    @classmethod
    def at(cls, path: str) -> _ByPath:
        fd = _open_directory(path)
        try:
            return cls(fd, _path_of(fd))
        except BaseException:
            os.close(fd)
            raise

    def inner(self, name: str) -> _ByPath:
        path = self._below(name)
        return _ByPath(_in_place(_open_directory(path), path), path)

    def open_file(self, name: str) -> int:
        path = self._below(name)
        if not os.path.isfile(path):  # of the devices of Windows, none has a path like that
            raise OSError(errno.ENODEV if os.path.lexists(path) else errno.ENOENT, "no file")
        return _regular(_in_place(os.open(path, _FILE & ~flags.NOFOLLOW), path))

    def entries(self) -> ScandirIterator[str]:
        return os.scandir(self._path)

    def close(self) -> None:
        os.close(self._fd)

    def _below(self, name: str) -> str:
        if not _is_name(name):
            raise OSError(errno.EINVAL, "it is not a name of a file")
        return self._path.rstrip(os.sep) + os.sep + name


def _in_place(fd: int, path: str) -> int:
    """Return a descriptor if what is open has that path, and close it if not."""
    try:
        if _path_of(fd) != path:
            raise OSError(errno.ELOOP, "it is a link, or is written in another way")
    except BaseException:
        os.close(fd)
        raise
    return fd


if sys.platform == "win32":
    from trio_mcp.system.windows import is_name as _is_name
    from trio_mcp.system.windows import open_directory as _open_directory
    from trio_mcp.system.windows import path_of as _path_of

else:

    def _is_name(name: str) -> bool:
        return os.sep not in name

    def _open_directory(path: str) -> int:
        return os.open(path, _DIRECTORY)

    def _path_of(fd: int) -> str:
        return os.readlink(f"/proc/self/fd/{fd}")


Folder = _ByDescriptor | _ByPath
"""An open directory."""


def open_folder(path: str | os.PathLike[str]) -> Folder:
    """Open a directory, which may be a link itself."""
    return _ByDescriptor.at(path) if WALKS else _ByPath.at(os.fspath(path))


def open_below(folder: Folder, names: list[str]) -> Folder:
    """Go from a directory to one below it, as `inner` does; the former is closed in any case."""
    for name in names:
        above = folder
        try:
            folder = above.inner(name)
        finally:
            above.close()
    return folder
