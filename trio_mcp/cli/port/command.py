"""`trio-mcp port`: read files, and report what there is here in place of what they use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

from attrs import asdict, frozen
from cyclopts import Parameter

from trio_mcp.cli.failures import Failure, counted
from trio_mcp.cli.options import AsJson
from trio_mcp.cli.port.reading import find_uses
from trio_mcp.cli.screen import Screen
from trio_mcp.registry.equivalents import EQUIVALENTS, NOT_HERE

_LONGEST: Final = 5_000_000
"""Bytes of a file that is read: to parse it takes some seconds."""
_MOST_FILES: Final = 10_000
_UNKNOWN: Final = "not known to this command: see the guide on migrating"


@frozen
class Row:
    """One thing that a file uses, wherever it does so."""

    file: Path
    lines: list[int]
    use: str
    here: str
    status: str
    """`same or renamed`, `otherwise` (there is none, but a way to do it) or `unknown`."""


def port(
    path: Annotated[Path, Parameter(name="PATH", help="A Python file, or a folder of them.")],
    /,
    *,
    as_json: AsJson = False,
) -> None:
    """Report what a server for FastMCP or the official SDK uses, and what that is here.

    Files are read and not run, and nothing is written. What is made at run time is not seen.
    """
    screen = Screen(as_json=as_json)
    rows = [row for file in _files(path) for row in _rows(file)]
    if as_json:
        screen.json([{**asdict(row), "file": str(row.file)} for row in rows])
        return
    if not rows:
        screen.note(f"{path} uses neither FastMCP nor the official SDK.")
        return
    screen.table(
        ("Where", "It uses", "Here"),
        [(_where(row, path), row.use, _shown(row)) for row in rows],
    )
    counts = Counter(row.status for row in rows)
    said = [f"{counted(len(rows), 'thing')} used"]
    said += [f"{counts[status]} {status}" for status in _STATUSES if counts[status]]
    screen.note("; ".join(said) + ". docs/guides/behaves-differently.md says what differs.")


_STATUSES: Final = ("same or renamed", "otherwise", "unknown")


def _where(row: Row, path: Path) -> str:
    file = row.file.relative_to(path) if path.is_dir() else row.file.name
    return f"{file}:{row.lines[0]}"


def _shown(row: Row) -> str:
    return f"none; instead: {row.here}" if row.status == "otherwise" else row.here


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    found = (file for file in sorted(path.rglob("*.py")) if not _is_hidden(file, path))
    for number, file in enumerate(found):
        if number == _MOST_FILES:
            raise Failure(f"{path} has more than {_MOST_FILES} Python files; name a smaller folder")
        yield file


def _is_hidden(file: Path, folder: Path) -> bool:
    parts = file.relative_to(folder).parts
    return any(part.startswith(".") or part in ("site-packages", "node_modules") for part in parts)


def _rows(file: Path) -> Iterator[Row]:
    if file.stat().st_size > _LONGEST:
        raise Failure(f"{file} is too long to be read: it has more than {_LONGEST:,} bytes")
    try:
        uses = find_uses(file.read_text(encoding="utf-8"), str(file))
    except (SyntaxError, ValueError, RecursionError) as error:
        raise Failure(f"{file} is not Python: {error}") from None
    lines: dict[tuple[str, str], list[int]] = {}
    for use in uses:
        lines.setdefault((use.kind, use.name), []).append(use.line)
    for (kind, name), its in lines.items():
        yield Row(file, its, _FORMS[kind].format(name), *_here(kind, name))


def _here(kind: str, name: str) -> tuple[str, str]:
    for table, status in ((EQUIVALENTS, "same or renamed"), (NOT_HERE, "otherwise")):
        here = table.get(kind, {}).get(name)
        if here is not None:
            return here, status
    return _UNKNOWN, "unknown"


_FORMS: Final = {
    "import": "{}",
    "server": "the server's {}",
    "context": "the context's {}",
    "low-level server": "the server's {}",
    "client": "the client's {}",
    "server option": "{}= of the server",
    "tool option": "{}= of a tool",
    "resource option": "{}= of a resource",
    "prompt option": "{}= of a prompt",
    "completion option": "{}= of a completion",
    "run option": "{}= where the server runs",
    "field": "{}= of a message",
    "implicit": "{} as a default that the annotation does not allow",
    "default": "{}(…) as a default value",
    "raised": "raise {}(…) in a tool",
    "generic": "{}",
    "library": "{}",
}
