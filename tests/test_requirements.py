"""Every promise has a test that names it, and every name that a test gives is a promise.

The promises are the rows of the tables in `docs/promises.md`. The tests are read, not run, so the
answer is the same when only a part of them is selected.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
PROMISES = TESTS.parent / "docs" / "promises.md"
ROW = re.compile(r"^\|\s*([A-Z]\d+)\s*\|", re.MULTILINE)


def promised() -> list[str]:
    """The rows that are promised."""
    return ROW.findall(PROMISES.read_text())


def named_rows(tree: ast.Module, file: str = "<test>") -> Iterator[str]:
    """The rows that `requirement` markers name, as decorators or in `pytestmark`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                yield from rows_of(decorator, file)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            marks = node.value
            for mark in marks.elts if isinstance(marks, ast.List | ast.Tuple) else [marks]:
                yield from rows_of(mark, file)


def rows_of(mark: ast.expr, file: str) -> Iterator[str]:
    """The rows that one marker names; none if it is another marker."""
    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.requirement":
        for argument in mark.args:
            row = ast.literal_eval(argument)
            assert isinstance(row, str), f"{file}:{mark.lineno}: {row!r} is no row"
            yield row


@cache
def rows_by_file() -> dict[str, set[str]]:
    """Which rows each file of tests names."""
    return {
        str(path.relative_to(TESTS)): set(named_rows(ast.parse(path.read_text()), str(path)))
        for path in sorted(TESTS.rglob("test_*.py"))
    }


def test_every_promise_is_shown_by_a_test() -> None:
    rows = promised()
    assert rows, "docs/promises.md promises nothing"
    named = set().union(*rows_by_file().values())
    assert [row for row in rows if row not in named] == []


def test_every_named_row_is_promised() -> None:
    rows = set(promised())
    unknown = {file: sorted(named - rows) for file, named in rows_by_file().items()}
    assert {file: rows for file, rows in unknown.items() if rows} == {}


def test_no_promise_is_made_twice() -> None:
    rows = promised()
    assert sorted(set(rows)) == sorted(rows)


def test_markers_are_found_wherever_pytest_takes_them() -> None:
    tree = ast.parse(
        "pytestmark = [pytest.mark.requirement('A1'), pytest.mark.other('X1')]\n"
        "@pytest.mark.requirement('A2', 'A3')\n"
        "async def test_one(): ...\n"
        "@pytest.mark.parametrize('x', [1])\n"
        "@pytest.mark.requirement('A4')\n"
        "def test_two(): ...\n"
        "@pytest.mark.requirement('A5')\n"
        "class TestThree:\n"
        "    @pytest.mark.requirement('A6')\n"
        "    def test_four(self): ...\n"
    )
    assert set(named_rows(tree)) == {"A1", "A2", "A3", "A4", "A5", "A6"}
