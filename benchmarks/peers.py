"""Who takes part: our server, its peers, and why one that is missing is missing."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from benchmarks.eras import LEGACY, MODERN, Era
from benchmarks.processes import Command

_SERVERS = Path(__file__).parent / "servers"
_ROOT = Path(__file__).parent.parent
_INSTALL_SECONDS = 600

OURS = "trio-mcp"
OURS_1000 = "trio-mcp, 1,000 tools"
OURS_WAITS = "trio-mcp, an echo that waits once"
OURS_MODERN = "trio-mcp, modern"
PYTHON = "Python SDK"
PYTHON_MODERN = "Python SDK, modern"
TYPESCRIPT = "TypeScript SDK"
TYPESCRIPT_MODERN = "TypeScript SDK, modern"
BARE = "bare shape"
YARDSTICK = "yardstick, no server"


@frozen
class Peer:
    """A server that takes part, or would if it were installed."""

    name: str
    command: Command
    era: Era = LEGACY
    version: str = ""
    missing: str = ""
    """Why it cannot take part; empty if it can."""
    is_optional: bool = False
    """Whether a record is complete without it."""

    def lacking(self, reason: str) -> "Peer":
        return evolve(self, missing=reason)


def peers(*, install: bool) -> list[Peer]:
    """Name everybody who should take part, in the order of a round.

    Args:
        install: Whether packages from npm that are not there yet are installed.
    """
    typescript = find_typescript(install=install)
    python = find_python()
    ours = Peer(OURS, python_server("trio_mcp_echo.py"))
    return [
        ours,
        typescript,
        python,
        evolve(ours, name=OURS_1000, command=python_server("trio_mcp_echo.py", "1000")),
        evolve(ours, name=OURS_WAITS, command=python_server("trio_mcp_echo.py", "waits")),
        evolve(ours, name=OURS_MODERN, era=MODERN),
        evolve(typescript, name=TYPESCRIPT_MODERN, era=MODERN),
        evolve(python, name=PYTHON_MODERN, era=MODERN),
        Peer(BARE, python_server("bare_shape.py")),
        Peer(YARDSTICK, python_server("yardstick.py")),
    ]


def feature_peers(*, install: bool) -> list[Peer]:
    """Name everybody whose features beside tools are measured.

    Args:
        install: Whether packages from npm that are not there yet are installed.
    """
    found = [
        Peer(OURS, python_server("trio_mcp_features.py")),
        find_typescript(install=install, script="typescript_sdk_features.mjs"),
        find_python(script="python_sdk_features.py"),
    ]
    return [evolve(peer, era=MODERN) for peer in found]


def python_server(script: str, *arguments: str) -> Command:
    """Start one of our scripts with the Python that runs the benchmark."""
    return Command([sys.executable, str(_SERVERS / script), *arguments], {"PYTHONPATH": str(_ROOT)})


def find_python(package: str = "mcp", *, script: str = "python_sdk_echo.py") -> Peer:
    """Look for the official Python SDK, version 2."""
    peer = Peer(PYTHON, python_server(script))
    try:
        found = version(package)
    except PackageNotFoundError:
        return peer.lacking(f"{package} is not installed; pip install 'trio-mcp[bench]'")
    if not found.startswith("2."):
        return peer.lacking(f"{package} {found} is installed, 2.x is needed")
    return evolve(peer, version=found)


def find_typescript(
    folder: Path = _SERVERS,
    *,
    install: bool,
    node: str = "node",
    script: str = "typescript_sdk_echo.mjs",
    package: str = "server",
) -> Peer:
    """Look for the TypeScript SDK, version 2, and what else `package.json` asks for.

    Args:
        folder: Where `package.json` is and `node_modules` belongs.
        install: Whether what is missing may be installed.
        node: The name of the interpreter.
        script: The program in that folder.
        package: The package of the SDK whose version is told.
    """
    peer = Peer(TYPESCRIPT, Command([node, str(folder / script)], {}))
    if shutil.which(node) is None:
        return peer.lacking(f"{node} is not installed")
    if absent := _not_installed(folder):
        reason = _npm_install(folder) if install else "not installed"
        if reason:
            return peer.lacking(f"{', '.join(absent)}: {reason}")
    manifest = _manifest(folder / "node_modules" / "@modelcontextprotocol" / package)
    return evolve(peer, version=manifest["version"])


def _not_installed(folder: Path) -> list[str]:
    """Name the dependencies in `package.json` that are not below `node_modules`."""
    installed = folder / "node_modules"
    wanted = _manifest(folder)["dependencies"]
    return [name for name in wanted if not (installed / name / "package.json").exists()]


def _manifest(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    return manifest


def _npm_install(folder: Path) -> str:
    """Install what `package.json` asks for; return why that failed, or nothing."""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    options = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
    return attempt([npm, "install", "--prefix", str(folder), *options])


def attempt(command: Sequence[str]) -> str:
    """Run a command quietly; return why it failed, or nothing."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end after {_INSTALL_SECONDS} s"
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    if done.returncode == 0:
        return ""
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return said[0] if said else f"exit code {done.returncode}"
