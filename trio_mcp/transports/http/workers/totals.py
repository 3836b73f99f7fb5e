"""Adding up what workers report.

A count never falls: what a worker counted before it ended is kept, as far as it had reported.
"""

from __future__ import annotations

from typing import Any, Final, TypedDict

Snapshot = dict[str, Any]
"""Families by name: their kind, their help, and values by name of sample and by labels (JSON)."""

_STATES: Final = ("connected", "connecting", "disconnected")


class Report(TypedDict):
    """What a worker reports, or what is reported of all."""

    metrics: Snapshot
    servers: dict[str, str]
    """How servers elsewhere stand, by name."""


def note_servers(total: dict[str, str], servers: dict[str, str]) -> None:
    """Take note of how servers elsewhere stand for a worker: of each, the worst counts."""
    for name, state in servers.items():
        total[name] = max(total.get(name, state), state, key=_STATES.index)


def add(total: Snapshot, snapshot: Snapshot, *, ended: bool = False) -> None:
    """Add a worker's metrics to the total: if it has ended, what it counted, but not its gauges."""
    for family, (kind, help_text, samples) in snapshot.items():
        if ended and kind == "gauge":
            continue
        into = total.setdefault(family, [kind, help_text, {}])[2]
        for name, values in samples.items():
            known = into.setdefault(name, {})
            for labels, value in values.items():
                known[labels] = known.get(labels, 0.0) + value
