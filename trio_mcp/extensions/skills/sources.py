"""The files of skills, and skills that are made in code."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from attrs import define, evolve, field, frozen

from trio_mcp.checks import is_a, is_function
from trio_mcp.extensions.skills.format import (
    MOST_BYTES,
    MOST_FILES,
    SKILL_FILE,
    check_frontmatter,
    check_path,
    digest_of,
)
from trio_mcp.extensions.skills.frontmatter import frontmatter_of, same
from trio_mcp.public import public_in
from trio_mcp.system.media_types import guess_type

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
    """Describe a file; a `SKILL.md` with its frontmatter, or with what is wrong with it."""
    guessed, _ = guess_type(path)
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


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@public_in("trio_mcp.extensions.skills")
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

    path: str = field(validator=is_a(str))
    files: Mapping[str, str | bytes] = field(repr=False, validator=is_a(Mapping))

    def scan(self) -> Found:
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


@public_in("trio_mcp.extensions.skills")
@frozen
class DynamicSkill:
    """A skill whose files are made when they are read, so that no entry can describe them.

    Hosts cannot verify such a skill, and many do not load it.

    Args:
        path: As for `Skill`.
        description: What it is good for, and when to use it.
        read: Gets the path of a file within the skill, and returns what is in it, or `None` if
            there is no such file. Of `SKILL.md`, it returns what follows the frontmatter.
        list_files: Returns the paths of the other files, for hosts that look into directories.
        more: Further fields of the frontmatter.
    """

    path: str = field(validator=is_a(str))
    description: str = field(validator=is_a(str))
    read: Callable[[str], Awaitable[str | bytes | None]] = field(repr=False, validator=is_function)
    list_files: Callable[[], Awaitable[Iterable[str]]] | None = field(
        default=None, repr=False, validator=is_function
    )
    more: Mapping[str, Any] = field(factory=dict, repr=False, validator=is_a(Mapping))

    @property
    def frontmatter(self) -> dict[str, Any]:
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
    """Write YAML: as JSON, but for some characters which YAML takes for others."""
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
        """Note a problem if a skill has too many files, or too large ones."""
        sizes = [file.size for file in files]
        if len(sizes) > MOST_FILES:
            self.problems[skill] = f"it has more than {MOST_FILES} files; split it into several"
        elif sum(sizes) > MOST_BYTES:
            why = f"its files have more than {MOST_BYTES >> 20} MiB; split it into several"
            self.problems[skill] = why
