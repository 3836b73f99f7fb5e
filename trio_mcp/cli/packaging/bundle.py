"""`trio-mcp bundle`: an MCP bundle (MCPB), which hosts install by a click.

A bundle is a ZIP archive with the project, a `manifest.json`, and a script that serves the
registry. The host runs it with uv, which installs the dependencies that `pyproject.toml` names.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from trio_mcp.cli.failures import OK, Failure, Usage
from trio_mcp.cli.options import FileWord
from trio_mcp.cli.packaging.project import Project, find_project
from trio_mcp.cli.screen import Screen, to_json
from trio_mcp.cli.target import folder_of, load_registry, registry_target, split_target
from trio_mcp.registry import Registry
from trio_mcp.schema.sentences import join_words
from trio_mcp.wire.jsonrpc import Json

_SCRIPT: Final = "mcpb_server.py"
_IGNORED: Final = ("__pycache__", "node_modules", "build", "dist", "venv", "*.egg-info", "*.mcpb")
"""Left out of bundles, like all that is hidden."""
_PRIVATE: Final = (
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.pem", "*.key", "*.ppk", "*.p12", "*.pfx"),
    *("*.jks", "*.keystore", "*.kdbx", "*.gpg", "*.ovpn", "*.env", "*.tfstate", "*.tfvars"),
    *("*.db", "*.db-*", "*.sqlite*", "*.mdb", "*.dump", "*.rdb", "htpasswd"),
    *("*credentials*.json", "client_secret*.json", "service?account*.json", "token.json"),
    "secrets.*",
)
"""Names of files that have keys, passwords or people's data in them."""
_PRIVATE_BEGIN: Final = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY|\ASQLite format 3\0")
_LOOKED_AT: Final = 4096
_IGNORE_FILE: Final = ".mcpbignore"
_MAX_BYTES: Final = 512 * 1024 * 1024
_SETTING: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:=(.+))?")
_LONGEST_NAME: Final = 64


def bundle(
    target: Annotated[
        FileWord, Parameter(name="TARGET", help="FILE.py:REGISTRY or MODULE:REGISTRY.")
    ],
    /,
    *,
    output: Annotated[Path | None, Parameter(alias="-o")] = None,
    author: str | None = None,
    include: tuple[str, ...] = (),
    setting: tuple[str, ...] = (),
    secret: tuple[str, ...] = (),
) -> int:
    """Write an MCP bundle (.mcpb), which hosts such as Claude Desktop install by a click.

    It has the files of the project, but for what is hidden, built or named in .mcpbignore, and what
    may be private: keys, passwords, databases. The host installs the dependencies.

    Args:
        target: What is served.
        output: The file to write; by default NAME-VERSION.mcpb.
        author: Who made it, if pyproject.toml does not say.
        include: A file that seems private and is not, by its name or path; * stands for any
            characters. May be repeated.
        setting: A variable KEY, or KEY=DESCRIPTION, that the host asks the person for. May be
            repeated.
        secret: The same for a password or a key, which the host keeps safe. May be repeated.
    """
    place = registry_target(target)
    project = find_project(folder_of(place))
    if project.our_requirement is None:
        raise Failure(f"{project.root / 'pyproject.toml'} must have trio-mcp in its dependencies")
    registry = load_registry(place)
    manifest = _make_manifest(registry, project, author, settings_of(setting, secret))
    path = output or Path(f"{manifest['name']}-{manifest['version']}.mcpb")
    if path.exists() and not path.is_file():
        raise Failure(f"{path} is not a regular file; give another --output")
    found = list(_files(project.root, path.resolve()))
    if project.root / _SCRIPT in found:
        raise Failure(f"{_SCRIPT} is the name of a file that the bundle needs; rename yours")
    private = _private_among(found, project.root, include)
    files = [file for file in found if file not in private]
    written = {"manifest.json": to_json(manifest), _SCRIPT: _script_for(place, project.root)}
    size = _write(path, project.root, files, written)
    screen = Screen()
    if private:
        names = join_words((file.relative_to(project.root).as_posix() for file in private), "and")
        screen.note(f"Left out, as private: {names}. --include NAME adds what is not.", "yellow")
    if "@ file:" in project.our_requirement:
        screen.note(f"Only this machine can install {project.our_requirement}.", "yellow")
    screen.note(f"Written: {path} ({len(files)} files, {size:,} bytes)", "green")
    return OK


def _make_manifest(
    registry: Registry,
    project: Project,
    author: str | None,
    settings: Mapping[str, dict[str, Json]],
) -> dict[str, Json]:
    info = registry.info
    slug = re.sub(r"[^a-z0-9]+", "-", info.name.lower()).strip("-")[:_LONGEST_NAME]
    start: dict[str, Json] = {"command": "uv"}
    start["args"] = ["run", "--directory", "${__dirname}", _SCRIPT]
    if settings:
        start["env"] = {name: f"${{user_config.{name.lower()}}}" for name in settings}
    repository = project.url("repository", "source", "source code", "github")
    manifest: dict[str, Json] = {
        "manifest_version": "0.4",
        "name": slug or "server",
        "display_name": info.title,
        "version": info.version,
        "description": project.text("description") or info.title or info.name,
        "long_description": registry.instructions,
        "author": _author(project, author),
        "repository": repository and {"type": "git", "url": repository},
        "homepage": info.website_url or project.url("homepage"),
        "documentation": project.url("documentation", "docs"),
        "support": project.url("issues", "bug tracker", "support"),
        "license": project.text("license"),
        "server": {"type": "uv", "entry_point": _SCRIPT, "mcp_config": start},
        "tools": [
            {"name": tool.name, "description": tool.description.description or tool.name}
            for tool in registry.tools.values()
        ],
        "prompts_generated": True if registry.prompts else None,
        "compatibility": {"runtimes": {"python": project.text("requires-python") or ">=3.11"}},
        "user_config": {name.lower(): each for name, each in settings.items()} or None,
    }
    return {key: value for key, value in manifest.items() if value is not None}


