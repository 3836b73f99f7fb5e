"""What a load consists of, the same call over and over but for its id, and what comes of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

import orjson
from attrs import frozen

from trio_mcp.wire.jsonrpc import Json, encode

_FIRST_ID: Final = 1_000_000_000
"""Ids have the same number of digits, so that all requests have the same length."""


def calls_of(params: dict[str, Json]) -> Iterator[tuple[int, bytes]]:
    """Make calls without end: the id of each, and its line."""
    line = encode({"id": 0, "jsonrpc": "2.0", "method": "tools/call", "params": params})
    tail = line.removeprefix(b'{"id":0')
    for id in itertools.count(_FIRST_ID):
        yield id, b'{"id":%d%b' % (id, tail)


def outcome(line: bytes) -> tuple[Json, bool] | None:
    """The id that a line answers, and whether it is a success; `None` if it answers nothing."""
    try:
        message = orjson.loads(line)
    except ValueError:
        return None
    if not isinstance(message, dict) or "method" in message:
        return None
    result = message.get("result")
    return message.get("id"), isinstance(result, dict) and not result.get("isError", False)


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

    def percentile(self, percent: int) -> float:
        """The milliseconds that so many percent of the calls did not exceed."""
        if not self.times:
            return 0.0
        rank = -(-len(self.times) * percent // 100)  # rounded up
        return self.times[max(rank, 1) - 1] * 1e3

    def as_json(self) -> dict[str, Json]:
        """The figures for programs."""
        return {
            "inFlight": self.in_flight,
            "calls": len(self.times),
            "failed": self.failed,
            "seconds": round(self.seconds, 3),
            "callsPerSecond": round(self.rate, 1),
            "p50Ms": round(self.percentile(50), 4),
            "p99Ms": round(self.percentile(99), 4),
        }
