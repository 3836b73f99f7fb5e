"""The project of a server, as its `pyproject.toml` describes it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from trio_mcp.cli.failures import Failure
from trio_mcp.cli.schemas import member

_FILE: Final = "pyproject.toml"
_PACKAGE: Final = re.compile(r"[A-Za-z0-9._-]+")


@frozen
class Project:
    """A project, by the metadata in its `pyproject.toml` (PEP 621)."""

    root: Path
    table: dict[str, Any]
    """The table `[project]`."""

    def text(self, key: str) -> str | None:
        return member(self.table, key, str) or None

    @property
    def author(self) -> Mapping[str, Any]:
        first, *_ = member(self.table, "authors", list) or [{}]
        return first if isinstance(first, dict) else {}

    def url(self, *names: str) -> str | None:
        known = {key.lower(): each for key, each in member(self.table, "urls", dict).items()}
        return next((known[name] for name in names if isinstance(known.get(name), str)), None)

    @property
    def scripts(self) -> Mapping[str, Any]:
        return member(self.table, "scripts", dict)

    @property
    def our_requirement(self) -> str | None:
        """What `dependencies` says of trio-mcp, if anything."""
        for line in member(self.table, "dependencies", list):
            name = _PACKAGE.match(line) if isinstance(line, str) else None
            if name and re.sub("[._-]+", "-", name[0]).lower() == "trio-mcp":
                return str(line)
        return None

    @property
    def readme(self) -> str:
        readme = self.table.get("readme")
        name = readme.get("file") if isinstance(readme, dict) else readme
        path = self.root / name if isinstance(name, str) else None
        return path.read_text(encoding="utf-8") if path is not None and path.is_file() else ""


def find_project(start: Path) -> Project:
    """Read the `pyproject.toml` of a directory, or of the nearest one above it."""
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
