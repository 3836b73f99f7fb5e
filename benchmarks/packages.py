"""Servers that nothing else needs, installed or built: each in a folder below `.conformance`."""

import json
import platform
import re
import shutil
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


@frozen
class BuiltPackage(Package):
    """Servers of ours that are built on an SDK in a compiled language.

    Args:
        sources: The folder that is copied, and built there. It says which versions are wanted.
        build: The command that builds it, with `{folder}` for the copy. Its first word, the
            compiler, is not installed if it is missing.
        versions: The file in the copy that names the SDK with its version.
        programs: The folder in the copy that the programs are in.
    """

    sources: Path
    build: str
    versions: str
    programs: str

    @property
    def _built(self) -> Path:
        return self.folder / "built"

    @property
    def version(self) -> str:
        """The version of the SDK that they are built on; empty if they are not built."""
        if not self._built.exists():
            return ""
        text = (self.folder / self.versions).read_text(encoding="utf-8")
        # As in `example.org/sdk v1.2.3`, or `name = "sdk"` before `version = "1.2.3"`.
        found = re.search(rf"{re.escape(self.name)}\W+(?:version\W+)?v?(\d[\w.-]*)", text)
        return found[1] if found else ""

    def install(self) -> str:
        """Build them; return why that failed, or nothing."""
        shutil.copytree(self.sources, self.folder, dirs_exist_ok=True)
        reason = attempt(self.build.format(folder=self.folder).split())
        if not reason:
            self._built.touch()
        return reason


_SERVERS = Path(__file__).parent / "servers"
COMPILED = {
    "mcp-go": BuiltPackage(
        "github.com/mark3labs/mcp-go",
        "",
        FOLDER / "mcp_go",
        _SERVERS / "mcp_go",
        "go build -C {folder} -mod=mod -o {folder}/bin/ ./...",
        "go.mod",
        "bin",
    ),
    "rmcp for Rust": BuiltPackage(
        "rmcp",
        "",
        FOLDER / "rmcp",
        _SERVERS / "rmcp",
        "cargo build --quiet --release --manifest-path {folder}/Cargo.toml",
        "Cargo.lock",
        "target/release",
    ),
}
"""By the names of those that take part where there is a compiler for them."""


def find_compiled(program: str, *, install: bool) -> list[Peer]:
    """Look for the servers in compiled languages, and build them where that can be done.

    Args:
        program: Which of their programs.
        install: Whether they may be built.
    """
    return [
        find(
            Peer(
                name,
                Command([str(package.folder / package.programs / program)], {}),
                is_optional=True,
            ),
            package,
            install=install,
        )
        for name, package in COMPILED.items()
    ]


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
