"""What is released: the same bytes from the same commit, and nothing but the package."""

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.release.build import Refused, build_twice, check, compare, digest, git
from tests.support.processes import ENVIRONMENT, ROOT

pytestmark = [pytest.mark.long, pytest.mark.needs("twine")]

VERSION = "0.1.0"
TOP = {
    ".ci",
    ".github",
    ".gitignore",
    ".proselintrc.json",
    "LICENSE",
    "Makefile",
    "README.md",
    "benchmarks",
    "docs",
    "pyproject.toml",
    "tests",
    "trio_mcp",
}
"""What stands at the top of the repository."""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` writes. It builds twice, compares and checks."""
    folder = tmp_path_factory.mktemp("made") / "dist"
    command = [sys.executable, "-m", "tests.release.build", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = dict(line.split("  ")[::-1] for line in done.stdout.splitlines())
    assert told == {file.name: digest(file) for file in folder.iterdir()}
    return folder


def committed() -> set[str]:
    return set(git("ls-files").splitlines())


@pytest.mark.requirement("T1")
def test_the_wheel_has_the_package_and_nothing_else(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        about = f"trio_mcp-{VERSION}.dist-info"
        facts = Parser().parsestr(archive.read(f"{about}/METADATA").decode())
        entry_points = archive.read(f"{about}/entry_points.txt").decode()
    added = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    package = {name for name in committed() if name.startswith("trio_mcp/")}
    assert names == package | {f"{about}/{name}" for name in added}
    assert "trio_mcp/py.typed" in names
    assert "trio-mcp = trio_mcp.cli:main" in entry_points
    assert "trio_mcp = trio_mcp.testing.plugin" in entry_points

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert facts["Name"] == "trio-mcp"
    assert facts["Summary"] == project["description"]
    assert facts["License-Expression"] == "MIT"
    assert set(facts.get_all("Provides-Extra") or ()) == set(project["optional-dependencies"])
    assert facts.get_payload() == (ROOT / "README.md").read_text()


@pytest.mark.requirement("T1")
def test_the_sources_are_what_is_committed(dist: Path) -> None:
    (sources,) = dist.glob("*.tar.gz")
    with tarfile.open(sources) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names == committed() | {"PKG-INFO"}


def test_no_stray_file_is_committed_at_the_top() -> None:
    assert {name.partition("/")[0] for name in committed()} == TOP


def test_the_description_is_in_the_words_of_the_readme() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    first = (ROOT / "README.md").read_text().split("\n\n")[1].replace("\n", " ")
    words = first.replace("[MCP](https://modelcontextprotocol.io)", "MCP")
    assert words.replace("[Trio](https://trio.readthedocs.io)", "Trio") == project["description"]


PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "it"
version = "1.0"
requires-python = ">=3.11"
[tool.hatch.build.targets.wheel]
artifacts = ["made.py"]
only-include = ["made.py"]
[tool.hatch.build.hooks.custom]
"""
HOOK = """
import os
from pathlib import Path
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
class Hook(BuildHookInterface):
    def initialize(self, version, build_data):
        Path(self.root, "made.py").write_text(repr({it}))
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a project, whose build runs a hook."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PROJECT)
    git("init", "--quiet", root=folder)
    return folder


def commit(folder: Path) -> None:
    git("add", "--all", root=folder)
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    git(*who, "commit", "--quiet", "--message", "it", root=folder)


@pytest.mark.parametrize(
    ("depends_on", "when"),
    [
        ("self.root", "when built in another folder"),
        ("os.environ['PYTHONHASHSEED']", "when built in another folder"),
        ("os.environ['TZ']", "when built in another folder"),
        (
            "Path('new').write_text('') or Path('new').stat().st_mode",
            "when built in another folder",
        ),
        ("Path(self.root, 'PKG-INFO').exists()", "when built from the sources"),
    ],
)
def test_a_build_that_is_not_the_same_again_is_refused(
    depends_on: str, when: str, repository: Path, tmp_path: Path
) -> None:
    (repository / "hatch_build.py").write_text(HOOK.format(it=depends_on))
    commit(repository)
    with pytest.raises(Refused, match=rf"it-1\.0-py3-none-any\.whl.*: different {when}"):
        build_twice(tmp_path / "work", repository)


def test_what_is_not_committed_is_not_built(repository: Path, tmp_path: Path) -> None:
    (repository / "hatch_build.py").write_text(HOOK.format(it="1"))
    commit(repository)
    (repository / "pyproject.toml").write_text("this is no TOML")
    (repository / "more.py").write_text("")
    files = {file.suffix: file for file in build_twice(tmp_path / "work", repository)}
    with tarfile.open(files[".gz"]) as archive:
        assert "it-1.0/more.py" not in archive.getnames()


def test_a_package_that_has_no_description_is_refused(repository: Path, tmp_path: Path) -> None:
    (repository / "hatch_build.py").write_text(HOOK.format(it="1"))
    commit(repository)
    files = build_twice(tmp_path / "work", repository)
    with pytest.raises(Refused, match="twine check --strict"):  # it has no description
        check(files)


def test_a_file_that_is_missing_is_a_difference(tmp_path: Path) -> None:
    file = tmp_path / "it.whl"
    file.write_text("it")
    with pytest.raises(Refused, match=r"it\.whl: different"):
        compare([], [file], "now")
