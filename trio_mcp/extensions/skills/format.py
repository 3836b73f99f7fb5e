"""What a skill may be, for servers and for clients: methods, names, URIs, limits."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from trio_mcp.extending import Method

IDENTIFIER: Final = "io.modelcontextprotocol/skills"
LIST: Final = Method(name="skills/list", repeatable=True)
GET: Final = Method(name="skills/get", repeatable=True)
DIRECTORY_READ: Final = Method(name="resources/directory/read", repeatable=True)

SKILL_FILE: Final = "SKILL.md"
DYNAMIC: Final = "dynamic"
"""In place of the list of a skill's files, where nothing can be said of them beforehand."""

MOST_FILES: Final = 512
MOST_BYTES: Final = 16 * 1024 * 1024
LONGEST_URI: Final = 8192

_SCHEME: Final = "skill://"
_SAFE: Final = "-._~!$&'()*+,;="
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST: Final = {"name": 64, "description": 1024, "compatibility": 500}
_REQUIRED: Final = ("name", "description")


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def uri_of(path: str) -> str:
    """Return the URI of a file or a directory, such as `acme/refunds/SKILL.md`."""
    return _SCHEME + "/".join(quote(name, safe=_SAFE) for name in path.split("/"))


def path_of(uri: Any) -> str | None:
    """Return the path that a URI stands for; `None` if it is not ours, or longer than ours are."""
    if not isinstance(uri, str) or not uri.startswith(_SCHEME) or len(uri) > LONGEST_URI:
        return None
    try:
        return unquote(uri.removeprefix(_SCHEME), errors="strict")
    except UnicodeDecodeError:
        return None


def check_path(path: str) -> None:
    """Refuse the path of a file or a directory that can have no URI, with a `ValueError`."""
    if not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise ValueError('a path has names with "/" between them, without "." and ".."')
    try:
        uri = uri_of(path)
    except UnicodeEncodeError:
        raise ValueError("its name is not UTF-8; rename it") from None
    if re.search(r"[\x00-\x1f\x7f-\x9f]", path):
        raise ValueError("its name has control characters; rename it")
    if len(uri) > LONGEST_URI:
        raise ValueError(f"its URI would have more than {LONGEST_URI} characters; shorten its path")


def check_frontmatter(
    frontmatter: Mapping[str, Any], directory: str, *, strictly: bool = True
) -> None:
    """Refuse frontmatter that breaks the Agent Skills specification, with a `ValueError`.

    Args:
        frontmatter: The frontmatter.
        directory: The name of the skill's directory.
        strictly: Whether to check fields, too, that a host can do without.
    """
    for field, longest in _LONGEST.items():
        text = frontmatter.get(field)
        if field not in frontmatter and field not in _REQUIRED:
            continue
        if not strictly and field not in _REQUIRED:
            continue
        if not isinstance(text, str) or not 1 <= len(text) <= longest or not text.strip():
            raise ValueError(f"{field!r} must be a text of 1 to {longest} characters")
    name = frontmatter["name"]
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"the name {name!r} must consist of lowercase letters (a-z), digits and single hyphens "
            "between them"
        )
    if name != directory:
        raise ValueError(
            f"the name {name!r} must be that of its directory, {directory!r:.100}; "
            "rename one of them"
        )
    metadata = frontmatter.get("metadata", {}) if strictly else {}
    if not isinstance(metadata, dict):
        raise ValueError("'metadata' must be a mapping")
    reserved = [key for key in metadata if str(key).startswith("io.modelcontextprotocol/")]
    if reserved:
        raise ValueError(f"the key {reserved[0]!r:.100} of 'metadata' is reserved; choose another")
