"""The entry of a skill, as a client holds it: checked."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from attrs import field, frozen

from trio_mcp.extensions.skills.format import (
    DYNAMIC,
    LONGEST_URI,
    MOST_BYTES,
    MOST_FILES,
    SKILL_FILE,
    check_frontmatter,
)
from trio_mcp.public import public_in

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_END: Final = f"/{SKILL_FILE}"


@public_in("trio_mcp.extensions.skills")
@frozen
class SkillFile:
    """A file of a skill, as its entry has it."""

    uri: str
    digest: str
    size: int


@public_in("trio_mcp.extensions.skills")
@frozen(kw_only=True)
class RemoteSkill:
    """The entry of a skill, as the server gives it: no file was read yet."""

    origin: str
    """The client's name for the server. Only with it does a URI say which skill is meant."""
    uri: str
    """The URI of its `SKILL.md`."""
    frontmatter: Mapping[str, Any] = field(repr=False)
    """What its author wrote. `allowed-tools` is a wish, and allows nothing."""
    files: Mapping[str, SkillFile] | None = field(repr=False)
    """Its files, by their URIs; `None` if they are made when they are read."""
    problem: str | None = None
    """Why it cannot be loaded."""

    @property
    def name(self) -> str:
        """Its name, which others may have, too."""
        return str(self.frontmatter.get("name", ""))

    @property
    def description(self) -> str:
        """What it is good for."""
        return str(self.frontmatter.get("description", ""))

    @property
    def root(self) -> str:
        """The URI of its directory."""
        return self.uri.removesuffix(_END)

    @property
    def fingerprint(self) -> str | None:
        """A digest of the skill with all its files, as `files` has them.

        Keep it when a user approves a skill, and ask again if it has changed. `None` for a skill
        whose files are made when they are read: approval of it cannot be kept.
        """
        if self.files is None:
            return None
        pairs = sorted((file.uri, file.digest) for file in self.files.values())
        text = json.dumps([self.origin, self.uri, pairs])
        return hashlib.sha256(text.encode()).hexdigest()

    def resolve(self, reference: str) -> str | None:
        """Return the URI of a file of the skill; `None` for one that leads out of it.

        Args:
            reference: A path in the skill's directory, or a URI.
        """
        if reference.startswith(f"{self.root}/"):
            return reference if _is_inside(self.root, reference) else None
        path = posixpath.normpath(reference)
        if "://" in reference or path.startswith(("/", "../")) or path in (".", ".."):
            return None
        uri = f"{self.root}/{path}"
        if self.files is not None and uri in self.files:
            return uri
        return f"{self.root}/" + quote(path, safe="/-._~!$&'()*+,;=")


def entry_of(origin: str, wire: Any) -> RemoteSkill | None:
    """Read an entry. One with a problem has no files; `None` if it does not even have a URI."""
    if not isinstance(wire, dict) or not isinstance(wire.get("uri"), str):
        return None
    uri = wire["uri"]
    frontmatter = wire.get("frontmatter")
    shown = frontmatter if isinstance(frontmatter, dict) else {}
    try:
        files = _files_of(uri, frontmatter, wire.get("resources"))
    except ValueError as error:
        return RemoteSkill(origin=origin, uri=uri, frontmatter=shown, files={}, problem=str(error))
    return RemoteSkill(origin=origin, uri=uri, frontmatter=shown, files=files)


def _files_of(uri: str, frontmatter: Any, resources: Any) -> dict[str, SkillFile] | None:
    root = uri.removesuffix(_END)
    if len(uri) > LONGEST_URI:
        raise ValueError(f"its URI has more than {LONGEST_URI} characters")
    if root == uri:
        raise ValueError(f"the URI of a skill ends with {_END}")
    if not isinstance(frontmatter, dict):
        raise ValueError("its entry has no frontmatter")
    check_frontmatter(frontmatter, unquote(root.rpartition("/")[2]), strictly=False)
    if resources == DYNAMIC:
        return None
    if not isinstance(resources, list):
        raise ValueError("its entry does not say what files it has")
    if len(resources) > MOST_FILES:
        raise ValueError(f"it has {len(resources)} files, more than {MOST_FILES}")
    files = {file.uri: file for file in map(_file_of, resources)}
    if len(files) != len(resources):
        raise ValueError("its entry has a file twice")
    if uri not in files:
        raise ValueError(f"its entry does not have its {SKILL_FILE}")
    stranger = next((member for member in files if not _is_inside(root, member)), None)
    if stranger is not None:
        raise ValueError(f"its entry has a file that is not in its directory: {stranger:.200}")
    if sum(file.size for file in files.values()) > MOST_BYTES:
        raise ValueError(f"its files have more than {MOST_BYTES >> 20} MiB")
    return files


def _file_of(wire: Any) -> SkillFile:
    match wire:
        case {"uri": str(uri), "digest": str(digest), "size": int(size)} if (
            _DIGEST.fullmatch(digest) and size >= 0 and not isinstance(size, bool)
        ):
            if len(uri) > LONGEST_URI:
                raise ValueError(f"the URI of a file has more than {LONGEST_URI} characters")
            return SkillFile(uri, digest, size)
    raise ValueError("a file in its entry needs a URI, a SHA-256 digest and a size")


def _is_inside(root: str, uri: str) -> bool:
    """Whether a URI names something below a directory, however it is read."""
    names = unquote(uri.removeprefix(f"{root}/")).split("/")
    return uri.startswith(f"{root}/") and {"", ".", ".."}.isdisjoint(names)
