"""`server.json`: what the official registry of MCP servers is told of one.

The rules are those of its schema of 2025-12-11, and those that the registry adds for packages of
PyPI. `problems_of` finds what breaks them, in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from trio_mcp.cli.packaging.project import Project
from trio_mcp.wire.jsonrpc import Json

SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_NAME: Final = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
_LENGTHS: Final = {"name": range(3, 201), "description": range(1, 101), "version": range(1, 256)}
_LONGEST_TITLE: Final = 100
_RANGE: Final = re.compile(r"[\^~<>=*|]|\bx\b|^latest$")
"""What no version has, but a range of versions."""
_FORGES: Final = {"github.com": "github", "gitlab.com": "gitlab"}


def make_server_json(
    project: Project,
    info: Any,
    *,
    name: str,
    remotes: tuple[str, ...],
    settings: Mapping[str, Mapping[str, Json]],
) -> dict[str, Json]:
    """Write `server.json` for a project that is a package on PyPI.

    Args:
        project: The project.
        info: The registry's name, title, version and website.
        name: The server's name in the registry, such as `io.github.me/weather`.
        remotes: Where it can be reached over HTTP.
        settings: The variables that it needs, by their names.
    """
    version = project.text("version") or info.version
    package: dict[str, Json] = {
        "registryType": "pypi",
        "identifier": project.text("name"),
        "version": version,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "environmentVariables": [_variable(key, each) for key, each in settings.items()] or None,
    }
    document: dict[str, Json] = {
        "$schema": SCHEMA,
        "name": name,
        "title": info.title,
        "description": project.text("description"),
        "version": version,
        "websiteUrl": info.website_url or project.url("homepage", "documentation"),
        "repository": _repository(project.url("repository", "source", "source code", "github")),
        "packages": [_without_none(package)],
        "remotes": [{"type": "streamable-http", "url": each} for each in remotes] or None,
    }
    return _without_none(document)


def problems_of(document: Mapping[str, Json], project: Project) -> Iterator[str]:
    """Find what the registry would refuse, each with what to do about it."""
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
    for each in document.get("remotes", []):
        yield from _remote_problems(each["url"], name)


def _package_problems(project: Project, name: str) -> Iterator[str]:
    package = project.text("name")
    if package is None or project.text("version") is None:
        yield "pyproject.toml must have name and version, as they are on the package index"
    elif package not in project.scripts:
        yield f"pyproject.toml must have a script {package!r}: hosts start the server by it (uvx)"
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


def _variable(name: str, setting: Mapping[str, Json]) -> dict[str, Json]:
    secret = bool(setting.get("sensitive"))
    about = {"name": name, "description": setting.get("description"), "isRequired": True}
    return {**about, "isSecret": True} if secret else about


def _repository(url: str | None) -> dict[str, Json] | None:
    if url is None:
        return None
    forge = _FORGES.get(urlsplit(url).hostname or "")
    return None if forge is None else {"url": url, "source": forge}


def _without_none(document: Mapping[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in document.items() if value is not None}
