"""What a person sees: results on stdout, everything else on stderr.

On a terminal there is colour (unless `NO_COLOR` is set) and text is wrapped to its width; elsewhere
there is neither, so that `grep` finds whole lines. A terminal shows the control characters of
servers' texts as symbols, and does not obey them.
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

from trio_mcp.loggers import harmless
from trio_mcp.wire.jsonrpc import Json

if TYPE_CHECKING:
    from rich.console import RenderableType

_ENDLESS: Final = 1_000_000
_LONGEST_CELL: Final = 10_000
"""Characters of a cell that a terminal shows: wrapping 3 MB takes 15 s."""

_LONGEST_STYLED: Final = 20_000
"""Characters of a text that is styled: for 1 MB of JSON that takes 6 s."""

_LEVEL_STYLES: Final[Mapping[str, str]] = {
    "debug": "dim",
    "warning": "yellow",
    "error": "red",
    "critical": "bold red",
    "alert": "bold red",
    "emergency": "bold red",
}


def to_json(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


class Screen:
    """Where a command writes."""

    def __init__(self, *, as_json: bool = False, ends_lines: bool = False) -> None:
        self.as_json = as_json
        self.ends_lines = ends_lines
        """Whether a result ends with a line break, because something follows it."""
        self.out = _console(stderr=False)
        self.err = _console(stderr=True)

    @property
    def is_terminal(self) -> bool:
        return self.out.is_terminal

    @property
    def can_ask(self) -> bool:
        return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

    def show(self, *parts: RenderableType) -> None:
        for part in parts:
            self.out.print(part, soft_wrap=not self.is_terminal)

    def text(self, text: str, style: str = "") -> None:
        """Write text to stdout: made harmless on a terminal, else as it is."""
        if self.is_terminal:
            _write(self.out, text, lambda plain: Text(plain, style=style))
        else:
            self.out.file.write(text if text.endswith("\n") else f"{text}\n")

    def json(self, value: Json) -> None:
        text = to_json(value)
        if self.is_terminal:
            _write(self.out, text, lambda plain: JSON(plain, indent=2))
        else:
            self.out.file.write(f"{text}\n")

    def bytes(self, data: builtins.bytes) -> None:
        self.out.file.flush()
        self.out.file.buffer.write(data)  # type: ignore[attr-defined]
        self.out.file.buffer.flush()  # type: ignore[attr-defined]

    def heading(self, text: str) -> None:
        self.show(Text(harmless(text), style="bold"))

    def note(self, text: str, style: str = "dim") -> None:
        _write(self.err, text, lambda plain: Text(plain, style=style))

    @contextmanager
    def busy(self, doing: str) -> Iterator[None]:
        """Show on a terminal what takes time, for the length of a block."""
        if not self.err.is_terminal:
            yield
            return
        with self.err.status(Text(harmless(doing), style="dim")):
            yield

    def table(
        self, headers: Sequence[str], rows: Iterable[Sequence[str]], *, empty_columns: bool = True
    ) -> None:
        """Write a table to stdout; empty columns can be left out."""
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
        limit = None if plain else _LONGEST_CELL
        first = max(cell_len(harmless(row[0][:limit], lines=True)) for row in [headers, *rows])
        for index, header in enumerate(headers):
            # Names and URIs are for copying: they are cut only where they would leave no room.
            width = min(first, self.out.width * 2 // 3) if index == 0 else None
            style = "cyan" if index == 0 else ""
            table.add_column(header, style=style, overflow="fold", width=width)
        for row in rows:
            cells = (" ".join(cell.split()) if plain else cell for cell in row)
            table.add_row(*(Text(harmless(cell[:limit], lines=True)) for cell in cells))
        if plain:
            with self.out.capture() as captured:
                self.out.print(table)
            lines = captured.get().splitlines()
            self.out.file.write("".join(f"{line.rstrip()}\n" for line in lines))
        else:
            self.out.print(table)

    def quote(self, text: str, style: str = "dim", *, about: str = "") -> None:
        """Write what a server says to stderr, in lines that no one takes for ours."""
        self.note(f"{harmless(about)}{text.strip()}".replace("\n", "\n  "), style)

    def log(self, level: str, data: Json, logger: str | None) -> None:
        said = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        where = f" {logger}" if logger else ""
        self.quote(said, _LEVEL_STYLES.get(level, ""), about=f"{level}{where}: ")


def _write(console: Console, text: str, styled: Callable[[str], RenderableType]) -> None:
    plain = harmless(text, lines=True)
    if len(plain) > _LONGEST_STYLED:
        console.file.write(f"{plain}\n")
    else:
        console.print(styled(plain), soft_wrap=True)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = _ENDLESS
    return console
