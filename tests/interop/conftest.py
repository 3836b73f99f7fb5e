"""Packages from npm, installed once for all who run the tests side by side."""

import fcntl
import subprocess
from pathlib import Path

import pytest

from tests.support.processes import TIME_LIMIT

PACKAGES = [
    "@modelcontextprotocol/client@2",
    "@modelcontextprotocol/server@2",
    "@modelcontextprotocol/node@2",
    "@modelcontextprotocol/server-everything",
    "zod@4",
]


@pytest.fixture(scope="session")
def npm(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder whose `node_modules` holds the packages."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "npm"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            install(folder)
            (folder / "done").touch()
    return folder


def install(folder: Path) -> None:
    options = ["--no-package-lock", "--no-audit", "--no-fund", "--prefer-offline"]
    subprocess.run(
        ["npm", "install", *options, "--prefix", str(folder), *PACKAGES],
        check=True,
        capture_output=True,
        timeout=4 * TIME_LIMIT,
    )
