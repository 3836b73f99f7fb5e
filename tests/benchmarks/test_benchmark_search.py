"""The benchmark of tool search: what it asks, and what the guide says of its record."""

import json
from collections import Counter

import pytest

from benchmarks import search
from tests.support.processes import ROOT

pytestmark = pytest.mark.requirement("Q1")
RECORD = json.loads((ROOT / "docs" / "measured" / "search.json").read_text())
GUIDE = (ROOT / "docs" / "guides" / "search.md").read_text()


def test_there_are_fifty_questions_about_servers_that_are_started() -> None:
    prefixes = Counter(map(search.prefix_of, (*search.NPM, *search.PYPI)))
    assert set(prefixes.values()) == {1}
    assert len(search.QUESTIONS) == 50
    wanted = [name for names in search.QUESTIONS.values() for name in names]
    assert {name.partition("_")[0] for name in wanted} <= prefixes.keys()


def test_places_are_counted_by_the_first_tool_that_would_do() -> None:
    found = list(search.names_in("a(x: string)\n  One.\nb()\n  Two."))
    assert found == ["a", "b"]
    assert [search.rank_of(names, found) for names in (["b", "a"], ["b"], ["c"])] == [1, 2, None]


def test_the_guide_tells_what_was_recorded() -> None:
    assert f"{len(RECORD['servers'])} public servers" in GUIDE
    assert f"{RECORD['tools']} tools" in GUIDE
    for name in ("tokens_without", "tokens_with", "tokens_of_an_answer"):
        assert f"| {RECORD[name]:,} |" in GUIDE
    assert f"For {RECORD['among_five']} of {RECORD['questions']} questions" in GUIDE
    assert f"for {RECORD['first']} it was the\nfirst" in GUIDE
