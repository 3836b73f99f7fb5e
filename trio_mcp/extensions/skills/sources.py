"""Where skills come from: directories, files made in code, and functions."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from mimetypes import MimeTypes
from pathlib import Path
from typing import Any, Final

from attrs import define, evolve, field, frozen

from trio_mcp.extensions.skills.format import (
    MOST_BYTES,
    MOST_FILES,
    SKILL_FILE,
    check_frontmatter,
    check_path,
    digest_of,
)
from trio_mcp.extensions.skills.frontmatter import frontmatter_of, same

_MOST_ENTRIES: Final = 200_000
_DEEPEST: Final = 32
_NOT_OURS: Final = "__pycache__"

_TYPES: Final = MimeTypes()  # Python's own table: the same on every machine
for _type, _suffixes in {
    "text/markdown": (".md", ".markdown"),
    "application/yaml": (".yaml", ".yml"),
    "application/toml": (".toml",),
    "text/x-shellscript": (".sh", ".bash"),
}.items():
    for _suffix in _suffixes:
        _TYPES.add_type(_type, _suffix)
_BINARY: Final = ("image/", "audio/", "video/", "font/")


@frozen
class File:
    """A file of a skill."""

    digest: str
    size: int
    mime_type: str
    is_text: bool
    read: Callable[[], bytes] = field(eq=False, repr=False)
    """Blocks."""
    frontmatter: dict[str, Any] | None = field(default=None, repr=False)
    """That of a SKILL.md which makes a skill of its directory."""
    problem: str | None = None
    """Why a SKILL.md does not."""


def file_of(path: str, data: bytes, read: Callable[[], bytes]) -> File:
    """Look at the contents of a file."""
    guessed = mime_type_of(path)
    is_text = not (guessed or "").startswith(_BINARY) and _is_utf8(data)
    kind = guessed or ("text/plain" if is_text else "application/octet-stream")
    file = File(digest_of(data), len(data), kind, is_text, read)
    above, _, name = path.rpartition("/")
    if name != SKILL_FILE:
        return file
    try:
        frontmatter = frontmatter_of(data)
        check_frontmatter(frontmatter, above.rpartition("/")[2])
    except ValueError as error:
        return evolve(file, problem=str(error))
    return evolve(file, frontmatter=frontmatter)


def mime_type_of(path: str) -> str | None:
    """Guess a media type from a name."""
    return _TYPES.guess_type(path.replace(":", "_"))[0]


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@frozen
class Skill:
    r"""A skill that is made in code.

    Args:
        path: Where it stands among the server's skills, such as `acme/refunds`. The last name is
            that of the skill.
        files: Its files, by their paths within the skill; `SKILL.md` among them.

    Example:
        >>> text = "---\nname: greeting\ndescription: How to greet people\n---\nSay hello."
        >>> skill = Skill("greeting", {"SKILL.md": text, "words/french.txt": "bonjour"})
    """

    path: str
    files: Mapping[str, str | bytes] = field(repr=False)

    def scan(self) -> Found:
        """Look at its files."""
        found = Found()
        for name, content in self.files.items():
            path = f"{self.path}/{name}"
            try:
                check_path(path)
                data = content if isinstance(content, bytes) else content.encode()
            except AttributeError:
                found.problems[path] = f"a file is text or bytes, not {type(content).__name__}"
                continue
            except ValueError as error:
                found.problems[path] = str(error)
                continue
            found.files[path] = file_of(path, data, partial(bytes, data))
        if f"{self.path}/{SKILL_FILE}" not in found.files:
            found.problems[self.path] = f"a skill needs a {SKILL_FILE}"
        found.check_limits(self.path, found.files.values())
        return found


@frozen
class DynamicSkill:
    """A skill whose files are made when they are read, so that nobody can say what is in them.

    Hosts cannot verify such a skill, and many do not load it.

    Args:
        path: As for `Skill`.
        description: What it is good for, and when to use it.
        read: Gets the path of a file within the skill, and returns what is in it, or `None` if
            there is no such file. Of `SKILL.md`, it returns what comes after the frontmatter.
        list_files: Returns the paths of the other files, for hosts that look into directories.
        more: Further fields of the frontmatter.
    """

    path: str
    description: str
    read: Callable[[str], Awaitable[str | bytes | None]] = field(repr=False)
    list_files: Callable[[], Awaitable[Iterable[str]]] | None = field(default=None, repr=False)
    more: Mapping[str, Any] = field(factory=dict, repr=False)

    @property
    def frontmatter(self) -> dict[str, Any]:
        """Its frontmatter."""
        name = self.path.rpartition("/")[2]
        return {"name": name, "description": self.description, **self.more}

    @property
    def head(self) -> str:
        """The frontmatter as a SKILL.md has it."""
        fields = [f"{_yaml(key)}: {_yaml(value)}\n" for key, value in self.frontmatter.items()]
        return f"---\n{''.join(fields)}---\n"

    def check(self) -> None:
        """Make sure that it can be served.

        Raises:
            ValueError: It cannot; the text says what to do.
        """
        check_path(self.path)
        check_frontmatter(self.frontmatter, self.path.rpartition("/")[2])
        if not same(frontmatter_of(self.head.encode()), self.frontmatter):
            raise ValueError("the frontmatter must be JSON")


def _yaml(value: Any) -> str:
    """JSON is YAML as well, but for some characters, which YAML takes for others."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found[0]):04x}", text)


