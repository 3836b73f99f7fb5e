"""The load generator: blocking pipes, prepared bytes, and as little as possible in between.

A window of calls is kept in flight. Whenever answers arrive, as many new calls go out in one
write. The loop only notes what arrived and when; latencies are worked out, and every id is
checked for its one answer, after the clock has stopped.
"""

import os
import re
from collections.abc import Sequence
from time import perf_counter_ns

from attrs import field, frozen

from benchmarks.eras import Calls
from benchmarks.figures import percentile

_CHUNK = 1 << 16
_ID = re.compile(rb'"id": ?(\d+)')
_FAILURES = (b'"error":', b'"isError":true')


class LoadError(Exception):
    """A server did not answer as it should."""


@frozen
class Load:
    """What one run of calls took."""

    count: int
    seconds: float
    p50: float
    """Seconds from writing a call to reading its answer, in the middle."""
    p99: float

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.count / self.seconds


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@frozen
class Lines:
    """Whole lines from a descriptor."""

    descriptor: int
    _tail: bytearray = field(factory=bytearray)

    def read(self) -> bytes:
        """Wait for the next lines, one or more, and return them in one piece."""
        while True:
            chunk = os.read(self.descriptor, _CHUNK)
            if not chunk:
                raise LoadError("the server closed its output")
            if chunk.endswith(b"\n") and not self._tail:
                return chunk
            self._tail.extend(chunk)
            end = self._tail.rfind(b"\n") + 1
            if end:
                lines = bytes(self._tail[:end])
                del self._tail[:end]
                return lines


def drive(writer: int, lines: Lines, calls: Calls, window: int) -> Load:
    """Send all calls, with at most `window` of them unanswered, and measure.

    Args:
        writer: The descriptor of the server's input.
        lines: The server's output.
        calls: What is sent.
        window: How many calls are in flight; 1 means one after another.

    Raises:
        LoadError: An answer was an error, missing, repeated or not asked for.
    """
    blob, size = memoryview(calls.blob), calls.size
    departures: list[tuple[int, int]] = []  # (time, calls sent so far)
    arrivals: list[tuple[int, list[bytes]]] = []  # (time, ids)
    sent = answered = 0
    begin = perf_counter_ns()
    while answered < calls.count:
        until = min(answered + window, calls.count)
        if until > sent:
            departures.append((perf_counter_ns(), until))
            write_all(writer, blob[sent * size : until * size])
            sent = until
        data = lines.read()
        now = perf_counter_ns()
        ids = _ID.findall(data)
        arrivals.append((now, ids))
        answered += len(ids)
        if any(failure in data for failure in _FAILURES):
            raise LoadError("the server answered a call with an error")
    latencies = _latencies(calls.first_id, departures, arrivals)
    seconds = (arrivals[-1][0] - begin) / 1e9
    return Load(calls.count, seconds, percentile(latencies, 50), percentile(latencies, 99))


def _latencies(
    first_id: int,
    departures: Sequence[tuple[int, int]],
    arrivals: Sequence[tuple[int, Sequence[bytes]]],
) -> list[float]:
    """Match answers to calls and return the seconds that each took, shortest first."""
    departed: dict[int, int] = {}
    for time, until in departures:
        for number in range(len(departed), until):
            departed[first_id + number] = time
    latencies = []
    for time, ids in arrivals:
        for id in ids:
            start = departed.pop(int(id), None)
            if start is None:
                raise LoadError(f"the answer {int(id)} was not asked for, or came twice")
            latencies.append((time - start) / 1e9)
    if departed:
        raise LoadError(f"{len(departed)} calls were not answered")
    return sorted(latencies)
