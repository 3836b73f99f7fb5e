"""Metrics in Prometheus' text format, through its official client library.

The names of tools, resources and prompts are labels, and only those that are registered, so no
client can make the number of series grow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import orjson
from attrs import define, field, frozen

from trio_mcp.layers.call_log import OUTCOMES

if TYPE_CHECKING:
    from trio_mcp.server.handlercall import HandlerCall

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"

_BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)
_BUCKETS_UP_TO: Final = (*map(str, _BUCKETS), "+Inf")
_LABELS: Final = ("kind", "name")
_ERRORS: Final = frozenset({"error", "exception", "timeout"})

_SERVER: Final = {
    "connections": ("gauge", "Connections that are open."),
    "accepted": ("counter", "Connections that were accepted."),
    "requests": ("counter", "HTTP requests that were served."),
    "bytes_in": ("counter", "Bytes that were read."),
    "bytes_out": ("counter", "Bytes that were written."),
}


class Metrics:
    """The metrics of one app.

    Raises:
        ImportError: The package `prometheus_client` is not installed.
    """

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Gauge

        self._registry = CollectorRegistry()
        self._ended: defaultdict[tuple[str, str], _Calls] = defaultdict(_Calls)
        self._refused: Counter[tuple[str, str, str]] = Counter()
        self._registry.register(_Collector(self._calls))
        self.in_flight = 0
        in_flight = Gauge("mcp_requests_in_flight", "Calls that run.", registry=self._registry)
        in_flight.set_function(lambda: self.in_flight)
        self._sessions = Gauge(
            "mcp_sessions", "Sessions of legacy clients.", registry=self._registry
        )

    def observe_call(self, call: HandlerCall) -> _Observation:
        return _Observation(self, call)

    def ended(self, call: HandlerCall, seconds: float) -> None:
        calls = self._ended[call.entry.kind, call.entry.name]
        calls.outcomes[call.outcome] += 1
        calls.buckets[bisect_left(_BUCKETS, seconds)] += 1
        calls.seconds += seconds

    def refused(self, kind: str, name: str | None, outcome: str) -> None:
        self._refused[kind, name or "", outcome] += 1

    def watch_sessions(self, count: Callable[[], int]) -> None:
        self._sessions.set_function(count)

    def watch_server(self, counters: Any) -> None:
        self._registry.register(_Collector(partial(_server_metrics, counters)))

    def _calls(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        requests = CounterMetricFamily(
            "mcp_requests", "Calls that ended, or were refused.", labels=(*_LABELS, "outcome")
        )
        errors = CounterMetricFamily(
            "mcp_errors", "Calls that failed, or were refused.", labels=_LABELS
        )
        durations = HistogramMetricFamily(
            "mcp_request_duration_seconds", "How long calls took.", labels=_LABELS
        )
        failed: Counter[tuple[str, str]] = Counter()
        for (kind, name), calls in self._ended.items():
            labels = (kind, name)
            failed[labels] = sum(calls.outcomes[error] for error in _ERRORS)
            buckets = zip(_BUCKETS_UP_TO, accumulate(calls.buckets), strict=True)
            durations.add_metric(labels, list(buckets), calls.seconds)
            for outcome, count in calls.outcomes.items():
                requests.add_metric((*labels, outcome), count)
        for (kind, name, outcome), count in self._refused.items():
            failed[kind, name] += count
            requests.add_metric((kind, name, outcome), count)
        for labels, count in failed.items():
            errors.add_metric(labels, count)
        yield from (requests, errors, durations)

    def text(self) -> bytes:
        from prometheus_client import generate_latest

        return generate_latest(self._registry)

    def snapshot(self) -> dict[str, Any]:
        """Return all metrics as JSON-able values, to be added up (`workers.totals`)."""
        found: dict[str, Any] = {}
        for family in self._registry.collect():
            samples: dict[str, dict[str, float]] = {}
            for sample in family.samples:
                labels = orjson.dumps(sample.labels).decode()
                samples.setdefault(sample.name, {})[labels] = sample.value
            found[family.name] = [family.type, family.documentation, samples]
        return found


def text_of(snapshot: dict[str, Any]) -> bytes:
    from prometheus_client import generate_latest

    return generate_latest(_Collector(partial(_metrics_in, snapshot)))


@frozen
class _Collector:
    """Metrics that are made when they are asked for, as `prometheus_client` wants them."""

    collect: Callable[[], Iterator[Any]]


def _metrics_in(snapshot: dict[str, Any]) -> Iterator[Any]:
    from prometheus_client.core import Metric

    for name, (kind, help_text, samples) in snapshot.items():
        metric = Metric(name, help_text, kind)
        for sample, values in samples.items():
            for labels, value in values.items():
                metric.add_sample(sample, orjson.loads(labels), value)
        yield metric


def _server_metrics(counters: Any) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    families: dict[str, Any] = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}
    for name, (kind, help_text) in _SERVER.items():
        yield families[kind](f"mcp_http_{name}", help_text, value=getattr(counters, name))


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
