"""Figures of samples as the columns of a table: picked, compared, written, drawn."""

from collections.abc import Callable, Collection, Sequence
from statistics import median
from typing import Any, Generic

from attrs import frozen

from benchmarks.chart import Bar
from benchmarks.contest import Outcome, S
from benchmarks.figures import paired_ratio, spread
from benchmarks.peers import OURS
from benchmarks.tables import table


@frozen
class Column(Generic[S]):
    """One figure of a sample: its name, how it is picked, and how it is written."""

    key: str
    title: str
    pick: Callable[[S], float | None]
    scale: float
    form: str

    def text(self, value: float) -> str:
        return format(value * self.scale, self.form)


def title_of(outcome: Outcome[S]) -> str:
    """Who it is, and in which version."""
    return " ".join(filter(None, [outcome.peer.name, outcome.peer.version]))


def row(outcome: Outcome[S], columns: Sequence[Column[S]]) -> list[str]:
    """Return the medians as the cells of a row; one cell with the reason, if it is missing."""
    name = title_of(outcome)
    if outcome.peer.missing:
        return [f"{name}  missing: {outcome.peer.missing}"]
    cells = []
    for column in columns:
        found = outcome.values(column.pick)
        cells.append(column.text(median(found)) if found else "n/a")
    return [name, *cells]


def plain_table(what: str, outcomes: Sequence[Outcome[S]], columns: Sequence[Column[S]]) -> str:
    """Lay out the medians; who is missing is named.

    The last column is the spread between rounds of the figure of a row that differed most.
    """

    def cells(outcome: Outcome[S]) -> list[str]:
        found = row(outcome, columns)
        if outcome.peer.missing:
            return found
        return [*found, f"{max(spread(outcome.values(each.pick)) for each in columns):.2f}"]

    headers = [what, *(column.title for column in columns), "spread"]
    return table(headers, [cells(outcome) for outcome in outcomes])


def table_beside(
    what: str,
    outcomes: Sequence[Outcome[S]],
    columns: Sequence[Column[S]],
    compared: Column[S],
    other: str,
    times: str,
) -> str:
    """Lay out the medians, and one figure beside that of another; who is missing is named.

    Args:
        what: The title of the names.
        outcomes: The rows.
        columns: The figures.
        compared: The figure that is compared.
        other: The name of the one to compare it with.
        times: The title of the last column. The one before it says how many times the figure that
            is compared differed between rounds.
    """

    def cells(outcome: Outcome[S]) -> list[str]:
        found = row(outcome, columns)
        if outcome.peer.missing:
            return found
        figure, _ = ratio(outcomes, compared, outcome.peer.name, other)
        differed = f"{spread(outcome.values(compared.pick)):.2f}"
        return [*found, differed, "-" if figure is None else f"{figure:.2f}"]

    headers = [what, *(column.title for column in columns), "spread", times]
    return table(headers, [cells(outcome) for outcome in outcomes])


def ratio(
    outcomes: Sequence[Outcome[S]], column: Column[S], name: str, other: str
) -> tuple[float | None, str]:
    """Return the ratio of one figure of two servers, or why there is none."""
    by_name = {outcome.peer.name: outcome for outcome in outcomes}
    series = []
    for outcome in (by_name[name], by_name[other]):
        found = outcome.values(column.pick)
        if not found:
            return None, f"{outcome.peer.name} is missing"
        series.append(found)
    rounds = min(map(len, series))
    if any(len(found) != rounds for found in series):
        return None, "the rounds do not match"
    return paired_ratio(*series), ""


def bars(
    outcomes: Sequence[Outcome[S]], column: Column[S], *, leave_out: Collection[str] = ()
) -> list[Bar]:
    """Draw the medians of one figure, of those who have it."""
    drawn = []
    for outcome in outcomes:
        found = outcome.values(column.pick)
        if found and outcome.peer.name not in leave_out:
            middle = median(found)
            ours = outcome.peer.name.startswith(OURS)
            drawn.append(Bar(title_of(outcome), middle, column.text(middle), ours))
    return drawn


def measurements(outcomes: Sequence[Outcome[S]], columns: Sequence[Column[S]]) -> dict[str, Any]:
    """Return everything measured, as JSON values, without optional peers that are missing."""
    return {
        outcome.peer.name: {
            "version": outcome.peer.version,
            "missing": outcome.peer.missing,
            **{column.key: outcome.values(column.pick) for column in columns},
        }
        for outcome in outcomes
        if not (outcome.peer.missing and outcome.peer.is_optional)
    }
