"""The wheel, installed into a new environment with each extra alone.

What is installed comes from the network, or from uv's cache of it.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import attrs
import pytest

from tests.docs.pages import blocks_of, run_page
from tests.docs.test_site import documented
from tests.interop.packages import UV
from tests.release.build import FIRST, build, export, git
from tests.support.processes import ROOT, TIME_LIMIT

pytestmark = [pytest.mark.long, pytest.mark.needs("twine", "uv")]

PROGRAMS = ROOT / "tests" / "release" / "programs"
FIRST_PAGE = ROOT / "docs" / "tutorial" / "1-first-tool.md"
PLANTS = next(block.text for block in blocks_of(FIRST_PAGE) if block.file == "plants.py")
OURS = re.compile(r"PYTHON|PYTEST|COVERAGE|VIRTUAL_ENV|TRIO_MCP")
CLEAN = {key: value for key, value in os.environ.items() if not OURS.match(key)}
FOR_CONTRIBUTORS = {"bench", "docs", "lint", "release", "test"}


@attrs.frozen
class Environment:
    """An environment with nothing of ours but what is installed into it."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def install(self, *wanted: str) -> None:
        """Install packages, in the versions that are the newest."""
        uv = str(UV.python.with_name("uv"))
        for words in (
            ["venv", "--quiet", "--allow-existing", f"--python={sys.executable}", str(self.folder)],
            ["pip", "install", "--quiet", f"--python={self.python}", *wanted],
        ):
            done = subprocess.run([uv, *words], env=CLEAN, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr

    def run(self, *words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run Python."""
        command = [self.python, *words]
        return subprocess.run(
            command, cwd=cwd, env=CLEAN, capture_output=True, text=True, timeout=TIME_LIMIT
        )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The last commit, as a folder."""
    folder = tmp_path_factory.mktemp("a checkout") / "trio-mcp"
    export(folder)
    return folder


@pytest.fixture(scope="module")
def dist(checkout: Path) -> list[Path]:
    """The sources and the wheel of the last commit."""
    return build(checkout, checkout.with_name("dist"), git("log", "-1", "--format=%ct"), FIRST)


@pytest.fixture(scope="module")
def wheel(dist: list[Path]) -> Path:
    return next(file for file in dist if file.suffix == ".whl")


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel, and without any extra."""
    environment = Environment(tmp_path_factory.mktemp("core"))
    environment.install(str(wheel))
    return environment


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the server of the tutorial's first page."""
    folder = tmp_path / "windowsill"
    folder.mkdir()
    (folder / "plants.py").write_text(PLANTS)
    return folder


def run_program(extra: str, environment: Environment, folder: Path) -> str:
    """Run what an extra adds; return what goes wrong, if anything."""
    shutil.copy(PROGRAMS / f"{extra}.py", folder / "program.py")  # such as http.py hide modules
    done = environment.run("program.py", cwd=folder)
    return done.stderr + done.stdout if done.returncode else ""


def extras() -> set[str]:
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return set(about["project"]["optional-dependencies"]) - FOR_CONTRIBUTORS


EXTRAS = sorted(extras())


@pytest.mark.requirement("T1")
@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_alone_brings_what_it_adds(
    extra: str, wheel: Path, core: Environment, folder: Path, tmp_path: Path
) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(f"{wheel}[{extra}]")
    assert run_program("core", environment, folder) == ""
    assert run_program(extra, environment, folder) == ""
    missing = run_program(extra, core, folder)
    assert re.search("No module named|needs more packages", missing)


@pytest.mark.requirement("T1")
def test_a_server_needs_no_extra(core: Environment, folder: Path) -> None:
    assert run_program("core", core, folder) == ""
    where = core.run("-c", "import trio_mcp; print(trio_mcp.__file__)", cwd=folder).stdout
    assert Path(where).is_relative_to(core.folder)


@pytest.mark.requirement("T1")
def test_the_first_page_of_the_tutorial_needs_the_command_line_only(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(f"{wheel}[cli]")
    folder = tmp_path / "windowsill"
    folder.mkdir()
    run_page(FIRST_PAGE, {}, folder, capsys, python=environment.python)


IMPORTED = """
import os, runpy, sys
from importlib import import_module
root, *names = sys.argv[1:]
os.chdir(root)
for name in runpy.run_path("docs/conf.py")["extensions"]:
    import_module(name)
for name in names:
    module, _, name = name.replace("trio_mcp.trio_mcp.", "trio_mcp.").rpartition(".")
    getattr(import_module(module), name)
"""


def test_the_site_needs_its_own_extra_only(wheel: Path, tmp_path: Path) -> None:
    """Builds no pages, which takes long: `make docs` does in a new environment, in CI."""
    environment = Environment(tmp_path / "environment")
    environment.install(f"{wheel}[docs]")
    done = environment.run("-c", IMPORTED, ROOT, *documented(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.requirement("T1")
def test_the_sources_can_be_installed(dist: list[Path], folder: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(str(next(file for file in dist if file.suffix == ".gz")))
    assert run_program("core", environment, folder) == ""


@pytest.mark.requirement("T1")
def test_a_new_project_can_be_installed_from_a_checkout_and_serves(
    checkout: Path, tmp_path: Path
) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(f"trio-mcp[cli] @ {checkout.as_uri()}")
    made = environment.run("-m", "trio_mcp", "new", "demo", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    project = tmp_path / "demo"
    own = Environment(tmp_path / "own")
    own.install("--editable", f"{project}[test]")
    tested = own.run("-m", "pytest", "-q", "-W", "error", cwd=project)
    assert "4 passed" in tested.stdout, tested.stdout
    script = str(own.folder / "bin" / "demo")
    for words in (["demo.py", "greet", "name=Ada"], ["greet", "name=Ada", "--", script]):
        called = own.run("-m", "trio_mcp", "call", *words, cwd=project)
        assert called.stdout == "Hello, Ada!\n", called.stderr
