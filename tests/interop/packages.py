"""The packages that tests meet as peers, below `.conformance/`: `make peers` installs them.

python -m tests.interop.packages
"""

import json
import subprocess
import sys
from typing import Final

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

FASTMCP: Final = "fastmcp>=4,<5"
"""From PyPI, with an environment of its own: it wants much that nothing else here does."""
FASTMCP_FOLDER: Final = ROOT / ".conformance" / "fastmcp"
FASTMCP_PYTHON: Final = FASTMCP_FOLDER / "bin" / "python"
FASTMCP_INSTALLED: Final = FASTMCP_FOLDER / "installed.json"


def are_installed() -> bool:
    """Whether the packages from npm are there, as they are wanted here."""
    return INSTALLED.exists() and json.loads(INSTALLED.read_text()) == PACKAGES


def has_fastmcp() -> bool:
    """Whether FastMCP is there, as it is wanted here."""
    return FASTMCP_INSTALLED.exists() and json.loads(FASTMCP_INSTALLED.read_text()) == FASTMCP


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


def _install_fastmcp() -> None:
    pip = [str(FASTMCP_PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        subprocess.run([sys.executable, "-m", "venv", str(FASTMCP_FOLDER)], check=True)
        subprocess.run([*pip, FASTMCP], check=True)
    except subprocess.CalledProcessError as error:
        sys.exit(f"FastMCP cannot be installed: {error}")
    FASTMCP_INSTALLED.write_text(json.dumps(FASTMCP))


def main() -> None:
    """Install what is missing."""
    if not are_installed():
        _install_from_npm()
    if not has_fastmcp():
        _install_fastmcp()


if __name__ == "__main__":
    main()
