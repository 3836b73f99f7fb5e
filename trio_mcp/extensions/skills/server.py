"""The server's side of the skills extension."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import trio

from trio_mcp import (
    BlobResourceContents,
    Context,
    McpError,
    Registry,
    ResourceNotFound,
    SchemaError,
    TextResourceContents,
)
from trio_mcp.extending import ExtensionMethod, ExtensionRequest, ServerExtension
from trio_mcp.extensions.skills.catalogue import (
    INVALID_PARAMS,
    Catalogue,
    Item,
    Wire,
    catalogue_of,
    directories_of,
    page,
)
from trio_mcp.extensions.skills.directory import Directory
from trio_mcp.extensions.skills.format import (
    DIRECTORY_READ,
    GET,
    IDENTIFIER,
    LIST,
    SKILL_FILE,
    check_path,
    digest_of,
    path_of,
    uri_of,
)
from trio_mcp.extensions.skills.sources import DynamicSkill, File, Skill
from trio_mcp.loggers import logger_of
from trio_mcp.public import public_in
from trio_mcp.system.media_types import guess_type
from trio_mcp.threads import in_thread

logger = logger_of("trio_mcp.skills")

_ALL_FILES: Final = "skill://{+path}"
_INTERNAL_ERROR: Final = -32603
_MOST_TOLD: Final = 5

Contents = TextResourceContents | BlobResourceContents


@public_in("trio_mcp.extensions.skills")
class Skills(ServerExtension):
    r"""Serves skills: directories with a `SKILL.md` that tells a model how to do something.

    Each file is a resource, such as `skill://git-workflow/SKILL.md`. Where a skill stands in its
    directory is its path: `acme/refunds` for `skill://acme/refunds/SKILL.md`. Files whose names
    begin with a dot, and `__pycache__`, are no part of a skill.

    Files may change while they are served. Before an answer, the directories are looked through for
    changes, and every file that is read is compared with its entry, so entries and files agree.
    A skill that cannot be served any more is left out, and the log says why.

    Args:
        *sources: Directories of skills, or directories that are a skill each; and skills made in
            code (`Skill`, `DynamicSkill`).
        check_every: Seconds for which directories are taken not to have changed.
        page_size: Skills, or files of a directory, in one page of a list. Pages that are large
            have fewer.
        cache_ttl: Seconds for which a client may keep an entry or a file without asking again.
        cache_scope: Whether it may keep it for all callers or for one alone.
        scopes: What a caller's access token must allow, where callers have one.

    Raises:
        SchemaError: A skill cannot be served; the message says what to do.
        ImportError: PyYAML is missing: `pip install 'trio-mcp[skills]'`.

    Example:
        >>> text = "---\nname: greeting\ndescription: How to greet people\n---\nSay hello."
        >>> skills = Skills(Skill("greeting", {"SKILL.md": text}))
        >>> registry = Registry("polite", extensions=[skills])
    """

    identifier = IDENTIFIER
    mountable = False  # its lists are of its own skills
    settings = MappingProxyType({"directoryRead": True})

    def __init__(
        self,
        *sources: str | Path | Skill | DynamicSkill,
        check_every: float = 1.0,
        page_size: int = 50,
        cache_ttl: float = 0.0,
        cache_scope: Literal["public", "private"] = "public",
        scopes: Sequence[str] = (),
    ) -> None:
        if not (isinstance(page_size, int) and page_size > 0):
            raise ValueError(f"page_size must be at least 1, not {page_size!r:.60}")
        if not (isinstance(check_every, int | float) and check_every >= 0):
            raise ValueError(f"check_every must be at least 0 seconds, not {check_every!r:.60}")
        for source in sources:
            if not isinstance(source, str | Path | Skill | DynamicSkill):
                raise SchemaError(
                    f"Skills come from a directory or a Skill, not from {source!r:.60}"
                )
        try:
            made = [
                Directory(source) if isinstance(source, str | Path) else source
                for source in sources
            ]
        except ValueError as error:
            raise SchemaError(f"Skills: {error}") from None
        self._directories = [source for source in made if isinstance(source, Directory)]
        self._dynamic = [source for source in made if isinstance(source, DynamicSkill)]
        self._fixed = [source.scan() for source in made if isinstance(source, Skill)]
        self._check_every = check_every
        self._page_size = page_size
        self._caching: Any = {"cache_ttl": cache_ttl, "cache_scope": cache_scope}
        self._scopes = scopes
        self._registries: list[Registry] = []
        self._lock = trio.Lock()
        self._catalogue = self._scan()
        self._checked = time.monotonic()  # Trio's clock is another one in each run
        problems = self._catalogue.problems
        fatal = [path for path in problems if not self._is_inside(path)]
        if fatal:
            shown = [f"{path or 'the directory'}: {problems[path]}" for path in fatal[:_MOST_TOLD]]
            more = len(fatal) - len(shown)
            raise SchemaError(
                "Skills: " + "; ".join(shown) + (f"; and {more} more" if more else "")
            )
        self._log_problems({})

    # -- what is served -----------------------------------------------------------------------

    def _scan(self) -> Catalogue:
        found = [*self._fixed, *(directory.scan() for directory in self._directories)]
        return catalogue_of(found, self._dynamic)

    def _is_inside(self, path: str) -> bool:
        """Whether a file that makes no skill is served as a part of another skill."""
        return path in self._catalogue.files

    def _log_problems(self, before: Mapping[str, str]) -> None:
        for path, why in self._catalogue.problems.items():
            if before.get(path) != why:
                logger.warning("Skill %s is not served: %s", path, why)

    async def _current(self, changed: str | None = None) -> Catalogue:
        """Return the catalogue as it is now.

        Args:
            changed: A file that is known to have changed.
        """
        asked = time.monotonic()
        if not self._directories or (changed is None and self._is_fresh(asked)):
            return self._catalogue
        async with self._lock:
            if changed is not None:
                for directory in self._directories:
                    directory.forget(changed)
            elif self._checked >= asked or self._is_fresh(asked):
                return self._catalogue  # another task has looked meanwhile
            began = time.monotonic()
            # Not abandoned when cancelled: two at once would undo what `forget` has done.
            after = await in_thread(self._scan, abandon_on_cancel=False)
            before, self._catalogue, self._checked = self._catalogue, after, began
            self._log_problems(before.problems)
            for registry in self._registries:
                self._update(registry, before, after)
            return after

    def _is_fresh(self, now: float) -> bool:
        return now - self._checked < self._check_every

    # -- resources ----------------------------------------------------------------------------

    def added_to(self, registry: Registry) -> None:
        self._registries.append(registry)
        for uri in self._catalogue.skills:
            self._register(registry, uri, self._catalogue)
        registry.add_resource(
            _ALL_FILES,
            self._read,
            name="skills",
            description="The files of the skills",
            scopes=self._scopes,
            **self._caching,
        )

    def _register(self, registry: Registry, uri: str, catalogue: Catalogue) -> None:
        path = path_of(uri) or ""
        frontmatter = catalogue.skills[uri]["frontmatter"]
        file = catalogue.files.get(path)

        async def read_skill(context: Context) -> list[Contents]:
            return await self._read(path, context)

        registry.add_resource(
            uri,
            read_skill,
            name=frontmatter["name"],
            description=frontmatter["description"],
            mime_type="text/markdown",
            size=None if file is None else file.size,
            scopes=self._scopes,
            **self._caching,
        )

    def _update(self, registry: Registry, before: Catalogue, after: Catalogue) -> None:
        """Have a registry offer the skills of another catalogue, and notify clients of changes."""
        for uri, entry in before.skills.items():
            if after.skills.get(uri) != entry:
                registry.remove_resource(uri)
        for uri, entry in after.skills.items():
            if before.skills.get(uri) != entry:
                self._register(registry, uri, after)
        for path, file in after.files.items():
            if path in before.files and before.files[path].digest != file.digest:
                registry.notify_resource_updated(uri_of(path))

    async def _read(self, path: str, context: Context) -> list[Contents]:
        uri = context.tool
        catalogue = await self._current()
        if path in catalogue.files:
            return [await self._contents(uri, path, catalogue.files[path])]
        skill = _dynamic_at(catalogue, path)
        made = None if skill is None else await _make(skill, path)
        if made is None:
            raise ResourceNotFound(uri)
        kind, _ = guess_type(path)
        if isinstance(made, str):
            return [TextResourceContents(uri, made, mime_type=kind or "text/plain")]
        return [BlobResourceContents(uri, made, mime_type=kind or "application/octet-stream")]

    async def _contents(self, uri: str, path: str, file: File | None) -> Contents:
        """Read a file, as its entry describes it now; otherwise it is not sent."""
        for _ in range(2):
            if file is None:
                break
            contents = await in_thread(_verified, uri, file)
            if contents is not None:
                return contents
            file = (await self._current(changed=path)).files.get(path)
        if file is None:
            raise ResourceNotFound(uri)
        raise McpError(_INTERNAL_ERROR, "The file is being changed; read it again")

    # -- methods ------------------------------------------------------------------------------

    def methods(self) -> list[ExtensionMethod]:
        answers = {LIST: self._list, GET: self._get, DIRECTORY_READ: self._read_directory}
        return [
            # Clients need not declare anything: they look at what the server declares.
            ExtensionMethod(row=row, handler=answer, scopes=self._scopes, open_to_all=True)
            for row, answer in answers.items()
        ]

    def _hints(self) -> Wire:
        ttl = self._caching["cache_ttl"]
        return {"ttlMs": round(ttl * 1000), "cacheScope": self._caching["cache_scope"]}

    async def _list(self, request: ExtensionRequest) -> Wire:
        catalogue = await self._current()
        entries, more = page(catalogue.listing, request.params.get("cursor"), self._page_size)
        return {"skills": entries, **more, **self._hints()}

    async def _get(self, request: ExtensionRequest) -> Wire:
        uri = request.params.get("uri")
        entry = (await self._current()).skills.get(uri) if isinstance(uri, str) else None
        if entry is None:
            raise McpError(INVALID_PARAMS, f"No skill is served at {uri!r:.200}")
        return {"skill": entry, **self._hints()}

    async def _read_directory(self, request: ExtensionRequest) -> Wire:
        uri = request.params.get("uri")
        path = path_of(uri)
        catalogue = await self._current()
        items = None if path is None else catalogue.directories.get(path)
        skill = None if path is None else _dynamic_at(catalogue, f"{path}/")
        if path is not None and skill is not None:
            items = await _directory(skill, path)
        if items is None:
            raise McpError(INVALID_PARAMS, f"{uri!r:.200} is not a directory resource")
        found, more = page(items, request.params.get("cursor"), self._page_size)
        return {"resources": found, **more}


def _verified(uri: str, file: File) -> Contents | None:
    """Read a file; `None` if it has changed, or is gone."""
    try:
        data = file.read()
    except OSError:
        return None
    if digest_of(data) != file.digest:
        return None
    if file.is_text:
        return TextResourceContents(uri, data.decode(), mime_type=file.mime_type)
    return BlobResourceContents(uri, data, mime_type=file.mime_type)


# -- dynamic skills -------------------------------------------------------------------------


def _dynamic_at(catalogue: Catalogue, path: str) -> DynamicSkill | None:
    for above, skill in catalogue.dynamic.items():
        if path.startswith(f"{above}/"):
            return skill
    return None


async def _make(skill: DynamicSkill, path: str) -> str | bytes | None:
    try:
        check_path(path)  # its author may well look for a file of that name
    except ValueError:
        return None
    name = path.removeprefix(f"{skill.path}/")
    content = await skill.read(name)
    if content is None or name != SKILL_FILE:
        return content
    body = content if isinstance(content, str) else content.decode()
    return skill.head + body


async def _directory(skill: DynamicSkill, path: str) -> list[Item] | None:
    names = {SKILL_FILE, *(await skill.list_files() if skill.list_files else ())}
    paths = [f"{skill.path}/{name}" for name in names]
    for listed in paths:
        check_path(listed)
    return directories_of(dict.fromkeys(paths), ()).get(path)
