"""Packages from npm, for those who run scripts of their own with them."""

from pathlib import Path

import pytest

from tests.interop.packages import FOLDER


@pytest.fixture(scope="session")
def npm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose `node_modules` holds the packages."""
    folder = tmp_path_factory.mktemp("npm")
    (folder / "node_modules").symlink_to(FOLDER / "node_modules")
    return folder
