"""A complete run of all benchmarks, kept as JSON for the documentation to show.

Only a run that can be compared is kept: every peer took part, and everything was measured in at
least two rounds. Another run leaves the last record as it is, and says why.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from attrs import asdict

from benchmarks.figures import spread as of_rounds
from benchmarks.picture import draw
from benchmarks.records import provenance, write
from benchmarks.report import Report
from benchmarks.tables import parse

FEWEST_ROUNDS = 2


def keep(reports: Sequence[Report], path: Path, *, seconds: float, pinned: bool) -> str:
    """Write a record and its picture if the run is complete. Return what was done, as text.

    Args:
        reports: The outcomes of all benchmarks.
        path: Where the record belongs; its folder is made where needed.
        seconds: How long one measurement lasted, about.
        pinned: Whether servers on stdio had a processor to themselves.
    """
    reasons = [reason for report in reports for reason in lacking(report)]
    if reasons:
        return f"record: not written, since {'; '.join(dict.fromkeys(reasons))}"
    content = {
        "made": provenance(),
        "seconds": seconds,
        "pinned": pinned,
        "contests": {report.name: contest(report) for report in reports},
    }
    write(path, content)
    return f"record: {path}\npicture: {draw(path)}"


def contest(report: Report) -> dict[str, Any]:
    """Return what a record keeps of one benchmark: what was printed and drawn, as JSON values."""
    return {
        "rounds": rounds(report.figures),
        "spread": spread(report.figures),
        "tables": [asdict(table) for table in parse(report.text)],
        "panels": [asdict(panel) for panel in report.panels],
    }


def lacking(report: Report) -> Iterator[str]:
    """Say what keeps a benchmark from being complete."""
    for name, entry in _entries(report.figures):
        if entry.get("missing"):
            yield f"{name} is missing ({entry['missing']})"
    if rounds(report.figures) < FEWEST_ROUNDS:
        yield f"{report.name} was measured in fewer than {FEWEST_ROUNDS} rounds"


def rounds(figures: dict[str, Any]) -> int:
    """Return in how many rounds everything was measured."""
    return min(map(len, _series(figures)), default=0)


def spread(figures: dict[str, Any]) -> float:
    """Return how many times one and the same figure differed between rounds, in the middle.

    It is the median over all figures of the largest value to the smallest: 1 if the machine was
    quiet, and nothing can be read from ratios that are nearer to 1 than this is.
    """
    found = [of_rounds(each) for each in _series(figures) if min(each, default=0) > 0]
    return round(median(found), 2) if found else 1.0


def _series(figures: dict[str, Any]) -> Iterator[list[float]]:
    """Yield the figures that were measured in rounds."""
    for _, entry in _entries(figures):
        yield from (value for value in entry.values() if isinstance(value, list))


def _entries(figures: dict[str, Any], name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects among figures, with their names."""
    yield name, figures
    for key, value in figures.items():
        if isinstance(value, dict):
            yield from _entries(value, key)
