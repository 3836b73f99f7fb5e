"""The pages on the architecture: the files, classes and layers that they name are in the code."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

import trio_mcp.layers
from tests.docs.test_readme import table
from tests.support.processes import ROOT

DOCS = ROOT / "docs"
PAGES = [DOCS / "architecture.md", *sorted((DOCS / "architecture").glob("*.md"))]
A_FILE = re.compile(r"`([\w/]+\.py)`")
A_MEMBER = re.compile(r"`([A-Z]\w+)\.(\w+)`")
A_CLASS = re.compile(r"`([A-Z][a-z]\w*)`")
FOR_DEVELOPERS = {"bench", "docs", "lint", "release", "test", "testing"}
"""Extras whose packages no server and no client needs."""
OTHERS = {"ContextVar", "Depends", "Host", "Origin"}
"""What is not a class of ours: of Python, a function, headers."""

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


@cache
def files() -> list[str]:
    folders = ("trio_mcp", "tests", "benchmarks")
    return [
        f"/{file.relative_to(ROOT)}" for each in folders for file in (ROOT / each).rglob("*.py")
    ]


@cache
def classes() -> dict[str, set[str]]:
    """By the name of a class, or an alias of a type: all that its body defines, in any file."""
    found: dict[str, set[str]] = {}
    for file in (ROOT / "trio_mcp").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(names_in(node))
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found.setdefault(node.targets[0].id, set())
    return found


def names_in(node: ast.AST) -> set[str]:
    """What is defined or assigned in a class, also on `self`."""
    found = set()
    for each in ast.walk(node):
        match each:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
    return found


@every_page
def test_files_that_are_named_exist(page: Path) -> None:
    named = A_FILE.findall(page.read_text())
    assert [name for name in named if not any(file.endswith(f"/{name}") for file in files())] == []


@every_page
def test_classes_and_their_members_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    assert {*A_CLASS.findall(text)} - OTHERS - {*classes()} == set()
    members = A_MEMBER.findall(text)
    assert [(kind, name) for kind, name in members if name not in classes().get(kind, ())] == []


def test_every_layer_is_explained_in_the_order_of_the_code() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", trio_mcp.layers.__doc__ or "", re.MULTILINE)
    rows = table(DOCS / "architecture" / "calls.md", "Layer")
    told = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    assert listed
    assert told == [name for name in listed if name != "requesting"]
    assert any("`requesting`" in row[1] for row in rows)


def test_every_page_is_linked_from_the_overview() -> None:
    overview = PAGES[0].read_text()
    assert [page.name for page in PAGES[1:] if f"(architecture/{page.name})" not in overview] == []


def test_every_dependency_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    told = " ".join(" ".join(row) for row in table(PAGES[0], "Package | What for"))
    for extra in extras.keys() - FOR_DEVELOPERS:
        assert f"`{extra}`" in told
    needed = [*project["dependencies"]]
    needed += [each for name, of in extras.items() if name not in FOR_DEVELOPERS for each in of]
    names = {re.split(r"[<>=\[]", each)[0].lower().replace("_", "-") for each in needed}
    assert [name for name in sorted(names - {"trio-mcp"}) if name not in normalised(told)] == []


def normalised(text: str) -> str:
    return text.lower().replace("_", "-")
