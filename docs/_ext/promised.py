"""On the page of promises, the tests that hold each row, folded away below it."""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util import logging

from docs._ext.promises import ROW, Tests, tests_by_row

_PAGE = "promises"
_TESTS = Path(__file__).parents[2] / "tests"

logger = logging.getLogger(__name__)


def show_tests(app: Any, doctree: nodes.document) -> None:
    """Add the tests to the rows of the page, while it is read."""
    if app.env.docname != _PAGE:
        return
    found = tests_by_row(_TESTS)
    for row in list(doctree.findall(nodes.row)):
        name = row[0].astext()
        if not ROW.fullmatch(name):
            continue
        tests = found.pop(name, None)
        if tests is None:
            logger.warning("no test names the promise %s", name, location=row)
        else:
            row[1] += _folded(tests)
    for name, tests in found.items():
        logger.warning("there is no promise %s, which %s names", name, ", ".join(tests))


def _folded(tests: Tests) -> list[nodes.Node]:
    files = nodes.bullet_list(classes=["tests"])
    for file, names in tests.items():
        item = nodes.list_item("", nodes.paragraph("", "", nodes.literal("", file)))
        if names:
            each = [
                nodes.list_item("", nodes.paragraph("", "", nodes.literal("", name)))
                for name in names
            ]
            item += nodes.bullet_list("", *each)
        else:
            item[0] += nodes.Text(": all of its tests")
        files += item
    head = f'<details class="tests"><summary>{_count(tests)}</summary>'
    return [_html(head), files, _html("</details>")]


def _count(tests: Tests) -> str:
    """Say how many there are; a whole file counts as one of these."""
    named = sum(map(len, tests.values()))
    whole = sum(not names for names in tests.values())
    said = [
        f"{number} {what}{'' if number == 1 else 's'}"
        for number, what in ((named, "test"), (whole, "whole file"))
        if number
    ]
    return " and ".join(said)


def _html(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


def setup(app: Any) -> dict[str, bool]:
    """Register it with Sphinx."""
    app.connect("doctree-read", show_tests)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
