"""Servers from PyPI and npm that nothing else needs, each in a folder below `.conformance`."""

import json
import platform
import sys
from abc import ABC, abstractmethod
from importlib.metadata import distributions
from pathlib import Path

from attrs import evolve, frozen

from benchmarks.peers import Peer, attempt, python_server
from benchmarks.processes import Command

FASTMCP = "FastMCP"
FOLDER = Path(__file__).parent.parent / ".conformance"
_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}
SYSTEM = f"{sys.platform}-{_MACHINES.get(platform.machine().lower(), platform.machine().lower())}"
"""As in the names of npm packages that have a program for one kind of machine."""


@frozen
class Package(ABC):
    """A package with a server in it.

    Args:
        name: What the registry calls it.
        wanted: Which versions of it.
        folder: Where it is, or belongs.
    """

    name: str
    wanted: str
    folder: Path

    @property
    @abstractmethod
    def version(self) -> str:
        """The version that is installed; empty if none is."""

    @abstractmethod
    def install(self) -> str:
        """Install it; return why that failed, or nothing."""


class PythonPackage(Package):
    """One from PyPI, in a virtual environment."""

    @property
    def version(self) -> str:
        """The version that is installed; empty if none is."""
        places = [str(each) for each in self.folder.glob("lib/python*/site-packages")]
        found = distributions(name=self.name, path=places)
        return next((each.version for each in found), "")

    def install(self) -> str:
        """Install it; return why that failed, or nothing."""
        pip = [str(self.folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        return attempt([sys.executable, "-m", "venv", str(self.folder)]) or attempt(
            [*pip, "--disable-pip-version-check", self.name + self.wanted]
        )


class NpmPackage(Package):
    """One from npm."""

    @property
    def place(self) -> Path:
        """Where its files are."""
        return self.folder / "node_modules" / self.name

    @property
    def version(self) -> str:
        """The version that is installed; empty if none is."""
        manifest = self.place / "package.json"
        if not manifest.exists():
            return ""
        found: str = json.loads(manifest.read_text(encoding="utf-8"))["version"]
        return found.removeprefix("v")

    def install(self) -> str:
        """Install it, running nothing of it; return why that failed, or nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        options = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
        command = ["npm", "install", "--ignore-scripts", *options, "--prefix", str(self.folder)]
        return attempt([*command, f"{self.name}@{self.wanted}"])


def find(peer: Peer, package: Package, *, install: bool) -> Peer:
    """Look for the package that a peer is from.

    Args:
        peer: Who it is.
        package: Where it is from.
        install: Whether the package may be installed.
    """
    if not package.version:
        reason = package.install() if install else "not installed"
        if reason:
            return peer.lacking(f"{package.name}: {reason}")
    return evolve(peer, version=package.version)


def find_fastmcp(script: str, *, install: bool) -> Peer:
    """Look for FastMCP, which has an environment of its own, and install it where it is missing.

    Args:
        script: The server that it runs.
        install: Whether it may be installed.
    """
    package = PythonPackage("fastmcp", ">=4,<5", FOLDER / "fastmcp")
    _, *arguments = python_server(script).arguments
    command = Command([str(package.folder / "bin" / "python"), *arguments], {})
    return find(Peer(FASTMCP, command), package, install=install)
