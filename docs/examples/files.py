"""A file explorer that cannot leave its root: `python files.py DIRECTORY`.

A path from a model is never joined to the root and looked up: between a check and the opening,
another program may swap a directory for a link. It is walked one name at a time instead. Each name
is opened within the directory that is open already, and links are not followed, so wherever the
walk stands, it got there through real directories below the root.
"""

import errno
import os
import re
import stat as modes
import sys
from base64 import b64encode
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal
from urllib.parse import quote

import trio
from attrs import define, field, frozen

from trio_mcp import Registry, ToolAnnotations, ToolError, serve

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

MOST_BYTES = 64 * 1024  # in one part of a file
MOST_ENTRIES = 1000  # in one listing
MOST_FOUND = 200  # by one search
MOST_SEEN = 20_000  # entries that one search looks at
MOST_LEVELS = 32  # directories within directories that one search enters
MOST_OF_A_FILE = 1024 * 1024  # bytes that are searched of one file
MOST_SEARCHED = 64 * 1024 * 1024  # and of all files together

READ_ONLY = ToolAnnotations(read_only_hint=True, open_world_hint=False)
TROUBLE = {
    errno.ENOENT: "there is nothing of that name; list_directory shows what there is",
    errno.ENOTDIR: "a name in it is not a directory, or it is a link, and links are not followed",
    errno.ELOOP: "a name in it is a link, and links are not followed",
    errno.EACCES: "this server may not read it; only its owner can change that",
    errno.EPERM: "this server may not read it; only its owner can change that",
    errno.ENAMETOOLONG: "it has a name that is too long",
    errno.EINVAL: "it has a name that no file here can have",
    errno.EILSEQ: "it has a name that no file here can have",
}
NOT_A_FILE = {
    "directory": "it is a directory; use list_directory",
    "link": "it is a link, and links are not followed; ask for the file that it leads to",
    "other": "it is a device, a pipe or a socket; only files are read",
}

UNTOLD = "Names that are not UTF-8 or have control characters are left out; rename them."

Kind = Literal["file", "directory", "link", "other"]
InTree = tuple[int, str, str]
RelativePath = Annotated[
    str, {"maxLength": 4096}, "From the root, with / between names; empty for the root itself."
]
Pattern = Annotated[
    str,
    {"minLength": 1, "maxLength": 200},
    "Which files: '*.py', or 'tests/*.py' for the end of a path.",
]


@frozen
class Entry:
    """What is known of a file or a directory without opening it."""

    path: str
    kind: Kind
    size: int
    modified: datetime | None
    uri: str | None  # of the resource, if it is a file


@frozen
class Listing:
    """What is in a directory."""

    entries: list[Entry]
    notes: list[str]


@frozen
class Part:
    """A part of a file: text if it is UTF-8, else base64. `next` is where the following begins."""

    path: str
    size: int
    start: int
    next: int | None
    text: str | None
    base64: str | None


@frozen
class Line:
    """A line of a file."""

    path: str
    number: int
    text: str


@frozen
class Found:
    """Files that were found."""

    paths: list[str]
    notes: list[str]


@frozen
class Matches:
    """Lines that were found."""

    lines: list[Line]
    notes: list[str]


def names_of(path: str) -> list[str]:
    """The names in a path. Nothing in it is decoded: `%2e` is three characters of a name.

    Raises:
        ToolError: It must not be followed.
    """
    names = [name for name in path.split("/") if name not in ("", ".")]
    if path.startswith("/"):
        raise ToolError(f"{path[:200]!r} is absolute; write it from the root, without the slash")
    if ".." in names:
        raise ToolError(f"{path[:200]!r} has '..' in it; write the path from the root instead")
    if not can_be_told(path):
        raise ToolError(f"{path[:200]!r} has characters that no path here has")
    return names


def can_be_told(name: str) -> bool:
    """Whether a name can travel: as UTF-8, and on one line."""
    try:
        name.encode()
    except UnicodeEncodeError:  # bytes that are not UTF-8, as Python stands in for them
        return False
    return CONTROL.search(name) is None


def kind_of(status: os.stat_result) -> Kind:
    """What a name stands for."""
    known: dict[int, Kind] = {
        modes.S_IFREG: "file",
        modes.S_IFDIR: "directory",
        modes.S_IFLNK: "link",
    }
    return known.get(modes.S_IFMT(status.st_mode), "other")


