"""From measurements to figures: percentiles, paired ratios, targets.

Machines drift while a benchmark runs, so two servers are compared round by round: each round
gives one ratio, and the median of the ratios is the figure. A target is a bound on such a ratio.
"""

from collections.abc import Iterable, Sequence
from math import inf
from statistics import median

from attrs import frozen

from benchmarks.tables import table


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest value of a sorted sequence that `percent` of the values do not exceed."""
    if not ordered:
        raise ValueError("no values")
    rank = -(-len(ordered) * percent // 100)  # rounded up
    return ordered[max(int(rank), 1) - 1]


def spread(values: Sequence[float]) -> float:
    """Return how many times a figure differed between rounds: the largest to the smallest."""
    return max(values) / min(values) if min(values, default=0) > 0 else 1.0


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the ratios of two series that were measured round by round."""
    return median(our / their for our, their in zip(ours, theirs, strict=True))


@frozen
class Target:
    """A bound on a figure, and the figure if it could be measured."""

    text: str
    bound: float
    figure: float | None
    at_least: bool = False
    reason: str = ""
    """Why there is no figure."""

    @property
    def verdict(self) -> str:
        if self.figure is None:
            return f"not measured: {self.reason}"
        met = self.figure >= self.bound if self.at_least else self.figure <= self.bound
        return "met" if met else "missed"

    @property
    def shortfall(self) -> float:
        """By what factor the bound is missed: below 1 if it is met, infinite if not measured."""
        if not self.figure:
            return inf
        return self.bound / self.figure if self.at_least else self.figure / self.bound

    @property
    def row(self) -> list[str]:
        sign = "≥" if self.at_least else "≤"
        figure = "-" if self.figure is None else f"{self.figure:.2f}"
        return [self.text, f"{sign} {self.bound:g}", figure, self.verdict]


def targets_table(targets: Iterable[Target]) -> str:
    """Show every target with its figure and its verdict, those that were missed most first."""
    headers = ["target (in this run)", "bound", "figure", "verdict"]
    worst_first = sorted(targets, key=lambda target: target.shortfall, reverse=True)
    return table(headers, [target.row for target in worst_first], left=(0, 3))
