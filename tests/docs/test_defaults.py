"""Numbers that pages give for settings: each is the default that the code has."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

import trio_mcp
from tests.support.processes import ROOT
from trio_mcp import Limits, auth
from trio_mcp.auth.fetching import Fetching
from trio_mcp.auth.proxy.options import OAuthProxy
from trio_mcp.compose.remote import Remote
from trio_mcp.extensions.skills import Skills, SkillsClient
from trio_mcp.extensions.tasks import TaskOptions, Tasks
from trio_mcp.store.opening import open_store

NOT_IN_THE_CODE: Final = {"open_store.max_bytes": 256 * 2**20, "Registry.state_ttl": 600}
"""Defaults that are `None`, or found elsewhere: for these, what they come to."""
OTHERS: Final = (Fetching, OAuthProxy, Remote, Skills, SkillsClient, TaskOptions, Tasks, open_store)
UNITS: Final = (
    dict.fromkeys(("s", "second", "seconds"), 1.0)
    | dict.fromkeys(("min", "minutes"), 60.0)
    | dict.fromkeys(("day", "days"), 86_400.0)
    | {"h": 3600.0, "ms": 1e-3, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
)
WORDS: Final = {"a": 1.0, "one": 1.0, "five": 5.0, "ten": 10.0, "tenth": 0.1}
"""Those that a unit follows; `tenth` stands alone."""
NUMBER: Final = re.compile(
    rf"(?<![\w.,])(?:(\d{{1,3}}(?:,\d{{3}})+|\d+(?:\.\d+)?|tenth\b)(?: ({'|'.join(UNITS)})\b)?"
    rf"|(?<!\d )({'|'.join(WORDS)}) ({'|'.join(UNITS)})\b)"
)
SETTING: Final = re.compile(r"`(?:([A-Za-z_]+)[.(])?([a-z_]+)(?:=…\))?`")
BEFORE: Final = re.compile(r"([^.()`|;]+) \((`[A-Za-z_]+[.(][a-z_]+(?:=…\))?`)[,)]")
AFTER: Final = re.compile(r"(`[A-Za-z_]+[.(][a-z_]+(?:=…\))?`) \(([^)`]*)\)")

TABLES: Final = ("limits.md", "limits/features.md", "guides/tasks.md", "http.md")
PAGES: Final = sorted((ROOT / "docs").rglob("*.md"))


def default_of(owner: str, name: str) -> Any:
    """The default of a setting; `None` if it has none that is a number."""
    known = {kind.__name__: kind for kind in OTHERS}
    kind = known.get(owner) or getattr(trio_mcp, owner, None) or getattr(auth, owner, None)
    parameters = inspect.signature(kind).parameters if callable(kind) else {}
    found = parameters[name].default if name in parameters else None
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return found if is_number else NOT_IN_THE_CODE.get(f"{owner}.{name}")


def numbers(text: str) -> list[float]:
    """The numbers in a text, in bytes and seconds."""
    found = (
        (digits or word, unit or of_word) for digits, unit, word, of_word in NUMBER.findall(text)
    )
    return [
        (WORDS.get(number) or float(number.replace(",", ""))) * UNITS.get(unit, 1)
        for number, unit in found
    ]


def settings(text: str, owner: str = "") -> Iterator[tuple[str, str]]:
    """What a text names, with the class: `` `A.b`, `c` `` are `A.b` and `A.c`."""
    for found, name in SETTING.findall(text):
        owner = found or owner
        yield owner, name


def rows(page: str) -> Iterator[str]:
    """The rows of a page's tables that name a setting with a default."""
    for line in (ROOT / "docs" / page).read_text().splitlines():
        named = settings(line, "Limits" if page == "limits.md" else "")
        if line.startswith("|") and any(default_of(*each) is not None for each in named):
            yield line


@pytest.mark.parametrize("page", TABLES)
def test_a_row_has_the_defaults_of_the_code(page: str) -> None:
    found = list(rows(page))
    assert len(found) > 4
    for row in found:
        for owner, name in settings(row, "Limits" if page == "limits.md" else ""):
            default = default_of(owner, name)
            assert default is None or default in numbers(row), (row, default)


def test_every_field_of_limits_has_a_row() -> None:
    named = {name for row in rows("limits.md") for _, name in settings(row.split("|")[1])}
    assert named == set(inspect.signature(Limits).parameters)


def test_a_number_beside_a_setting_is_its_default() -> None:
    checked = 0
    for page in PAGES:
        text = " ".join(page.read_text().split())
        pairs = [(numbers(near)[-1:], setting) for near, setting in BEFORE.findall(text)]
        pairs += [(numbers(near)[:1], setting) for setting, near in AFTER.findall(text)]
        for number, setting in pairs:
            default = default_of(*next(settings(setting)))
            if number and default is not None and default >= 1:  # a share is given as what it is of
                assert number == [default], (page.name, setting)
                checked += 1
    assert checked > 30
