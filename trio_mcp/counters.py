"""Counts of what happens while something is served, by name and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

Labels = tuple[tuple[str, str], ...]


class Counters:
    """Counts that never fall. A label must have few values: each is kept forever."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, Labels]] = Counter()

    def add(self, name: str, **labels: str) -> None:
        """Count one more.

        Args:
            name: What, without prefix and suffix: `tasks`.
            labels: Of which kind.
        """
        self._counts[name, tuple(labels.items())] += 1

    def __iter__(self) -> Iterator[tuple[str, dict[str, str], int]]:
        """Yield names, labels and counts."""
        for (name, labels), count in list(self._counts.items()):
            yield name, dict(labels), count
