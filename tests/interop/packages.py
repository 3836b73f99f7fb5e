"""The npm packages that tests meet, below `.conformance/`: `make peers` installs them.

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
    "zod": "4",
}
FOLDER: Final = ROOT / ".conformance" / "peers"
INSTALLED: Final = FOLDER / "installed.json"
"""What has been installed, once it is all there."""


def are_installed() -> bool:
    """Whether the packages are there, as they are wanted here."""
    return INSTALLED.exists() and json.loads(INSTALLED.read_text()) == PACKAGES


def main() -> None:
    """Install what is missing."""
    if are_installed():
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    options = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
    wanted = [f"{name}@{version}" for name, version in PACKAGES.items()]
    try:
        command = ["npm", "install", *options, "--prefix", str(FOLDER), *wanted]
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"Node.js 20 and npm are needed: {error}")
    INSTALLED.write_text(json.dumps(PACKAGES))


if __name__ == "__main__":
    main()
