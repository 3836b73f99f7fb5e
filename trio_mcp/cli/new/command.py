"""`trio-mcp new`: write a starter project into a directory of its own."""

from __future__ import annotations

import json
import keyword
import re
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from trio_mcp.cli.failures import OK, Failure, Usage
from trio_mcp.cli.screen import Screen
from trio_mcp.version import __version__

_NAME: Final = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", re.IGNORECASE)
_TAKEN: Final = frozenset({"trio", "trio_mcp", "tests", "pytest", "mcp"})
_FILES: Final = {
    "pyproject.toml": "pyproject.toml.in",
    "$MODULE.py": "server.py.in",
    "tests/test_$MODULE.py": "test_server.py.in",
    "README.md": "README.md.in",
    ".gitignore": "gitignore.in",
}
"""The template of each file, by its path in the new project."""
_DIRECT: Final = "\n[tool.hatch.metadata]\nallow-direct-references = true\n"


def new(name: str, /) -> int:
    """Write a starter project: a server with a tool, a resource and a prompt, and its tests.

    Args:
        name: The name of the project, and of the directory that is made for it here.
    """
    module = name.replace("-", "_").lower()
    if not _NAME.fullmatch(name):
        raise Usage(f"a name begins with a letter and has letters, digits and -: not {name!r}")
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module in _TAKEN:
        raise Usage(f"{name!r} is the name of another module; choose another one")
    project = Path(name)
    if project.exists() and (not project.is_dir() or any(project.iterdir())):
        raise Failure(f"{project} is there already; choose another name, or move it away")
    source = _source()
    values = {
        "NAME": name,
        "MODULE": module,
        "TRIO_MCP": f"trio-mcp{source}",
        "TRIO_MCP_CLI": f"trio-mcp[cli]{source}",
        "DIRECT": _DIRECT if source.startswith(" @ ") else "",
    }
    templates = files(__package__).joinpath("project")
    for path, template in _FILES.items():
        place = project / Template(path).substitute(MODULE=module)
        place.parent.mkdir(parents=True, exist_ok=True)
        text = Template(templates.joinpath(template).read_text(encoding="utf-8"))
        with place.open("x", encoding="utf-8") as file:
            file.write(text.substitute(values))
    screen = Screen()
    screen.text(f"Created {project}/. Next:")
    for command in (f"cd {project}", f"trio-mcp call {module}.py greet name=Ada"):
        screen.text(f"  {command}", "cyan")
    return OK


def _source() -> str:
    """Where a project gets the version of trio-mcp that runs here, as its requirement says it.

    A range of versions, if that came from an index. Otherwise the checkout, file or commit that it
    was installed from, which the installer has noted (PEP 610).
    """
    try:
        ours = distribution("trio-mcp")
    except PackageNotFoundError:  # it runs from a folder, and is not installed
        ours = None
    noted = ours and ours.read_text("direct_url.json")
    if noted:
        source = json.loads(noted)
        vcs = source.get("vcs_info")
        return (
            f" @ {vcs['vcs']}+{source['url']}@{vcs['commit_id']}" if vcs else f" @ {source['url']}"
        )
    version = ours.version if ours else __version__
    major, minor = map(int, version.split(".")[:2])
    return f">={version},<{major + 1 if major else f'0.{minor + 1}'}"