def _author(project: Project, name: str | None) -> dict[str, Json]:
    found = {key: project.author[key] for key in ("name", "email") if project.author.get(key)}
    author = found if name is None else {"name": name}
    if "name" not in author:
        raise Failure("say who made it: --author NAME, or authors in pyproject.toml")
    return author


def _script_for(target: str, root: Path) -> str:
    place, name = split_target(target)
    if not place.endswith(".py"):
        return _TEMPLATE.format(folder="", module=place, name=name)
    path = Path(place).resolve()
    if not path.is_relative_to(root):
        raise Failure(f"{place} is outside of the project in {root}")
    folder = path.relative_to(root).parent.as_posix()
    return _TEMPLATE.format(folder=folder, module=path.stem, name=name)


_TEMPLATE: Final = '''"""Serves the registry of this bundle on stdin and stdout."""

import importlib
import sys
from pathlib import Path

import trio
from trio_mcp import Registry, serve

HERE = Path(__file__).resolve().parent
FOLDER, MODULE, NAME = {folder!r}, {module!r}, {name!r}

sys.path[:0] = [str(HERE / FOLDER), str(HERE / "src")]
module = importlib.import_module(MODULE)
found = getattr(module, NAME) if NAME else None
if found is None:
    found = next(value for value in vars(module).values() if isinstance(value, Registry))
trio.run(serve, found if isinstance(found, Registry) else found())
'''


def settings_of(plain: Sequence[str], secret: Sequence[str]) -> dict[str, dict[str, Json]]:
    """Parse settings, KEY or KEY=DESCRIPTION; return them by the variable's name."""
    settings: dict[str, dict[str, Json]] = {}
    for sensitive, words in ((False, plain), (True, secret)):
        for word in words:
            found = _SETTING.fullmatch(word)
            if found is None:
                raise Usage(f"a setting is KEY or KEY=DESCRIPTION, not {word!r}")
            settings[found[1]] = {
                "type": "string",
                "title": found[1],
                "description": found[2] or found[1],
                "required": True,
                "sensitive": sensitive,
            }
    return settings


def _files(root: Path, output: Path) -> Iterator[Path]:
    file = root / _IGNORE_FILE
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    own = [line.strip().rstrip("/") for line in lines if line.strip() and line[0] != "#"]
    ignored = [*_IGNORED, *own]
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        folders[:] = sorted(name for name in folders if not _is_ignored(here / name, root, ignored))
        for name in sorted(names):
            path = here / name
            is_file = path.is_file() and not path.is_symlink()
            if is_file and path != output and not _is_ignored(path, root, ignored):
                yield path


def _is_ignored(path: Path, root: Path, patterns: Sequence[str]) -> bool:
    is_hidden = path.name.startswith(".") or (path / "pyvenv.cfg").is_file()
    return is_hidden or _matches(path, root, patterns)


def _matches(path: Path, root: Path, patterns: Sequence[str]) -> bool:
    names = (path.name, path.relative_to(root).as_posix())
    return any(fnmatch(name, pattern) for pattern in patterns for name in names)


def _private_among(files: Sequence[Path], root: Path, include: Sequence[str]) -> list[Path]:
    """Find files that by their names or beginnings are private, and are not to be included."""
    for pattern in include:
        if not any(_matches(file, root, [pattern]) for file in files):
            raise Usage(f"--include {pattern} means no file of {root}")
    return [file for file in files if _is_private(file) and not _matches(file, root, include)]


def _is_private(path: Path) -> bool:
    if any(fnmatch(path.name.lower(), pattern) for pattern in _PRIVATE):
        return True
    with path.open("rb") as file:
        return _PRIVATE_BEGIN.search(file.read(_LOOKED_AT)) is not None


def _write(path: Path, root: Path, files: Sequence[Path], written: Mapping[str, str]) -> int:
    total = sum(file.stat().st_size for file in files)
    if total > _MAX_BYTES:
        has = f"{total:,} bytes in {len(files)} files"
        raise Failure(f"{root} has {has}; name what is not needed in {_IGNORE_FILE}")
    unfinished = path.with_name(f".{path.name}.part")
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in written.items():
                about = zipfile.ZipInfo(name)
                about.external_attr = 0o644 << 16  # else it would be for its owner alone
                archive.writestr(about, text, zipfile.ZIP_DEFLATED)
            for file in files:
                archive.write(file, file.relative_to(root).as_posix())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path.stat().st_size
