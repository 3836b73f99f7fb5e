"""`trio-mcp publish --dry-run`: `server.json` for the official registry, written and checked.

The rules are those of its schema of 2025-12-11, and the registry's own for packages of PyPI.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from cyclopts import Parameter

from trio_mcp.cli.failures import OK, Failure, Usage
from trio_mcp.cli.options import FileWord
from trio_mcp.cli.packaging.bundle import settings_of
from trio_mcp.cli.packaging.project import Project, find_project
from trio_mcp.cli.screen import Screen, to_json
from trio_mcp.cli.target import folder_of, load_registry, registry_target
from trio_mcp.wire.jsonrpc import Json

_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_NAME: Final = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
_LENGTHS: Final = {"name": range(3, 201), "description": range(1, 101), "version": range(1, 256)}
_LONGEST_TITLE: Final = 100
_RANGE: Final = re.compile(r"[\^~<>=*|]|\bx\b|^latest$")
"""Found in ranges of versions, but in no version."""
_FORGES: Final = {"github.com": "github", "gitlab.com": "gitlab"}


def publish(
    target: Annotated[
        FileWord, Parameter(name="TARGET", help="FILE.py:REGISTRY or MODULE:REGISTRY.")
    ],
    /,
    *,
    name: str,
    dry_run: bool = False,
    output: Annotated[Path, Parameter(alias="-o")] = Path("server.json"),
    remote: tuple[str, ...] = (),
    setting: tuple[str, ...] = (),
    secret: tuple[str, ...] = (),
) -> int:
    """Write the server.json of a package on PyPI, and check it by the rules of the registry.

    Publishing itself is for the registry's own program: mcp-publisher publish.

    Args:
        target: What is served.
        name: The server's name in the registry, such as io.github.me/weather.
        dry_run: Write and check, and publish nothing; there is nothing else so far.
        output: The file to write.
        remote: A URL where the server can be reached. May be repeated.
        setting: A variable KEY, or KEY=DESCRIPTION, that the server needs. May be repeated.
        secret: The same for a password or a key. May be repeated.
    """
    if not dry_run:
        raise Usage("--dry-run writes server.json and checks it; mcp-publisher publishes it")
    place = registry_target(target)
    project = find_project(folder_of(place))
    registry = load_registry(place)
    document = _make_server_json(project, registry.info, name, remote, settings_of(setting, secret))
    screen = Screen()
    problems = list(_problems_of(document, project))
    for problem in problems:
        screen.note(problem, "red")
    if problems:
        raise Failure(f"the registry would refuse it ({len(problems)} reasons above)")
    output.write_text(to_json(document) + "\n", encoding="utf-8")
    screen.note(f"Written: {output}. Publish it with: mcp-publisher publish", "green")
    return OK


def _make_server_json(
    project: Project,
    info: Any,
    name: str,
    remotes: tuple[str, ...],
    settings: Mapping[str, Mapping[str, Json]],
) -> dict[str, Json]:
    version = project.text("version") or info.version
    source = project.url("repository", "source", "source code", "github")
    forge = _FORGES.get(urlsplit(source or "").hostname or "")
    package: dict[str, Json] = {
        "registryType": "pypi",
        "identifier": project.text("name"),
        "version": version,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "environmentVariables": [
            {"name": key, "description": each["description"], "isRequired": True}
            | ({"isSecret": True} if each["sensitive"] else {})
            for key, each in settings.items()
        ]
        or None,
    }
    document: dict[str, Json] = {
        "$schema": _SCHEMA,
        "name": name,
        "title": info.title,
        "description": project.text("description"),
        "version": version,
        "websiteUrl": info.website_url or project.url("homepage", "documentation"),
        "repository": forge and {"url": source, "source": forge},
        "packages": [_without_none(package)],
        "remotes": [{"type": "streamable-http", "url": url} for url in remotes] or None,
    }
    return _without_none(document)


def _problems_of(document: Mapping[str, Json], project: Project) -> Iterator[str]:
    for key, lengths in _LENGTHS.items():
        value = document.get(key)
        if not isinstance(value, str) or len(value) not in lengths:
            found = len(value) if isinstance(value, str) else "none"
            yield f"{key} must have {lengths[0]} to {lengths[-1]} characters, and has {found}"
    name, version = str(document.get("name", "")), str(document.get("version", ""))
    if not _NAME.fullmatch(name):
        yield f"the name must be like io.github.me/weather, with one slash, not {name!r}"
    if len(str(document.get("title", ""))) > _LONGEST_TITLE:
        yield f"the title may have {_LONGEST_TITLE} characters"
    if _RANGE.search(version):
        yield f"the version must be one version, not {version!r}"
    yield from _package_problems(project, name)
    for remote in document.get("remotes", []):
        yield from _remote_problems(remote["url"], name)


def _package_problems(project: Project, name: str) -> Iterator[str]:
    package = project.text("name")
    if package is None or project.text("version") is None:
        yield "pyproject.toml must have name and version, as they are on the package index"
    elif package not in project.scripts:
        yield f"pyproject.toml must have a script {package!r}: hosts start the server by it (uvx)"
    if " @ " in (project.our_requirement or ""):
        yield f"the package index refuses {project.our_requirement!r}: write a version in its place"
    if f"mcp-name: {name}" not in project.readme:
        yield f"the README must have a line <!-- mcp-name: {name} -->: it shows whose package it is"


def _remote_problems(url: str, name: str) -> Iterator[str]:
    parts = urlsplit(url)
    domain = ".".join(reversed(name.partition("/")[0].split(".")))
    host = parts.hostname or ""
    if parts.scheme != "https" or "." not in host:
        yield f"a remote must be an https URL that everybody can reach, not {url}"
    elif not name.startswith("io.github.") and host != domain and not host.endswith(f".{domain}"):
        yield f"a remote of {name} must be on {domain}, not on {host}"


def _without_none(document: Mapping[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in document.items() if value is not None}
