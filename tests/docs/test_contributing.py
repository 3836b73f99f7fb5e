"""The pages for contributors: what they show runs, and what they name exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import LANGUAGES, blocks_of, run_page
from tests.docs.test_readme import table
from tests.docs.test_site import PACKAGES, documented
from tests.support.processes import ROOT
from tests.test_requirements import promised

FOLDER = ROOT / "docs" / "contributing"
PAGES = sorted(FOLDER.glob("*.md"))
A_PATH = re.compile(r"(?:trio_mcp|tests|docs|benchmarks|\.ci)/[\w./-]+")
MADE = {"docs/_build"}
A_ROW = re.compile(r"\b[A-J]\d+\b")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page, id=page.stem, marks=[pytest.mark.long] if page.stem == "profiling" else []
        )
        for page in PAGES
    ],
)
def test_what_a_page_shows_runs_and_prints_what_it_says(
    page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    run_page(page, names, tmp_path, capsys)


@every_page
def test_every_block_is_found_and_has_a_language_that_is_known(page: Path) -> None:
    blocks = list(blocks_of(page))
    assert page.read_text().count("```") == 2 * len(blocks)
    assert {block.language for block in blocks} <= LANGUAGES


@every_page
def test_files_that_are_named_exist(page: Path) -> None:
    named = {each.rstrip(".") for each in A_PATH.findall(page.read_text())} - MADE
    assert [each for each in sorted(named) if not (ROOT / each).exists()] == []


@every_page
def test_promises_that_are_named_are_made(page: Path) -> None:
    assert set(A_ROW.findall(page.read_text())) <= set(promised())


@every_page
def test_what_is_made_can_be_made(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE)
    assert set(named) <= targets


def test_every_target_of_make_is_explained() -> None:
    described = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    rows = {command for command, _ in table(FOLDER / "setting-up.md", "Command")}
    assert rows == {f"`make {target}`" for target in described} - {"`make help`"}


def test_every_folder_of_tests_is_explained() -> None:
    rows = table(FOLDER / "setting-up.md", "Folder")
    told = {each for folders, _ in rows for each in re.findall(r"`tests/(\w+)`", folders)}
    folders = {each.parent.name for each in (ROOT / "tests").glob("*/*.py")}
    assert told == folders


def private_names_in(file: Path) -> Iterator[str]:
    """What it imports of us, or replaces, by a private name. Ruff sees the rest (SLF001)."""
    text = file.read_text()
    if not re.search(r"[^\w.]_[a-z]", text):
        return
    for node in ast.walk(ast.parse(text)):
        names: list[Any] = []
        match node:
            case ast.ImportFrom(module=str(module)) if module.startswith("trio_mcp"):
                names = [*module.split("."), *(each.name for each in node.names)]
            case ast.Call(func=ast.Attribute(attr="setattr") | ast.Name(id="getattr" | "setattr")):
                names = [each.value for each in node.args if isinstance(each, ast.Constant)]
        for name in names:
            if isinstance(name, str) and re.match("_[^_]", name):
                yield f"{file.relative_to(ROOT)}:{node.lineno} {name}"


def test_tests_reach_nothing_that_is_private() -> None:
    files = (ROOT / "tests").rglob("*.py")
    assert [found for file in files for found in private_names_in(file)] == []


def test_every_benchmark_is_named_with_options_that_it_has() -> None:
    rows = table(FOLDER / "profiling.md", "Command")
    told = {each for command, _ in rows for each in re.findall(r"benchmarks\.(\w+)", command)}
    runnable = {
        file.stem
        for file in (ROOT / "benchmarks").glob("*.py")
        if '__name__ == "__main__"' in file.read_text()
    }
    runnable |= {file.parent.name for file in (ROOT / "benchmarks").glob("*/__main__.py")}
    assert told == runnable
    code = "".join(file.read_text() for file in (ROOT / "benchmarks").glob("*.py"))
    options = [row[0] for row in table(FOLDER / "profiling.md", "Option")]
    assert [each for each in options if f'"{each.strip("`").split()[0]}"' not in code] == []


def names_in(file: Path) -> Iterator[str]:
    """What a Python file defines, uses and spells out."""
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                yield name
            case ast.alias(name=name):
                yield name


def named() -> list[tuple[str, str]]:
    """The files and names in the tables of the page on adding a feature."""
    rows = re.findall(
        r"^\| `([\w/]+\.py)` \| (`.*?`) \| .* \|$",
        (FOLDER / "adding-a-feature.md").read_text(),
        re.MULTILINE,
    )
    return [(file, name) for file, names in rows for name in re.findall(r"`([^`]+)`", names)]


def test_the_page_on_adding_a_feature_names_something_in_every_package_it_passes() -> None:
    packages = {file.split("/")[1] for file, _ in named() if file.startswith("trio_mcp/")}
    assert packages >= {"wire", "registry", "server", "client"}


@pytest.mark.parametrize(("file", "name"), named())
def test_a_name_is_in_the_file_that_is_said_to_have_it(file: str, name: str) -> None:
    assert name in set(names_in(ROOT / file))


def functions_of(file: Path) -> set[str]:
    """The functions of a Python file, and its methods with the names of their classes."""
    tree = ast.parse(file.read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    bodies = [("", tree.body), *((f"{each.name}.", each.body) for each in classes)]
    return {
        f"{prefix}{node.name}"
        for prefix, body in bodies
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def steps() -> list[tuple[str, str]]:
    """The files and functions of the walks, in their order."""
    text = (FOLDER / "walks.md").read_text()
    rows = re.findall(r"^\| `([\w/]+\.py)` \| (`.*?`) \| .* \|$", text, re.MULTILINE)
    assert len(rows) == text.count("\n| `")
    return [(file, name) for file, names in rows for name in re.findall(r"`([^`]+)`", names)]


@pytest.mark.long
def test_the_functions_of_a_walk_are_where_it_goes() -> None:
    assert [each for each in steps() if each[1] not in functions_of(ROOT / each[0])] == []


FOR_EVERYBODY = {
    *("SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "PULL_REQUEST_TEMPLATE.md"),
    *("ISSUE_TEMPLATE/bug.yml", "ISSUE_TEMPLATE/feature.yml", "ISSUE_TEMPLATE/config.yml"),
    *("dependabot.yml", "workflows/ci.yml", "workflows/release.yml"),
}
"""What the code host shows, or runs."""


@pytest.mark.requirement("T2")
def test_what_the_code_host_shows_is_where_it_looks() -> None:
    folder = ROOT / ".github"
    found = {each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file()}
    assert found >= FOR_EVERYBODY
    assert (ROOT / "LICENSE").exists()


@pytest.mark.requirement("T2")
def test_the_changelog_has_an_entry_for_each_version_and_for_what_comes() -> None:
    text = (ROOT / "docs" / "changelog.md").read_text()
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+\S* - \d{4}-\d\d-\d\d", each) for each in headings[1:])
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= kinds


@pytest.mark.requirement("T2")
def test_what_is_public_is_what_the_reference_shows() -> None:
    rows = table(FOLDER / "versioning.md", "Import from")
    told = {name for names, _ in rows for name in re.findall(r"`([\w.]+)`", names)}
    shown = {
        name.rpartition(".")[0].replace("trio_mcp.trio_mcp", "trio_mcp") for name in documented()
    }
    assert told == shown | set(PACKAGES)


@pytest.mark.requirement("T2")
def test_what_is_deprecated_is_said() -> None:
    """Nothing is, today: whoever deprecates the first name changes the page, and this test."""
    page = (FOLDER / "versioning.md").read_text()
    warning = [
        file for file in (ROOT / "trio_mcp").rglob("*.py") if "DeprecationW" in file.read_text()
    ]
    assert (warning == []) == ("Nothing is deprecated today." in page)


def test_names_outside_of_the_tables_exist() -> None:
    assert "paired_ratio" in set(names_in(ROOT / "benchmarks" / "figures.py"))


def test_ci_installs_what_tests_need_from_debian() -> None:
    needed = set(
        re.findall(r"apt-get install -y ([\w-]+)", (ROOT / "tests/conftest.py").read_text())
    )
    assert {"redis-server", "zsh"} <= needed
    _, _, installed = (ROOT / ".ci/run").read_text().partition("apt-get install")
    assert needed <= set(installed.split("\n    service")[0].split())
