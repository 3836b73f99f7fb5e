"""From times to figures."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from trio_mcp.wire.jsonrpc import Json


@frozen
class Run:
    """What was measured with so many calls in flight."""

    in_flight: int
    seconds: float
    """How long it took."""
    times: Sequence[float]
    """How long each call took, in seconds, sorted."""
    failed: int
    """How many calls were answered with an error, or not at all."""

    @property
    def rate(self) -> float:
        """Calls per second."""
        return len(self.times) / self.seconds if self.seconds else 0.0

    def as_json(self) -> dict[str, Json]:
        """The figures for programs."""
        return {
            "inFlight": self.in_flight,
            "calls": len(self.times),
            "failed": self.failed,
            "seconds": round(self.seconds, 3),
            "callsPerSecond": round(self.rate, 1),
            "p50Ms": round(percentile(self.times, 50) * 1e3, 4),
            "p99Ms": round(percentile(self.times, 99) * 1e3, 4),
        }


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest of sorted values that so many percent of them do not exceed."""
    if not ordered:
        return 0.0
    rank = -(-len(ordered) * percent // 100)  # rounded up
    return ordered[max(rank, 1) - 1]
