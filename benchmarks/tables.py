"""Plain-text tables: the first column to the left, figures to the right."""

from collections.abc import Iterable, Sequence


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