@define
class Found:
    """What a source has."""

    files: dict[str, File] = field(factory=dict)
    directories: set[str] = field(factory=set)
    problems: dict[str, str] = field(factory=dict)
    """By path, what keeps the skills there from being served."""

    def check_limits(self, skill: str, files: Iterable[Any]) -> None:
        """Note it if a skill has too many files, or too large ones."""
        sizes = [each.size for each in files]
        if len(sizes) > MOST_FILES:
            self.problems[skill] = f"it has more than {MOST_FILES} files; split it into several"
        elif sum(sizes) > MOST_BYTES:
            why = f"its files have more than {MOST_BYTES >> 20} MiB; split it into several"
            self.problems[skill] = why


_Signature = tuple[int, int, int, int]


@frozen
class _Seen:
    """A file, as its directory shows it."""

    size: int
    signature: _Signature


class Directory:
    """A directory of skills, or of one skill. Everything here blocks.

    Links are not followed, neither when the directory is looked through nor when a file is opened:
    each directory on the way is opened within the one before it. So nothing from outside gets in,
    whatever is swapped for a link meanwhile.

    Args:
        root: The directory.

    Raises:
        ValueError: It is none.
    """

    def __init__(self, root: str | Path) -> None:
        self._root: Final = Path(os.path.abspath(root))
        if not self._root.is_dir():
            raise ValueError(f"there is no directory {self._root}")
        self._known: dict[str, tuple[_Signature, File]] = {}

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
        known: dict[str, tuple[_Signature, File]] = {}
        for path, seen in walk.seen.items():
            if any(path.startswith(f"{each}/") for each in bad):
                continue  # it is not served, and need not be read
            before = self._known.get(path)
            if before is None or before[0] != seen.signature:
                relative = path.removeprefix(f"{prefix}/") if prefix else path
                read = partial(_read_below, self._root, relative.split("/"))
                try:
                    before = (seen.signature, file_of(path, read(), read))
                except OSError as error:
                    found.problems[path] = f"it cannot be read: {error.strerror or error}"
                    continue
            known[path] = before
            found.files[path] = before[1]
        self._known = known
        return found


@define
class _Walk:
    """A walk through a directory that only looks, and reads nothing."""

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
        signature = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        self.seen[path] = seen = _Seen(status.st_size, signature)
        for skill in skills:
            self._of_skill[skill].append(seen)
        return all(len(self._of_skill[skill]) <= MOST_FILES for skill in skills)

    def check_sizes(self) -> None:
        """Check the limits of all skills."""
        for skill, files in self._of_skill.items():
            self.found.check_limits(skill, files)


_INNER: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
_FILE: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


def _read_below(root: Path, names: list[str]) -> bytes:
    """Read a file, through real directories only.

    Raises:
        OSError: It is not there, is no file, or is too large.
    """
    here = os.open(root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        for name in names[:-1]:
            above, here = here, os.open(name, _INNER, dir_fd=here)
            os.close(above)
        opened = os.open(names[-1], _FILE, dir_fd=here)
    finally:
        os.close(here)
    with open(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError("it is no file")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(f"it has more than {MOST_BYTES >> 20} MiB")
    return data
