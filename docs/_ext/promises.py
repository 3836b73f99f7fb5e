"""Which tests hold which promise, read from their sources: nothing of them is imported.

A test names the rows of `docs/promises.md` that it shows, with `pytest.mark.requirement`: on a
function, on a class, or as `pytestmark` for a whole file.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROW = re.compile(r"[A-Z]\d+")

Tests = dict[str, list[str]]
"""Names of tests by their files. A file whose tests all count has no names."""


def tests_by_row(folder: Path) -> dict[str, Tests]:
    """Find the tests of each row below a folder, in the order of their files and lines.

    Args:
        folder: Where the tests are. Files are named by their path from the folder above it.
    """
    found: dict[str, Tests] = {}
    for path in sorted(folder.rglob("test_*.py")):
        file = path.relative_to(folder.parent).as_posix()
        text = path.read_text(encoding="utf-8")
        if "requirement" not in text:
            continue
        for row, name in _marked(ast.parse(text, str(path))):
            names = found.setdefault(row, {}).setdefault(file, [])
            if name is not None:
                names.append(name)
    return found


def _marked(tree: ast.Module) -> Iterator[tuple[str, str | None]]:
    """Yield the rows that are named, and by which test; `None` stands for the whole file."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            marks = (
                node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]
            )
            for mark in marks:
                yield from ((row, None) for row in _rows(mark))
        else:
            yield from _of_test(node, "")


def _of_test(node: ast.stmt, owner: str) -> Iterator[tuple[str, str | None]]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    name = f"{owner}{node.name}"
    for decorator in node.decorator_list:
        yield from ((row, name) for row in _rows(decorator))
    if isinstance(node, ast.ClassDef):
        for member in node.body:
            yield from _of_test(member, f"{name}::")


def _rows(mark: ast.expr) -> Iterator[str]:
    match mark:
        case ast.Call(func=ast.Attribute(attr="requirement"), args=arguments):
            for argument in arguments:
                yield ast.literal_eval(argument)
