"""Every promise has a test that names it, and every name that a test gives is a promise.

The promises are the rows of the tables in `docs/promises.md`. The tests are read, as the site reads
them, and not run: so the answer is the same when only a part of them is selected.
"""

import re
from pathlib import Path

from docs._ext.promises import tests_by_row as find_tests

TESTS = Path(__file__).parent
PROMISES = TESTS.parent / "docs" / "promises.md"
ROW = re.compile(r"^\|\s*([A-Z]\d+)\s*\|", re.MULTILINE)


def promised() -> list[str]:
    """The rows that are promised."""
    return ROW.findall(PROMISES.read_text())


def test_every_promise_is_shown_by_a_test_and_every_named_row_is_promised() -> None:
    found = find_tests(TESTS)
    assert found, "no test names a promise"
    rows = set(promised())
    assert sorted(rows - found.keys()) == []
    assert {row: list(found[row]) for row in found.keys() - rows} == {}


def test_no_promise_is_made_twice() -> None:
    rows = promised()
    assert sorted(set(rows)) == sorted(rows)
