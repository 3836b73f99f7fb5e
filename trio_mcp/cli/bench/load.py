"""Loads: one call repeated with new ids, and the results.

One task writes to a process and reads from it, so that little else is measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

import orjson
import trio
from attrs import frozen

from trio_mcp.cli.failures import Failure
from trio_mcp.peer.lines import StreamLines
from trio_mcp.wire.jsonrpc import Json, encode

_FIRST_ID: Final = 1_000_000_000
"""Ids have the same number of digits, so that all requests have the same length."""
_LAST_ANSWERS: Final = 10.0
"""Seconds to wait for the answers that are still due."""


def calls_of(params: dict[str, Json]) -> Iterator[tuple[int, bytes]]:
    line = encode({"id": 0, "jsonrpc": "2.0", "method": "tools/call", "params": params})
    tail = line.removeprefix(b'{"id":0')
    for id in itertools.count(_FIRST_ID):
        yield id, b'{"id":%d%b' % (id, tail)


def outcome(line: bytes) -> tuple[Json, bool] | None:
    """Return the id that a line answers, and whether it succeeded; `None` for any other message."""
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
    """The measurements with this many calls in flight."""

    in_flight: int
    seconds: float
    times: Sequence[float]
    """The seconds that each call took, sorted."""
    failed: int
    """Calls that got an error, or no answer."""

    @property
    def rate(self) -> float:
        return len(self.times) / self.seconds if self.seconds else 0.0

    def percentile(self, percent: int) -> float:
        """Return the milliseconds that this share of the calls did not exceed."""
        if not self.times:
            return 0.0
        rank = -(-len(self.times) * percent // 100)  # rounded up
        return self.times[max(rank, 1) - 1] * 1e3

    def as_row(self) -> tuple[str, ...]:
        times = (f"{self.percentile(percent):,.3f}" for percent in (50, 99))
        return (str(self.in_flight), f"{self.rate:,.0f}", *times, str(self.failed))

    def as_json(self) -> dict[str, Json]:
        return {
            "inFlight": self.in_flight,
            "calls": len(self.times),
            "failed": self.failed,
            "seconds": round(self.seconds, 3),
            "callsPerSecond": round(self.rate, 1),
            "p50Ms": round(self.percentile(50), 4),
            "p99Ms": round(self.percentile(99), 4),
        }


async def load_stdio(
    lines: StreamLines,
    calls: Iterator[tuple[int, bytes]],
    in_flight: int,
    seconds: float,
) -> Run:
    sent: dict[int, float] = {}
    times: list[float] = []
    failed = 0
    began = trio.current_time()
    end = began + seconds

    async def send(number: int) -> None:
        batch = [next(calls) for _ in range(number)]
        now = trio.current_time()
        sent.update((id, now) for id, _ in batch)
        try:
            await lines.send([line for _, line in batch])
        except trio.BrokenResourceError:
            raise Failure("the server takes no more input") from None

    await send(in_flight)
    with trio.move_on_after(seconds + _LAST_ANSWERS):
        while sent:
            received = await lines.receive()
            if not received:
                raise Failure("the server went away under the load")
            now = trio.current_time()
            answered = 0
            for line in received:
                found = outcome(line) if isinstance(line, bytes) else None
                if found is None or found[0] not in sent:
                    continue
                answered += 1
                id, success = found
                times.append(now - sent.pop(id))
                failed += not success
            if answered and now < end:
                await send(answered)
    return Run(in_flight, trio.current_time() - began, sorted(times), failed + len(sent))
