"""Metrics in Prometheus' text format, through its official client library.

The names of tools, resources and prompts are labels, and only those that are registered, so no
client can make the number of series grow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import orjson

from trio_mcp.server.handlercall import OUTCOMES

if TYPE_CHECKING:
    from trio_mcp.server.handlercall import HandlerCall

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"

_BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)
_ERRORS: Final = frozenset({"error", "exception", "timeout"})

_SERVER: Final = {
    "connections": ("gauge", "Connections that are open."),
    "accepted": ("counter", "Connections that were accepted."),
    "requests": ("counter", "HTTP requests that were served."),
    "bytes_in": ("counter", "Bytes that were read."),
    "bytes_out": ("counter", "Bytes that were written."),
}
"""What the embedded server counts."""


class Metrics:
    """The metrics of one app.

    Raises:
        ImportError: The package `prometheus_client` is not installed.
    """

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._registry = CollectorRegistry()
        labels = ("kind", "name")
        self._requests = Counter(
            "mcp_requests",
            "Calls that ended, or were refused.",
            (*labels, "outcome"),
            registry=self._registry,
        )
        self._errors = Counter(
            "mcp_errors", "Calls that failed, or were refused.", labels, registry=self._registry
        )
        self._duration = Histogram(
            "mcp_request_duration_seconds",
            "How long calls took.",
            labels,
            registry=self._registry,
            buckets=_BUCKETS,
        )
        self._series: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self.in_flight = 0
        """Calls that run."""
        in_flight = Gauge("mcp_requests_in_flight", "Calls that run.", registry=self._registry)
        in_flight.set_function(lambda: self.in_flight)
        self._sessions = Gauge(
            "mcp_sessions", "Sessions of legacy clients.", registry=self._registry
        )

    def observe_call(self, call: HandlerCall) -> _Observation:
        """Count a call and measure it, in a `with` statement."""
        return _Observation(self, call)

    def ended(self, call: HandlerCall, seconds: float) -> None:
        """Count a call that has ended."""
        handler = call.handler
        series = self._series.get(handler)
        if series is None:
            labels = (call.kind.lower(), handler.name)
            series = self._series[handler] = (
                self._duration.labels(*labels),
                {each: self._requests.labels(*labels, each) for each in OUTCOMES},
                self._errors.labels(*labels),
            )
        duration, by_outcome, errors = series
        duration.observe(seconds)
        by_outcome[call.outcome].inc()
        if call.outcome in _ERRORS:
            errors.inc()

    def refused(self, kind: str, name: str | None, outcome: str) -> None:
        """Count a call that was refused; without a name if there is no such thing."""
        labels = (kind.lower(), name or "")
        self._requests.labels(*labels, outcome).inc()
        self._errors.labels(*labels).inc()

    def watch_sessions(self, count: Callable[[], int]) -> None:
        """Say how the number of sessions is found."""
        self._sessions.set_function(count)

    def watch_server(self, counters: Any) -> None:
        """Add what the embedded server counts."""
        self._registry.register(_ServerCollector(counters))

    def text(self) -> bytes:
        """All metrics, as they are now."""
        from prometheus_client import generate_latest

        return generate_latest(self._registry)

    def snapshot(self) -> dict[str, Any]:
        """The same as JSON-able values, to be added up (`workers.totals`)."""
        found: dict[str, Any] = {}
        for family in self._registry.collect():
            samples: dict[str, dict[str, float]] = {}
            for each in family.samples:
                labels = orjson.dumps(each.labels).decode()
                samples.setdefault(each.name, {})[labels] = each.value
            found[family.name] = [family.type, family.documentation, samples]
        return found


def text_of(snapshot: dict[str, Any]) -> bytes:
    """What a snapshot holds, as text."""
    from prometheus_client import generate_latest

    return generate_latest(_SnapshotCollector(snapshot))


class _SnapshotCollector:
    """Metrics that were collected before."""

    def __init__(self, snapshot: dict[str, Any]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Any]:
        """Yield them."""
        from prometheus_client.core import Metric

        for name, (kind, help_text, samples) in self._snapshot.items():
            metric = Metric(name, help_text, kind)
            for sample, values in samples.items():
                for labels, value in values.items():
                    metric.add_sample(sample, orjson.loads(labels), value)
            yield metric


class _Observation:
    """One call, while it runs."""

    __slots__ = ("_began", "_call", "_metrics")

    def __init__(self, metrics: Metrics, call: HandlerCall) -> None:
        self._metrics = metrics
        self._call = call

    def __enter__(self) -> None:
        self._metrics.in_flight += 1
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._metrics.in_flight -= 1
        self._metrics.ended(self._call, time.perf_counter() - self._began)


class _ServerCollector:
    """Reads the server's counters when the metrics are asked for."""

    def __init__(self, counters: Any) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Any]:
        """Yield the counters as metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        families: dict[str, Any] = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}
        for name, (kind, help_text) in _SERVER.items():
            value = getattr(self._counters, name)
            yield families[kind](f"mcp_http_{name}", help_text, value=value)
