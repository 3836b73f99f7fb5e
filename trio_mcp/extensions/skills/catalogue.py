"""All skills of a server at some moment, as they are sent."""

from __future__ import annotations

import base64
import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import Factory, field, frozen

from trio_mcp import McpError
from trio_mcp.extensions.skills.format import DYNAMIC, SKILL_FILE, uri_of
from trio_mcp.extensions.skills.sources import DynamicSkill, File, Found

INVALID_PARAMS: Final = -32602
_PAGE_BYTES: Final = 1024 * 1024
_TWICE: Final = "there are two of that path; rename one of them"

Wire = dict[str, Any]


@frozen
class Item:
    """An item of a list."""

    key: str
    """Lists are in the order of their keys."""
    wire: Wire = field(repr=False)
    size: int = Factory(lambda self: len(json.dumps(self.wire)), takes_self=True)


@frozen
class Catalogue:
    """The skills that can be served."""

    skills: Mapping[str, Wire]
    """The entries, by their URIs."""
    files: Mapping[str, File]
    """By their paths."""
    dynamic: Mapping[str, DynamicSkill]
    """By their paths."""
    directories: Mapping[str, Sequence[Item]]
    """What is in a directory, by its path; without those of dynamic skills."""
    listing: Sequence[Item]
    problems: Mapping[str, str]
    """By path, why something is not served."""


def catalogue_of(found: Iterable[Found], dynamic: Iterable[DynamicSkill]) -> Catalogue:
    """Make the catalogue of what the sources have. It may take long: use a thread."""
    files: dict[str, File] = {}
    directories: set[str] = set()
    problems: dict[str, str] = {}
    for source in found:
        problems |= source.problems | dict.fromkeys(files.keys() & source.files.keys(), _TWICE)
        files |= source.files
        directories |= source.directories
    made = _fit(dynamic, problems)
    members = _members(files)
    for path in made:
        if any(_is_in(path, skill) or _is_in(skill, path) for skill in members):
            problems[path] = "it shares a directory with a skill that has files of its own"
    served = {skill for skill in members if not _is_spoilt(skill, problems)}
    unfit = {f"{skill}/{SKILL_FILE}" for skill in served}
    unfit = {path for path in unfit if files[path].problem is not None}
    problems |= {path: files[path].problem or "" for path in unfit}
    # A SKILL.md that makes no skill may be an example in one that is around it.
    good = {skill for skill in served if f"{skill}/{SKILL_FILE}" not in unfit}
    kept = {path: files[path] for skill in sorted(good) for path in members[skill]}
    made = {path: each for path, each in made.items() if path not in problems}
    entries = [
        _entry(skill, kept[f"{skill}/{SKILL_FILE}"].frontmatter, members[skill], files)
        for skill in good
    ]
    entries += [_entry(path, each.frontmatter, None, files) for path, each in made.items()]
    skills = {entry["uri"]: entry for entry in sorted(entries, key=lambda entry: entry["uri"])}
    empty = (path for path in directories if good.intersection(_and_above(path)))
    return Catalogue(
        skills=skills,
        files=kept,
        dynamic=made,
        directories=directories_of(kept, (*empty, *made)),
        listing=[Item(uri, wire) for uri, wire in skills.items()],
        problems=problems,
    )


def _fit(dynamic: Iterable[DynamicSkill], problems: dict[str, str]) -> dict[str, DynamicSkill]:
    made: dict[str, DynamicSkill] = {}
    for skill in dynamic:
        try:
            skill.check()
            if any(_is_in(skill.path, path) or _is_in(path, skill.path) for path in made):
                raise ValueError(_TWICE)
            made[skill.path] = skill
        except (ValueError, TypeError) as error:
            problems[skill.path] = str(error)
    return made


def _members(files: Mapping[str, File]) -> dict[str, list[str]]:
    """Return by the path of each skill the paths of its files, with those of nested skills."""
    members: dict[str, list[str]] = {
        _above(path): [] for path in files if path.endswith(f"/{SKILL_FILE}")
    }
    for path in sorted(files):
        for above in _and_above(_above(path)):
            if above in members:
                members[above].append(path)
    return members


def _entry(
    path: str, frontmatter: Wire | None, members: Sequence[str] | None, files: Mapping[str, File]
) -> Wire:
    resources: Any = (
        DYNAMIC
        if members is None
        else [
            {"uri": uri_of(member), "digest": files[member].digest, "size": files[member].size}
            for member in members
        ]
    )
    uri = uri_of(f"{path}/{SKILL_FILE}")
    return {"uri": uri, "frontmatter": frontmatter, "resources": resources}


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def _and_above(path: str) -> Iterator[str]:
    """Yield a path, and those of the directories that it is in."""
    while path:
        yield path
        path = _above(path)


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def _is_spoilt(skill: str, problems: Mapping[str, str]) -> bool:
    """Whether there is a problem with a skill, or inside it, or with what it is in."""
    return any(not path or _is_in(path, skill) or _is_in(skill, path) for path in problems)


# -- lists ----------------------------------------------------------------------------------


def directories_of(files: Mapping[str, File | None], more: Iterable[str]) -> dict[str, list[Item]]:
    """List each directory by its path. A file that is `None` has no description."""
    inner = {folder for path in (*map(_above, files), *more) for folder in _and_above(path)}
    children: dict[str, list[Item]] = defaultdict(list, {path: [] for path in inner})
    wires = {path: file_wire(path, None) | {"mimeType": "inode/directory"} for path in inner}
    wires |= {path: file_wire(path, file) for path, file in files.items()}
    for path in sorted(wires):
        children[_above(path)].append(Item(path, wires[path]))
    return {path: children[path] for path in inner}


def file_wire(path: str, file: File | None) -> Wire:
    wire: Wire = {"uri": uri_of(path), "name": path.rpartition("/")[2]}
    if file is not None:
        wire |= {"mimeType": file.mime_type, "size": file.size}
        if file.frontmatter is not None:
            wire |= {key: file.frontmatter[key] for key in ("name", "description")}
    return wire


def page(items: Sequence[Item], cursor: Any, limit: int) -> tuple[list[Wire], Wire]:
    """Return a page and the members that say there are more; refuse unknown cursors (`-32602`)."""
    start = 0
    if cursor is not None:
        start = bisect_right(items, _key_in(cursor), key=lambda item: item.key)
    end, size = start, 0
    while end < min(start + limit, len(items)) and (end == start or size < _PAGE_BYTES):
        size += items[end].size
        end += 1
    wires = [item.wire for item in items[start:end]]
    if end == len(items):
        return wires, {}
    return wires, {"nextCursor": base64.urlsafe_b64encode(items[end - 1].key.encode()).decode()}


def _key_in(cursor: Any) -> str:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except (ValueError, TypeError):
        why = "Invalid cursor; ask for the list again from its beginning"
        raise McpError(INVALID_PARAMS, why) from None
