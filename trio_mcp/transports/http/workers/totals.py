"""Adding up what workers have counted.

A count never falls: what a worker counted before it ended is kept, as far as it had reported.
"""

from __future__ import annotations

from typing import Any

Snapshot = dict[str, Any]
"""Families by name: their kind, their help, and values by name of sample and by labels (JSON)."""


def add(total: Snapshot, snapshot: Snapshot, *, ended: bool = False) -> None:
    """Add a worker's metrics to those of others.

    Args:
        total: Those of others, which is changed.
        snapshot: The worker's.
        ended: It has ended. What it counted stays; what it had (gauges) does not.
    """
    for family, (kind, help_text, samples) in snapshot.items():
        if ended and kind == "gauge":
            continue
        into = total.setdefault(family, [kind, help_text, {}])[2]
        for name, values in samples.items():
            known = into.setdefault(name, {})
            for labels, value in values.items():
                known[labels] = known.get(labels, 0.0) + value
