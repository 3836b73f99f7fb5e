"""What a person sees: results on stdout, everything else on stderr.

On a terminal there is colour (unless `NO_COLOR` is set) and text is wrapped to its width. Anywhere
else there is none of both, so that `grep` finds whole lines. What comes from a server is text and
stays text: on a terminal its control characters are shown as symbols, never obeyed.
"""

from __future__ import annotations

import builtins
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.json import JSON
from rich.table import Table
from rich.text import Text

from trio_mcp.wire.jsonrpc import Json

if TYPE_CHECKING:
    from rich.console import RenderableType

_ENDLESS: Final = 1_000_000
_VISIBLE: Final = {
    **{code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD),
}
"""Control characters, those that turn text around among them, and symbols that stand for them."""
_LONGEST_CELL: Final = 10_000
"""Characters that a terminal shows of a cell: to wrap 3 MB takes a quarter of a minute."""

_LONGEST_STYLED: Final = 20_000
"""Characters of a text that is styled: to do so with 1 MB of JSON takes 6 s."""

_LEVEL_STYLES: Final[Mapping[str, str]] = {
    "debug": "dim",
    "warning": "yellow",
    "error": "red",
    "critical": "bold red",
    "alert": "bold red",
    "emergency": "bold red",
}


def harmless(text: str) -> str:
    """Replace the control characters of a text by symbols; newlines and tabs stay."""
    return text.translate(_VISIBLE)


def to_json(value: Json) -> str:
    """Write a value as JSON for people and programs: indented, and not escaped needlessly."""
    return json.dumps(value, indent=2, ensure_ascii=False)


class Screen:
    """Where a command writes.

    Args:
        as_json: Results are written as JSON.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.out = _console(stderr=False)
        self.err = _console(stderr=True)

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads the results as they come."""
        return self.out.is_terminal

    @property
    def can_ask(self) -> bool:
        """Whether there is somebody who can be asked."""
        return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

    def show(self, *parts: RenderableType) -> None:
        """Write something to stdout."""
        for each in parts:
            self.out.print(each, soft_wrap=not self.is_terminal)

    def text(self, text: str, style: str = "") -> None:
        """Write text to stdout: on a terminal made harmless, elsewhere just as it is."""
        if self.is_terminal:
            _write(self.out, text, lambda plain: Text(plain, style=style))
        else:
            self.out.file.write(text if text.endswith("\n") else f"{text}\n")

    def json(self, value: Json) -> None:
        """Write JSON to stdout."""
        text = to_json(value)
        if self.is_terminal:
            _write(self.out, text, lambda plain: JSON(plain, indent=2))
        else:
            self.out.file.write(f"{text}\n")

    def bytes(self, data: builtins.bytes) -> None:
        """Write bytes to stdout, just as they are."""
        self.out.file.flush()
        self.out.file.buffer.write(data)  # type: ignore[attr-defined]
        self.out.file.buffer.flush()  # type: ignore[attr-defined]

    def heading(self, text: str) -> None:
        """Write a line to stdout that says what follows."""
        self.show(Text(harmless(text), style="bold"))

    def note(self, text: str, style: str = "dim") -> None:
        """Write a line to stderr."""
        _write(self.err, text, lambda plain: Text(plain, style=style))

    @contextmanager
    def busy(self, doing: str) -> Iterator[None]:
        """Say on a terminal, for the length of a block, what takes its time."""
        if not self.err.is_terminal:
            yield
            return
        with self.err.status(Text(harmless(doing).replace("\n", " "), style="dim")):
            yield

    def table(
        self,
        headers: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        empty_columns: bool = True,
    ) -> None:
        """Write a table to stdout: the first column stands out, the last one is prose.

        Args:
            headers: What stands above each column.
            rows: The cells.
            empty_columns: Columns are shown even if nothing is in them.
        """
        rows = list(rows)
        if not empty_columns:
            kept = [index for index in range(len(headers)) if any(row[index] for row in rows)]
            headers = [headers[index] for index in kept]
            rows = [[row[index] for index in kept] for row in rows]
        plain = not self.is_terminal
        table = Table(
            box=None if plain else box.SIMPLE_HEAD,
            pad_edge=False,
            header_style="bold",
            padding=(0, 2 if plain else 1, 0, 0),
        )
        most = None if plain else _LONGEST_CELL
        first = max(cell_len(harmless(each[0][:most])) for each in [headers, *rows])
        for index, header in enumerate(headers):
            # Names and URIs are for copying: they are cut only where they would leave no room.
            width = min(first, self.out.width * 2 // 3) if index == 0 else None
            style = "cyan" if index == 0 else ""
            table.add_column(header, style=style, overflow="fold", width=width)
        for row in rows:
            cells = (" ".join(each.split()) if plain else each for each in row)
            table.add_row(*(Text(harmless(each[:most])) for each in cells))
        if plain:
            with self.out.capture() as captured:
                self.out.print(table)
            lines = captured.get().splitlines()
            self.out.file.write("".join(f"{line.rstrip()}\n" for line in lines))
        else:
            self.out.print(table)

    def log(self, level: str, data: Json, logger: str | None) -> None:
        """Write a log message of the server to stderr."""
        said = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        where = f" {logger}" if logger else ""
        self.note(f"{level}{where}: {said}", _LEVEL_STYLES.get(level, ""))


def _write(console: Console, text: str, styled: Callable[[str], RenderableType]) -> None:
    """Write a text made harmless, and styled unless it is too long for that."""
    plain = harmless(text)
    if len(plain) > _LONGEST_STYLED:
        console.file.write(f"{plain}\n")
    else:
        console.print(styled(plain), soft_wrap=True)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = _ENDLESS
    return console
