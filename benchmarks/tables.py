"""Plain-text tables: the first column to the left, figures to the right.

What was printed can be taken apart again: the rule under the headers says where columns are.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from attrs import field, frozen

_RULE = re.compile(r"-+(  -+)*")


@frozen
class Table:
    """A table as its cells; a row of one cell is a remark."""

    headers: Sequence[str]
    rows: list[Sequence[str]] = field(factory=list)


def table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, left: Iterable[int] = (0,)
) -> str:
    """Lay rows out under headers.

    Args:
        headers: One per column.
        rows: As many cells as there are headers; a row of one cell is written as it is.
        left: The columns that are aligned to the left.
    """
    texts = set(left)
    body = [list(row) for row in rows]
    whole = [list(headers), *(row for row in body if len(row) == len(headers))]
    widths = [max(map(len, column)) for column in zip(*whole, strict=True)]

    def line(cells: Sequence[str]) -> str:
        if len(cells) == 1:
            return cells[0]
        padded = [
            cell.ljust(width) if index in texts else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(list(headers)), rule, *map(line, body)])


def parse(text: str) -> Iterator[Table]:
    """Take tables apart that `table` has made. Each of them ends with an empty line.

    Raises:
        ValueError: There is something beside tables.
    """
    spans: list[slice] = []
    found: Table | None = None
    for line, following in pairwise([*text.split("\n"), ""]):
        if _RULE.fullmatch(following):
            spans = [slice(*each.span()) for each in re.finditer("-+", following)]
            found = Table([line[span].strip() for span in spans])
        elif not line and found is not None:
            yield found
            found = None
        elif found is not None and not _RULE.fullmatch(line):
            found.rows.append(_cells(line, spans) or [line])
        elif line and found is None:
            raise ValueError(f"not a part of a table: {line!r}")
    if found is not None:
        yield found


def _cells(line: str, spans: Sequence[slice]) -> list[str]:
    """Cut a line into its cells; none if it was not made of as many."""
    cells = [line[span].strip() for span in spans]
    gaps = [line[one.stop : other.start] for one, other in pairwise(spans)]
    whole = not any(gap.strip() for gap in gaps) and not line[spans[-1].stop :]
    return cells if whole and all(cells) else []
