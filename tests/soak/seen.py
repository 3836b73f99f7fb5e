"""What is seen of processes while they work for a long time, and whether they have grown."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import linear_regression, median
from typing import Final

from attrs import define, field

WARM_UP: Final = 1 / 3
"""Of a run, before which a process may grow."""
MOST_GROWTH: Final = 1024 * 1024
"""Bytes by which memory may grow from the end of the warm-up to the end: pages come in lumps."""
CALLERS: Final = 16
MOST_MORE: Final = 2 * CALLERS
"""Descriptors, threads or tasks by which two thirds may differ: calls come and go."""


@define
class Seen:
    """A process, as it was at some numbers of calls."""

    name: str
    calls: list[int] = field(factory=list)
    memory: list[int] = field(factory=list)
    """Bytes."""
    held: list[Mapping[str, int]] = field(factory=list)
    """Descriptors, threads and tasks."""

    def add(self, calls: int, memory: int, held: Mapping[str, int]) -> None:
        """Note how it is now."""
        self.calls.append(calls)
        self.memory.append(memory)
        self.held.append(held)

    @property
    def growth(self) -> float:
        """Bytes by which memory grew after the warm-up, by the line through the samples."""
        first = int(len(self.memory) * WARM_UP)
        calls, memory = self.calls[first:], self.memory[first:]
        return linear_regression(calls, memory).slope * (calls[-1] - calls[0])

    def range_of(self, what: str) -> tuple[int, int]:
        """Medians of the first and of the last third after the warm-up."""
        values = [each[what] for each in self.held[int(len(self.held) * WARM_UP) :]]
        third = max(1, len(values) // 3)
        return int(median(values[:third])), int(median(values[-third:]))

    @property
    def is_flat(self) -> bool:
        """Whether nothing has grown."""
        grown = [last - first for first, last in map(self.range_of, self.held[0])]
        return self.growth <= MOST_GROWTH and max(grown) <= MOST_MORE
