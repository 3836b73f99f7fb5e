"""The site shows all of the README and every public name. `make docs` judges the rest."""

import re
from itertools import pairwise

import pytest

import trio_mcp
import trio_mcp.client
from tests.docs.test_readme import README
from tests.support.processes import ROOT

DOCS = ROOT / "docs"
INCLUDE = re.compile(r':start-after: "(## [^"]*)\\n"\n:end-before: "\\n(## [^"]*)"\n')
ELSEWHERE = {
    "## Registering a server with a host": "hosts.md",
    "## More than tools": "guides",
    "## HTTP": "http.md",
    "## Licence": "../LICENSE",
}
"""Sections of the README that are short forms of pages."""


def documented() -> list[str]:
    """The names that the reference documents, with the modules they are imported from."""
    names = []
    for page in sorted((DOCS / "reference").glob("*.rst")):
        module = ""
        for kind, name in re.findall(r"^\.\. (\w+):: ([\w.]+)$", page.read_text(), re.MULTILINE):
            if kind == "currentmodule":
                module = name
            elif kind.startswith("auto"):
                names.append(f"{module}.{name}")
    return names


@pytest.mark.parametrize("module", [trio_mcp, trio_mcp.client], ids=lambda module: module.__name__)
def test_every_public_name_is_in_the_reference_once(module) -> None:
    found = [name.rpartition(".")[2] for name in documented()]
    assert [name for name in module.__all__ if found.count(name) != 1] == []


def test_every_section_of_the_readme_is_on_the_site() -> None:
    readme = README.read_text()
    sections = re.findall(r"^## .*$", readme, re.MULTILINE)
    after = dict(pairwise(sections))
    shown = []
    for page in sorted((DOCS / "basics").glob("*.md")):
        text = page.read_text()
        (bounds,) = INCLUDE.findall(text)
        start, end = bounds
        assert text.startswith(f"{start[1:]}\n"), f"{page.name} has another title than its section"
        assert after[start] == end, f"{page.name} must end before {after[start]!r}"
        shown.append(start)
    assert sorted([*shown, *ELSEWHERE]) == sorted(sections)
    assert [place for place in ELSEWHERE.values() if not (DOCS / place).exists()] == []
