"""Directories of skills: finding changes in them, and reading their files."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from trio_mcp.extensions.skills.format import MOST_BYTES, MOST_FILES, SKILL_FILE, check_path
from trio_mcp.extensions.skills.sources import File, Found, file_of
from trio_mcp.system.folders import open_below, open_folder

_MOST_ENTRIES: Final = 200_000
_DEEPEST: Final = 32
_NOT_OURS: Final = "__pycache__"


@frozen
class _Seen:
    """By what a change of a file is noticed."""

    size: int
    modified: int
    changed: int
    inode: int


class Directory:
    """A directory of skills, or of one skill. Everything here blocks.

    Links are not followed, neither when the directory is looked through nor when a file is opened:
    each directory on the way is opened within the one before it. So no file from outside is served,
    even if something is replaced by a link meanwhile.
    """

    def __init__(self, root: str | Path) -> None:
        self._root: Final = Path(os.path.abspath(root))
        if not self._root.is_dir():
            raise ValueError(f"there is no directory {self._root}")
        self._known: dict[str, tuple[_Seen, File]] = {}

    def forget(self, path: str) -> None:
        """Read a file again next time, even if it looks as it did."""
        self._known.pop(path, None)

    def scan(self) -> Found:
        """Find all skills, and read what has changed since the last time."""
        found = Found()
        walk = _Walk(self._root, found)
        prefix = self._root.name if os.path.lexists(self._root / SKILL_FILE) else ""
        walk.enter(self._root, prefix, (), 0)
        walk.check_sizes()
        bad = tuple(found.problems)
        known: dict[str, tuple[_Seen, File]] = {}
        for path, seen in walk.seen.items():
            if any(path.startswith(f"{problem}/") for problem in bad):
                continue  # it is not served, and need not be read
            before = self._known.get(path)
            if before is None or before[0] != seen:
                relative = path.removeprefix(f"{prefix}/") if prefix else path
                read = partial(_read_below, self._root, relative.split("/"))
                try:
                    before = (seen, file_of(path, read(), read))
                except OSError as error:
                    found.problems[path] = f"it cannot be read: {error.strerror or error}"
                    continue
            known[path] = before
            found.files[path] = before[1]
        self._known = known
        return found


@define
class _Walk:
    """A walk through a directory that lists files and reads none."""

    root: Path
    found: Found
    seen: dict[str, _Seen] = field(factory=dict)
    left: int = _MOST_ENTRIES
    _of_skill: dict[str, list[_Seen]] = field(factory=dict)

    def enter(self, folder: Path, path: str, skills: tuple[str, ...], depth: int) -> None:
        """Walk through a directory. `skills` are those that it is a part of."""
        if depth > _DEEPEST:
            self.found.problems[path] = f"it is more than {_DEEPEST} directories deep"
            return
        if path and os.path.lexists(folder / SKILL_FILE):
            skills = (*skills, path)
            self._of_skill[path] = []
        if skills:
            self.found.directories.add(path)
        inner: list[tuple[Path, str]] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if not self._note(entry, path, skills, inner):
                        return
        except OSError as error:
            self.found.problems[path] = f"it cannot be read: {error.strerror or error}"
        for there, below in inner:
            self.enter(there, below, skills, depth + 1)

    def _note(
        self,
        entry: os.DirEntry[str],
        above: str,
        skills: tuple[str, ...],
        inner: list[tuple[Path, str]],
    ) -> bool:
        """Note what an entry is; `False` if there is no point in looking at more of them."""
        self.left -= 1
        if self.left < 0:
            why = f"there are more than {_MOST_ENTRIES:,} files and directories"
            self.found.problems[""] = why
            return False
        if entry.name.startswith(".") or entry.name == _NOT_OURS:
            return True
        path = f"{above}/{entry.name}" if above else entry.name
        problems = self.found.problems
        try:
            check_path(path)
            if entry.is_dir(follow_symlinks=False):
                inner.append((Path(entry.path), path))
            elif entry.is_symlink():
                problems[path] = (
                    "links are not followed; put what it leads to in its place, or give the "
                    "directory that it leads to its own place among the sources"
                )
            elif not skills:
                pass  # beside the skills
            elif entry.is_file(follow_symlinks=False):
                return self._note_file(path, entry.stat(follow_symlinks=False), skills)
            else:
                problems[path] = "it is neither a file nor a directory"
        except ValueError as error:
            problems[path] = str(error)
        except FileNotFoundError:
            pass  # it was there just now
        return True

    def _note_file(self, path: str, status: os.stat_result, skills: tuple[str, ...]) -> bool:
        seen = _Seen(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        self.seen[path] = seen
        for skill in skills:
            self._of_skill[skill].append(seen)
        return all(len(self._of_skill[skill]) <= MOST_FILES for skill in skills)

    def check_sizes(self) -> None:
        for skill, files in self._of_skill.items():
            self.found.check_limits(skill, files)


def _read_below(root: Path, names: list[str]) -> bytes:
    """Read a file through real directories only, or raise `OSError`; also if it is too large."""
    with closing(open_below(open_folder(root), names[:-1])) as folder:
        opened = folder.open_file(names[-1])
    with open(opened, "rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(f"it has more than {MOST_BYTES >> 20} MiB")
    return data
