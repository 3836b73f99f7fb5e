"""The packages that tests meet as peers, below `.conformance/`: `make peers` installs them.

python -m tests.interop.packages
"""

import json
import subprocess
import sys
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


@frozen
class Environment:
    """Packages from PyPI, with an environment of their own: they want much that nothing else does.

    Args:
        name: Its folder.
        packages: What is installed there.
    """

    name: str
    packages: list[str]

    @property
    def _folder(self) -> Path:
        return ROOT / ".conformance" / self.name

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self._folder / "bin" / "python"

    @property
    def _installed(self) -> Path:
        return self._folder / "installed.json"

    def is_there(self) -> bool:
        """Whether all of it is there, as it is wanted here."""
        installed = self._installed
        return installed.exists() and json.loads(installed.read_text()) == self.packages

    def install(self) -> None:
        """Install it."""
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        try:
            subprocess.run([sys.executable, "-m", "venv", str(self._folder)], check=True)
            subprocess.run([*pip, *self.packages], check=True, cwd=ROOT)
        except subprocess.CalledProcessError as error:
            sys.exit(f"{', '.join(self.packages)} cannot be installed: {error}")
        self._installed.write_text(json.dumps(self.packages))


FASTMCP: Final = Environment("fastmcp", ["fastmcp>=4,<5"])
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


def are_installed() -> bool:
    """Whether the packages from npm are there, as they are wanted here."""
    return INSTALLED.exists() and json.loads(INSTALLED.read_text()) == PACKAGES


def _install_from_npm() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    options = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
    wanted = [f"{name}@{version}" for name, version in PACKAGES.items()]
    try:
        command = ["npm", "install", *options, "--prefix", str(FOLDER), *wanted]
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"Node.js 20 and npm are needed: {error}")
    INSTALLED.write_text(json.dumps(PACKAGES))


def main() -> None:
    """Install what is missing."""
    if not are_installed():
        _install_from_npm()
    for each in (FASTMCP, FRAMEWORKS):
        if not each.is_there():
            each.install()


if __name__ == "__main__":
    main()
