"""Metrics in Prometheus' text format.

The names of tools, resources and prompts are labels, and only those that are registered, so no
client can make the number of series grow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import accumulate
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from trio_mcp.layers.call_log import OUTCOMES
from trio_mcp.loggers import logger_of

if TYPE_CHECKING:
    from trio_mcp.server.handlercall import HandlerCall
    from trio_mcp.transports.http.workers.channel import Snapshot

logger = logger_of("trio_mcp.http")

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"

_BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)
_BUCKETS_UP_TO: Final = (*map(str, _BUCKETS), "+Inf")
_ERRORS: Final = frozenset({"error", "exception", "timeout"})
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

_FAMILIES: Final = {
    "mcp_requests_total": ("counter", "Calls that ended, or were refused."),
    "mcp_errors_total": ("counter", "Calls that failed, or were refused."),
    "mcp_request_duration_seconds": ("histogram", "How long calls took."),
    "mcp_requests_in_flight": ("gauge", "Calls that run."),
    "mcp_sessions": ("gauge", "Sessions of legacy clients."),
    "mcp_http_connections": ("gauge", "Connections that are open."),
    "mcp_http_accepted_total": ("counter", "Connections that were accepted."),
    "mcp_http_requests_total": ("counter", "HTTP requests that were served."),
    "mcp_http_bytes_in_total": ("counter", "Bytes that were read."),
    "mcp_http_bytes_out_total": ("counter", "Bytes that were written."),
}

_SERVER: Final = [name for name in _FAMILIES if name.startswith("mcp_http_")]

Sample = tuple[str, str, dict[str, str], float]
"""The name of its family, what follows that in its own name, its labels, and its value."""


class Metrics:
    """The metrics of one app."""

    def __init__(self) -> None:
        self._ended: defaultdict[tuple[str, str], _Calls] = defaultdict(_Calls)
        self._refused: Counter[tuple[str, str, str]] = Counter()
        self.in_flight = 0
        self.count_sessions: Callable[[], int] = int
        self.server: Any = None
        """The `HttpCounters` of the server below, if it is ours."""

    def observe_call(self, call: HandlerCall) -> _Observation:
        return _Observation(self, call)

    def ended(self, call: HandlerCall, seconds: float) -> None:
        calls = self._ended[call.entry.kind, call.entry.name]
        calls.outcomes[call.outcome] += 1
        calls.buckets[bisect_left(_BUCKETS, seconds)] += 1
        calls.seconds += seconds

    def refused(self, kind: str, name: str | None, outcome: str) -> None:
        self._refused[kind, name or "", outcome] += 1

    def _samples(self) -> Iterator[Sample]:
        requests, errors, durations, *_ = _FAMILIES
        failed: Counter[tuple[str, str]] = Counter()
        for (kind, name), calls in self._ended.items():
            labels = {"kind": kind, "name": name}
            failed[kind, name] = sum(calls.outcomes[error] for error in _ERRORS)
            for outcome, count in calls.outcomes.items():
                yield requests, "", {**labels, "outcome": outcome}, count
            for le, count in zip(_BUCKETS_UP_TO, accumulate(calls.buckets), strict=True):
                yield durations, "_bucket", {**labels, "le": le}, count
            yield durations, "_count", labels, sum(calls.buckets)
            yield durations, "_sum", labels, calls.seconds
        for (kind, name, outcome), count in self._refused.items():
            failed[kind, name] += count
            yield requests, "", {"kind": kind, "name": name, "outcome": outcome}, count
        for (kind, name), count in failed.items():
            yield errors, "", {"kind": kind, "name": name}, count
        yield "mcp_requests_in_flight", "", {}, self.in_flight
        yield "mcp_sessions", "", {}, self.count_sessions()
        for name in _SERVER if self.server is not None else ():
            counter = name.removeprefix("mcp_http_").removesuffix("_total")
            yield name, "", {}, getattr(self.server, counter)

    def snapshot(self) -> Snapshot:
        """Return all metrics as JSON-able values, to be written, or added up (`workers.totals`)."""
        found: Snapshot = {}
        for family, suffix, labels, value in self._samples():
            _, _, samples = found.setdefault(family, [*_FAMILIES[family], {}])
            pairs = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items())
            samples.setdefault(family + suffix, {})[f"{{{pairs}}}" if pairs else ""] = value
        return found


def text_of(snapshot: Snapshot) -> bytes:
    lines: list[str] = []
    for family, (kind, help_text, samples) in snapshot.items():
        lines += (f"# HELP {family} {help_text}", f"# TYPE {family} {kind}")
        for name, values in samples.items():
            lines += (f"{name}{labels} {float(value)}" for labels, value in values.items())
    return "\n".join([*lines, ""]).encode(errors="backslashreplace")


def log_totals(name: str, snapshot: Snapshot) -> None:
    """Log the last counts, when `/metrics` is gone; the record has all metrics."""
    calls, failed = (
        sum(snapshot.get(family, ("", "", {}))[2].get(family, {}).values())
        for family in ("mcp_requests_total", "mcp_errors_total")
    )
    told = "%s has stopped, after %d calls, of which %d failed"
    logger.info(told, name, calls, failed, extra={"metrics": snapshot})


class _Observation:
    """One call, while it runs."""

    __slots__ = ("_began", "_call", "_metrics")

    def __init__(self, metrics: Metrics, call: HandlerCall) -> None:
        self._metrics = metrics
        self._call = call

    def __enter__(self) -> None:
        self._metrics.in_flight += 1
        self._began = perf_counter()

    def __exit__(self, *_: object) -> None:
        self._metrics.in_flight -= 1
        self._metrics.ended(self._call, perf_counter() - self._began)


@define(eq=False)
class _Calls:
    """What is counted of the calls of one handler: by plain numbers, as each call does it."""

    outcomes: dict[str, int] = field(factory=lambda: dict.fromkeys(OUTCOMES, 0))
    buckets: list[int] = field(factory=lambda: [0] * len(_BUCKETS_UP_TO))
    seconds: float = 0.0
