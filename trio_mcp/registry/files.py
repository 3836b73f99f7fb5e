"""Files below a directory, and nothing outside of it.

A path from outside is walked one name at a time, through real directories only (`system.folders`
says how, and why). It does not ask where links lead: they are all refused. (Hard links and mounts
look like what they stand for, and are taken for it.)

Whatever is not a file that may be read is not there: one error for all of it, which does not say
what lies in the way. Only trouble of our own, such as too many open files, stays an `OSError`.

Everything here blocks and is meant for worker threads. No descriptor outlives its call.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Final

from attrs import define

from trio_mcp.schema.sentences import shorten
from trio_mcp.system.folders import Folder, open_below, open_folder
from trio_mcp.system.media_types import guess_type


class NotFound(LookupError):
    """There is no such file, or none that may be read."""


class TooLarge(ValueError):
    """The file is larger than allowed."""


_LONGEST_PATH: Final = 4096  # bytes
_LONGEST_NAME: Final = 255  # bytes
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CHUNK: Final = 256 * 1024

# What the system says of names that are not files for us, as opposed to trouble of our own.
_NOT_THERE: Final = frozenset(
    {
        errno.EACCES,
        errno.EINVAL,
        errno.EILSEQ,  # not a name for this file system
        errno.EISDIR,
        errno.ELOOP,  # a link
        errno.EMLINK,  # a link, on FreeBSD
        errno.ENAMETOOLONG,
        errno.ENODEV,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ENXIO,  # a socket
        errno.EOPNOTSUPP,  # a socket, on macOS
        errno.EPERM,
        errno.ESTALE,  # gone from a network file system
    }
)


# Reading --------------------------------------------------------------------------------------


def read_file_below(root: Path, relative: str, *, max_bytes: int) -> bytes:
    """Read a file below a directory.

    Args:
        root: The directory, which may be a link itself. It is opened each time.
        relative: The path from there, with `/` between names. Nothing in it is decoded.
        max_bytes: The most bytes that the file may have.

    Raises:
        NotFound: The path does not lead to a regular file that may be read: it is absolute,
            empty or too long, has empty names, `.`, `..` or control characters, meets a link, or
            ends at a directory, a device, a pipe or nothing; or the directory is not there.
        TooLarge: The file has more bytes.
        OSError: The system failed, for want of descriptors or by an error of the disk.
    """
    names = _names(relative)
    if not names:
        raise _not_found(relative)
    try:
        with closing(open_below(open_folder(root), names[:-1])) as directory:
            return _read(directory.open_file(names[-1]), relative, max_bytes)
    except OSError as error:
        if error.errno in _NOT_THERE:
            raise _not_found(relative) from error
        raise


def _not_found(relative: str) -> NotFound:
    return NotFound(f"there is no file {shorten(relative)}")


def _names(relative: str) -> list[str]:
    """The names in a path, or none at all if it must not be followed."""
    try:
        encoded = os.fsencode(relative)
        relative.encode()  # no halves of surrogate pairs, which may stand for any bytes
    except UnicodeEncodeError:
        return []
    names = relative.split("/")
    if (
        len(encoded) > _LONGEST_PATH
        or max(map(len, encoded.split(b"/"))) > _LONGEST_NAME
        or _CONTROL.search(relative)
        or not {"", ".", ".."}.isdisjoint(names)
    ):
        return []
    return names


def _read(file: int, relative: str, max_bytes: int) -> bytes:
    try:
        size = os.fstat(file).st_size
        data = bytearray()
        if size <= max_bytes:
            while chunk := os.read(file, min(_CHUNK, max_bytes + 1 - len(data))):
                data += chunk
        if size > max_bytes or len(data) > max_bytes:  # it may have grown
            raise TooLarge(f"the file {shorten(relative)} is larger than {max_bytes} bytes")
        return bytes(data)
    finally:
        os.close(file)


# Listing --------------------------------------------------------------------------------------

_MOST_ENTRIES: Final = 20_000
_MOST_LEVELS: Final = 32


def list_files_below(root: Path, prefix: str = "", *, limit: int = 1000) -> list[str]:
    """List files below a directory whose paths begin with a prefix.

    Links are neither listed nor followed, nor is anything else that `read_file_below` would
    refuse by its name or its kind.

    Args:
        root: The directory, which may be a link itself.
        prefix: How the paths begin; it may end in the middle of a name.
        limit: The most paths that are returned: the first ones, in order.

    Returns:
        Paths relative to the root, with `/` between names, sorted by their characters. Empty if
        the prefix leads nowhere. At most 20,000 entries of directories are looked at, and 32
        levels of directories below the prefix; what lies beyond is left out.

    Raises:
        OSError: The system failed, for want of descriptors or by an error of the disk.
    """
    parent, slash, beginning = prefix.rpartition("/")
    names = _names(parent) if slash else []
    if slash and not names:
        return []
    try:
        with closing(open_below(open_folder(root), names)) as directory:
            found = _Walk().files(directory, parent + slash, beginning, _MOST_LEVELS)
            with closing(found):  # it has directories open
                return list(islice(found, max(limit, 0)))
    except OSError as error:
        if error.errno in _NOT_THERE:
            return []
        raise


@define
class _Walk:
    """A walk through directories, in the order of paths."""

    left: int = _MOST_ENTRIES
    """Entries that may still be looked at."""

    def files(
        self, directory: Folder, above: str, beginning: str, levels: int
    ) -> Generator[str, None, None]:
        for name in self._entries(directory, beginning):
            path = above + name
            if not _names(path.removesuffix("/")):
                continue
            if not name.endswith("/"):
                yield path
            elif levels > 1:
                yield from self._files_in(directory, name[:-1], path, levels - 1)

    def _files_in(self, directory: Folder, name: str, path: str, levels: int) -> Iterator[str]:
        try:
            inner = directory.inner(name)
        except OSError as error:
            if error.errno in _NOT_THERE:
                return
            raise
        with closing(inner):
            yield from self.files(inner, path, "", levels)

    def _entries(self, directory: Folder, beginning: str) -> list[str]:
        """The names of files, and of directories with a slash, sorted as their paths are."""
        names: list[str] = []
        with directory.entries() as entries:
            for entry in islice(entries, self.left):
                self.left -= 1
                if not entry.name.startswith(beginning):
                    continue
                if entry.is_file(follow_symlinks=False):
                    names.append(entry.name)
                elif entry.is_dir(follow_symlinks=False):
                    names.append(entry.name + "/")
        return sorted(names)


# Media types ----------------------------------------------------------------------------------

_NAMES: Final = frozenset(
    {
        ".editorconfig",
        ".gitattributes",
        ".gitignore",
        "changelog",
        "copying",
        "dockerfile",
        "license",
        "makefile",
        "notice",
        "readme",
    }
)
_COMPRESSED: Final = {
    "br": "application/x-brotli",
    "bzip2": "application/x-bzip2",
    "compress": "application/x-compress",
    "gzip": "application/gzip",
    "xz": "application/x-xz",
}
UNKNOWN_TYPE: Final = "application/octet-stream"

_TEXTUAL: Final = frozenset(
    {
        "application/ecmascript",
        "application/graphql",
        "application/javascript",
        "application/json",
        "application/jsonl",
        "application/sql",
        "application/toml",
        "application/x-csh",
        "application/x-javascript",
        "application/x-latex",
        "application/x-ndjson",
        "application/x-sh",
        "application/x-tex",
        "application/x-texinfo",
        "application/x-yaml",
        "application/xml",
        "application/yaml",
    }
)
_TEXTUAL_SUFFIXES: Final = ("+json", "+xml", "+yaml")


def media_type_of(path: str) -> str:
    """Guess a file's media type from its name, the same on every machine.

    Returns:
        The type; that of the compression for compressed files; `application/octet-stream` if
        the name tells nothing.

    Example:
        >>> media_type_of("docs/index.md"), media_type_of("data.tar.gz"), media_type_of("a.xyzzy")
        ('text/markdown', 'application/gzip', 'application/octet-stream')
    """
    guessed, compression = guess_type(path)
    if compression is not None:
        return _COMPRESSED.get(compression, UNKNOWN_TYPE)
    if guessed is None and posixpath.basename(path).lower() in _NAMES:
        return "text/plain"
    return guessed or UNKNOWN_TYPE


def is_text_file(data: bytes, media_type: str) -> bool:
    """Whether data is text: its media type says so, and it is UTF-8."""
    kind = media_type.partition(";")[0].strip().lower()
    if not (kind.startswith("text/") or kind in _TEXTUAL or kind.endswith(_TEXTUAL_SUFFIXES)):
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