def entry_of(path: str, status: os.stat_result) -> Entry:
    """What a listing says of a name."""
    kind = kind_of(status)
    modified = None
    with suppress(ValueError, OverflowError, OSError):  # a time that no calendar has
        modified = datetime.fromtimestamp(int(status.st_mtime), UTC)
    uri = f"tree:///{quote(path)}" if kind == "file" else None
    return Entry(path, kind, status.st_size, modified, uri)


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Say what is wrong with a path; trouble that is not its fault stays an `OSError`."""
    try:
        yield
    except OSError as error:
        if error.errno not in TROUBLE:
            raise
        raise ToolError(f"{path[:200]!r}: {TROUBLE[error.errno]}") from None


@contextmanager
def opened_file(directory: int, name: str, path: str) -> Iterator[int]:
    """The descriptor of a regular file in a directory; closed in the end."""
    # To open a device can set it going, so look first. What counts is what was opened.
    check_file(path, os.stat(name, dir_fd=directory, follow_symlinks=False))
    file = os.open(name, FILE, dir_fd=directory)
    try:
        check_file(path, os.fstat(file))
        yield file
    finally:
        os.close(file)


def check_file(path: str, status: os.stat_result) -> None:
    """Refuse what is not a regular file."""
    kind = kind_of(status)
    if kind != "file":
        raise ToolError(f"{path[:200]!r}: {NOT_A_FILE[kind]}")


def read_at(file: int, start: int, length: int) -> bytes:
    """Read as many bytes of a file, or fewer at its end."""
    with open(file, "rb", closefd=False) as reader:
        reader.seek(start)
        return reader.read(length)


def text_of(data: bytes, *, whole: bool) -> str | None:
    """The text that data is, without the first bytes of a character that is cut; or `None`."""
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError as error:
        cut = not whole and error.start > 0 and error.reason == "unexpected end of data"
        return data[: error.start].decode() if cut else None


@define
class Walk:
    """A walk through all the files below a directory, which notes what it leaves out."""

    left: int = MOST_SEEN
    notes: set[str] = field(factory=set)

    def files(
        self, directory: int, above: Sequence[str], levels: int = MOST_LEVELS
    ) -> Generator[InTree, None, None]:
        """Each file, as the directory that it is in, which is open; its name; its path."""
        with os.scandir(directory) as found:
            entries = list(islice(found, self.left))
        self.left -= len(entries)
        if self.left == 0:
            self.notes.add(f"Only {MOST_SEEN} entries were looked at; give a path to look below.")
        for entry in sorted(entries, key=lambda each: each.name):
            trio.from_thread.check_cancelled()  # the caller has gone: stop
            names = [*above, entry.name]
            if not can_be_told(entry.name):
                self.notes.add(UNTOLD)
            elif entry.is_file(follow_symlinks=False):
                yield directory, entry.name, "/".join(names)
            elif entry.is_dir(follow_symlinks=False):
                yield from self._files_in(directory, names, levels - 1)

    def _files_in(
        self, directory: int, names: Sequence[str], levels: int
    ) -> Generator[InTree, None, None]:
        if levels == 0:
            self.notes.add(f"Directories more than {MOST_LEVELS} levels down are left out.")
            return
        try:
            inner = os.open(names[-1], DIRECTORY, dir_fd=directory)
        except OSError as error:
            if error.errno not in TROUBLE:
                raise
            self.notes.add("Directories that this server may not read are left out.")
            return
        try:
            yield from self.files(inner, names, levels)
        finally:
            os.close(inner)


@frozen
class Tree:
    """The files below a root: what the tools do. They block, and run in worker threads."""

    root: Path

    @contextmanager
    def opened(self, names: Sequence[str]) -> Iterator[int]:
        """The descriptor of a directory below the root; closed in the end."""
        here = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in names:
                above, here = here, os.open(name, DIRECTORY, dir_fd=here)
                os.close(above)
            yield here
        finally:
            os.close(here)

    def list_directory(self, path: RelativePath = "") -> Listing:
        """List what is in a directory."""
        names = names_of(path)
        entries: list[Entry] = []
        notes: set[str] = set()
        with explained(path), self.opened(names) as directory, os.scandir(directory) as found:
            for found_entry in islice(found, MOST_ENTRIES):
                if not can_be_told(found_entry.name):
                    notes.add(UNTOLD)
                    continue
                with suppress(FileNotFoundError):  # it has gone meanwhile
                    status = found_entry.stat(follow_symlinks=False)
                    entries.append(entry_of("/".join([*names, found_entry.name]), status))
            if next(found, None) is not None:
                notes.add(f"Only {MOST_ENTRIES} entries are shown; find_files finds others.")
        return Listing(sorted(entries, key=lambda each: each.path), sorted(notes))

    def stat(self, path: RelativePath) -> Entry:
        """Tell what a path stands for: its kind, its size in bytes, when it was modified."""
        names = names_of(path)
        with explained(path), self.opened(names[:-1]) as directory:
            if not names:
                return entry_of("", os.fstat(directory))
            status = os.stat(names[-1], dir_fd=directory, follow_symlinks=False)
            return entry_of("/".join(names), status)

    def read_file(
        self,
        path: RelativePath,
        start: Annotated[int, {"minimum": 0, "maximum": 2**53 - 1}, "The first byte."] = 0,
        length: Annotated[int, {"minimum": 16, "maximum": MOST_BYTES}, "How many."] = MOST_BYTES,
    ) -> Part:
        """Read a file, or a part of it. If there is more, `next` is where to start again."""
        names = names_of(path)
        if not names:
            raise ToolError(f"{path!r}: {NOT_A_FILE['directory']}")
        with explained(path), self.opened(names[:-1]) as directory:
            with opened_file(directory, names[-1], path) as file:
                size = os.fstat(file).st_size
                data = read_at(file, start, length + 1)
        more = len(data) > length
        data = data[:length]
        text = text_of(data, whole=not more)
        if text is None:
            used, base64 = len(data), b64encode(data).decode()
        else:
            used, base64 = len(text.encode()), None
        return Part("/".join(names), size, start, start + used if more else None, text, base64)

    def find_files(self, pattern: Pattern, path: RelativePath = "") -> Found:
        """Find the files below a directory whose paths end like a pattern (* ? [abc])."""
        walk, found = Walk(), []
        with closing(self._matching(walk, pattern, path)) as files:
            for _, _, each in files:
                found.append(each)
                if len(found) == MOST_FOUND:
                    walk.notes.add(f"There may be more than these {MOST_FOUND}.")
                    break
        return Found(found, sorted(walk.notes))

    def search_text(
        self,
        text: Annotated[str, {"minLength": 1, "maxLength": 200}],
        pattern: Pattern = "*",
        path: RelativePath = "",
    ) -> Matches:
        """Find the lines of text files that contain a text, in upper or lower case."""
        walk, found = Walk(), list[Line]()
        wanted, left = text.casefold(), MOST_SEARCHED
        with closing(self._matching(walk, pattern, path)) as files:
            for directory, name, each in files:
                try:
                    with explained(each), opened_file(directory, name, each) as file:
                        data = read_at(file, 0, min(MOST_OF_A_FILE + 1, left))
                except ToolError:
                    walk.notes.add("Files that this server may not read are left out.")
                    continue
                left -= len(data)
                if len(data) > MOST_OF_A_FILE:
                    walk.notes.add("Of files larger than 1 MiB, only the beginning was searched.")
                found += lines_with(wanted, each, data)
                if len(found) >= MOST_FOUND or left == 0:
                    walk.notes.add("There may be more: narrow it down by pattern or path.")
                    break
        return Matches(found[:MOST_FOUND], sorted(walk.notes))

    def _matching(self, walk: Walk, pattern: str, path: str) -> Generator[InTree, None, None]:
        if not PurePosixPath(pattern).parts:
            raise ToolError(f"{pattern!r} is no pattern; write one like '*.txt'")
        names = names_of(path)
        with explained(path), self.opened(names) as directory:
            with closing(walk.files(directory, names)) as files:
                for file in files:
                    if PurePosixPath(file[2]).match(pattern):
                        yield file


def lines_with(wanted: str, path: str, data: bytes) -> Iterator[Line]:
    """The lines of a file that contain a text; none if it is not a text file."""
    if b"\0" in data:
        return
    for number, line in enumerate(data.decode(errors="replace").split("\n"), 1):
        at = line.casefold().find(wanted)
        if at >= 0:
            yield Line(path, number, line[max(at - 80, 0) :][:200].strip())


def file_server(root: Path) -> Registry:
    """A server that shows what is below a directory: by tools, and as resources."""
    root = root.resolve(strict=True)  # the command line may name it by a link
    registry = Registry("files", version="1.0", tool_timeout=30)
    tree = Tree(root)
    for tool in (
        tree.list_directory,
        tree.stat,
        tree.read_file,
        tree.find_files,
        tree.search_text,
    ):
        registry.add_tool(tool, annotations=READ_ONLY)
    registry.add_directory("tree:///{+path}", root)
    return registry


def main() -> None:
    """Serve the directory that the command line names."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("usage: python files.py DIRECTORY (which has to exist)")
    trio.run(serve, file_server(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
