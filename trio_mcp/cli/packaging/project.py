"""The project that a server is part of: what its `pyproject.toml` says."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from trio_mcp.cli.failures import Failure

_FILE: Final = "pyproject.toml"
_PACKAGE: Final = re.compile(r"[A-Za-z0-9._-]+")


@frozen
class Project:
    """A project, by the metadata in its `pyproject.toml` (PEP 621)."""

    root: Path
    table: Mapping[str, Any]
    """The table `[project]`."""

    def text(self, key: str) -> str | None:
        """A text of the table; `None` if it is missing or no text."""
        value = self.table.get(key)
        return value if isinstance(value, str) and value else None

    @property
    def author(self) -> Mapping[str, Any]:
        """The first author: `name` and perhaps `email`."""
        authors = self.table.get("authors")
        first = authors[0] if isinstance(authors, list) and authors else {}
        return first if isinstance(first, dict) else {}

    def url(self, *names: str) -> str | None:
        """The first of the project's URLs that has one of these names."""
        urls = self.table.get("urls")
        known = {key.lower(): each for key, each in urls.items()} if isinstance(urls, dict) else {}
        return next((known[each] for each in names if isinstance(known.get(each), str)), None)

    @property
    def scripts(self) -> Mapping[str, Any]:
        """The commands that installing the project brings."""
        scripts = self.table.get("scripts")
        return scripts if isinstance(scripts, dict) else {}

    @property
    def requires_us(self) -> bool:
        """Whether installing the project installs this library too."""
        dependencies = self.table.get("dependencies")
        listed = dependencies if isinstance(dependencies, list) else []
        names = [_PACKAGE.match(each) for each in listed if isinstance(each, str)]
        return any(each and re.sub("[._-]+", "-", each[0]).lower() == "trio-mcp" for each in names)

    @property
    def readme(self) -> str:
        """The text that a package index shows."""
        readme = self.table.get("readme")
        name = readme.get("file") if isinstance(readme, dict) else readme
        path = self.root / name if isinstance(name, str) else None
        return path.read_text(encoding="utf-8") if path is not None and path.is_file() else ""


def find_project(start: Path) -> Project:
    """Read the `pyproject.toml` of a directory, or of the nearest one above it.

    Raises:
        Failure: There is none, or it cannot be read.
    """
    start = start.resolve()
    for root in (start, *start.parents):
        path = root / _FILE
        if path.is_file():
            try:
                table = tomllib.loads(path.read_text(encoding="utf-8")).get("project")
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise Failure(f"{path} cannot be read: {error}") from None
            if not isinstance(table, dict):
                raise Failure(f"{path} has no table [project]; it needs name and dependencies")
            return Project(root, table)
    raise Failure(f"there is no {_FILE} in {start} or above; trio-mcp new NAME writes a project")
