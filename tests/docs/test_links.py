"""Relative links of all pages lead to files that exist, and to headings that these have.

The build of the site judges its own pages as well. Here they are read as a code host shows them, and so
are the README and the pages below `.github`.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.processes import ROOT

PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts),
    *sorted((ROOT / ".github").rglob("*.md")),
]
CODE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]*(?:\([^()\s]*\))?)\)|(?:src|srcset|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^#+ +(.+?) *#*$|^\((\S+)\)=$", re.MULTILINE)


def links_of(page: Path) -> Iterator[str]:
    """The links of a page that lead to this repository."""
    for found in LINK.finditer(CODE.sub("", page.read_text())):
        link = found[1] or found[2] or ""
        if not re.match(r"[a-z]+:", link):
            yield link


@cache
def anchors_of(page: Path) -> set[str]:
    """The names that a code host gives to the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = set()
    for heading, label in HEADING.findall(text):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        found.add(label or re.sub(r"[^\w -]", "", shown.lower()).replace(" ", "-"))
    return found


def is_broken(page: Path, link: str) -> bool:
    """Whether a link leads nowhere."""
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return True
    return target.suffix == ".md" and bool(anchor) and anchor not in anchors_of(target)


@pytest.mark.requirement("T4")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    assert [link for link in links_of(page) if is_broken(page, link)] == []


@pytest.mark.parametrize(
    ("link", "broken"),
    [
        ("docs/limits.md", False),
        ("docs/limits.md#what-is-checked-against-a-schema", False),
        ("docs/limits.md#what-is-checked", True),
        ("docs/limit.md", True),
        ("#no-such-heading", True),
    ],
)
def test_what_leads_nowhere_is_found(link: str, broken: bool) -> None:
    assert is_broken(ROOT / "README.md", link) is broken
