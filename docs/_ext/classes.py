"""A page for each public class, made from the pages of its subject.

Pages in `docs/reference` name what they document with `autoclass`, as they do functions. When the
site is built, each class gets a page in `docs/reference/classes`, with the same options and the
line that imports it; where it was named stands a row that leads there.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

from attrs import field, frozen

_SUBJECTS = "reference/"
_FOLDER = "reference/classes"
_DIRECTIVE = re.compile(
    r"^\.\. currentmodule:: (?P<module>[\w.]+)\n"
    r"|^\.\. autoclass:: (?P<name>[\w.]+)\n(?P<options>(?: {3,}\S.*\n)*)\n*",
    re.MULTILINE,
)
_TABLE = """\
.. list-table::
   :widths: 35 65
   :header-rows: 1

   * - Class
     - What it is
"""


@frozen
class ClassPage:
    """The page of a class.

    Args:
        module: Where the class is imported from.
        name: Its name there.
        options: Those of `autoclass`.
        span: Where it is named on the page of its subject.
    """

    module: str
    name: str
    options: str = ""
    span: tuple[int, int] = field(default=(0, 0), eq=False)

    @property
    def path(self) -> str:
        """The page, seen from that of its subject."""
        return f"classes/{self.module}.{self.name}"

    @property
    def text(self) -> str:
        """What stands on it, after what previews of links to it show."""
        return (
            f":og:description: {self.summary.replace('`', '')}\n\n"
            f"{self.name}\n{'=' * len(self.name)}\n\n"
            f".. currentmodule:: {self.module}\n\n"
            f".. code-block:: python\n\n   from {self.module} import {self.name}\n\n"
            f".. autoclass:: {self.name}\n{self.options}"
        )

    @property
    def row(self) -> str:
        """Its row on the page of its subject."""
        return f"   * - :py:class:`~{self.module}.{self.name}`\n     - {self.summary}\n"

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        kind = getattr(import_module(self.module), self.name)
        return (inspect.getdoc(kind) or "").partition("\n")[0]


def pages_of(text: str) -> Iterator[ClassPage]:
    """Yield the page of each class that the page of a subject names."""
    current = ""
    for found in _DIRECTIVE.finditer(text):
        if found["module"]:
            current = found["module"]
        else:
            module, _, name = f"{current}.{found['name']}".rpartition(".")
            if found["name"].startswith("trio_mcp."):
                module = found["name"].rpartition(".")[0]
            yield ClassPage(module, name, found["options"], found.span())


def with_tables(text: str) -> str:
    """Put a table in the place of the classes that follow each other on the page of a subject."""
    pages = list(pages_of(text))
    starts = [page.span[0] for page in pages]
    ends = [page.span[1] for page in pages]
    firsts = [index for index, start in enumerate(starts) if index == 0 or ends[index - 1] != start]
    runs = groupby(enumerate(pages), lambda each: sum(first <= each[0] for first in firsts))
    for _, run in reversed([(number, list(run)) for number, run in runs]):
        members = [page for _, page in run]
        table = "".join([_TABLE, *(page.row for page in members)])
        listed = "".join(f"   {page.path}\n" for page in members)
        shown = f"{table}\n.. toctree::\n   :hidden:\n\n{listed}\n"
        text = f"{text[: members[0].span[0]]}{shown}{text[members[-1].span[1] :]}"
    return text


def write_pages(app: Any) -> None:
    """Write the pages, before Sphinx looks for them; remove those of classes that are no more."""
    folder = Path(app.srcdir, _FOLDER)
    folder.mkdir(exist_ok=True)
    subjects = sorted(Path(app.srcdir, _SUBJECTS).glob("*.rst"))
    pages = [page for subject in subjects for page in pages_of(subject.read_text(encoding="utf-8"))]
    wanted = {folder / f"{page.module}.{page.name}.rst": page.text for page in pages}
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for path in {*folder.glob("*.rst")} - {*wanted}:
        path.unlink()


def show_tables(app: Any, name: str, source: list[str]) -> None:
    """Let the page of a subject have tables of its classes."""
    if name.startswith(_SUBJECTS) and not name.startswith(_FOLDER):
        source[0] = with_tables(source[0])


# -- source -----------------------------------------------------------------------------------


def find_source(app: Any, package: str, name: str) -> str | None:
    """Return the module that defines what says that it is from the package it is imported from."""
    top = name.partition(".")[0]
    public = getattr(sys.modules.get(package), top, None)
    if not inspect.isclass(public):
        return None
    defines = re.compile(rf"^class {top}\b", re.MULTILINE)
    found = (
        module
        for module, it in sorted(sys.modules.items())
        if module.startswith("trio_mcp.")
        and vars(it).get(top) is public
        and defines.search(inspect.getsource(it))
    )
    return next(found, None)


def setup(app: Any) -> dict[str, bool]:
    """Register it with Sphinx."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", show_tables)
    app.connect("viewcode-follow-imported", find_source)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
