"""Metrics in Prometheus' text format.

The names of tools, resources and prompts are labels, and only those that are registered, so no
client can make the number of series grow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from math import inf, isfinite, isnan
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from trio_mcp.counters import Counters
from trio_mcp.layers.call_log import OUTCOMES
from trio_mcp.loggers import logger_of

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from trio_mcp.server.handlercall import HandlerCall
    from trio_mcp.transports.http.workers.channel import Snapshot

logger = logger_of("trio_mcp.http")

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"

_BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)
_STORE_BUCKETS: Final = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
_ERRORS: Final = frozenset({"error", "exception", "timeout"})
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})

FAMILIES: Final = {
    "mcp_requests_total": ("counter", "Calls that ended, or were refused."),
    "mcp_errors_total": ("counter", "Calls that failed, or were refused."),
    "mcp_request_duration_seconds": ("histogram", "How long calls took."),
    "mcp_requests_in_flight": ("gauge", "Calls that run."),
    "mcp_requests_waiting": ("gauge", "Calls that wait until others have ended."),
    "mcp_sessions": ("gauge", "Sessions of legacy clients."),
    "mcp_logins_total": ("counter", "Logins that got so far."),
    "mcp_tasks_total": ("counter", "Tasks that got into a state."),
    "mcp_store_operation_duration_seconds": ("histogram", "How long the store took."),
    "mcp_http_responses_total": ("counter", "HTTP responses, by page and status."),
    "mcp_http_refusals_total": ("counter", "HTTP requests that were refused, by reason."),
    "mcp_http_connections": ("gauge", "Connections that are open."),
    "mcp_http_accepted_total": ("counter", "Connections that were accepted."),
    "mcp_http_requests_total": ("counter", "HTTP requests that were served."),
    "mcp_http_bytes_in_total": ("counter", "Bytes that were read."),
    "mcp_http_bytes_out_total": ("counter", "Bytes that were written."),
}
"""By name, the kind of each, and what it tells."""

_SERVER: Final = ("connections", "accepted", "requests", "bytes_in", "bytes_out")
_OTHER_KINDS: Final = {
    "unknown": "untyped",
    "info": "gauge",
    "stateset": "gauge",
    "gaugehistogram": "histogram",
}
"""The kinds that only OpenMetrics has, and what Prometheus' text format has instead."""

Sample = tuple[str, str, Mapping[str, str], float]
"""The name of its family, what follows that in its own name, its labels, and its value."""


@define(eq=False)
class _Durations:
    """A histogram, in plain numbers, as each call adds to one."""

    bounds: tuple[float, ...]
    buckets: list[int] = field(init=False)
    seconds: float = 0.0

    def __attrs_post_init__(self) -> None:
        self.buckets = [0] * (len(self.bounds) + 1)

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(self.bounds, seconds)] += 1
        self.seconds += seconds

    def samples(self, family: str, labels: Mapping[str, str]) -> Iterator[Sample]:
        up_to = (*map(str, self.bounds), "+Inf")
        for le, count in zip(up_to, accumulate(self.buckets), strict=True):
            yield family, "_bucket", {**labels, "le": le}, count
        yield family, "_count", labels, sum(self.buckets)
        yield family, "_sum", labels, self.seconds


@define(eq=False)
class _Calls:
    """What is counted of the calls of one handler."""

    outcomes: dict[str, int] = field(factory=lambda: dict.fromkeys(OUTCOMES, 0))
    durations: _Durations = field(factory=lambda: _Durations(_BUCKETS))


class Metrics:
    """The metrics of one app, and the `Observer` of its calls.

    Args:
        prometheus: A registry of prometheus_client, which has these metrics as well while the app
            is running, and whose own are shown with these.
    """

    def __init__(self, prometheus: CollectorRegistry | None = None) -> None:
        self._ended: defaultdict[tuple[str, str], _Calls] = defaultdict(_Calls)
        self._refused: Counter[tuple[str, str, str]] = Counter()
        self._store: defaultdict[tuple[str, str], _Durations] = defaultdict(
            lambda: _Durations(_STORE_BUCKETS)
        )
        self._responses: Counter[tuple[str, int]] = Counter()
        self._refusals: Counter[tuple[int, str]] = Counter()
        self.prometheus = prometheus
        self.in_flight = 0
        self.count_sessions: Callable[[], int] = int
        self.count_waiting: Callable[[], int] = int
        self.counters = Counters()
        """What extensions count."""
        self.logins: Mapping[str, int] = {}
        """How many logins got how far."""
        self.server: Any = None
        """The `HttpCounters` of the server below, if it is ours."""

    # -- what is counted ------------------------------------------------------------------

    def begin(self) -> float:
        self.in_flight += 1
        return perf_counter()

    def end(self, call: HandlerCall, began: float) -> None:
        self.in_flight -= 1
        self.measure_call(call, perf_counter() - began)

    def measure_call(self, call: HandlerCall, seconds: float) -> None:
        entry = call.entry
        calls = self._ended[entry.kind, entry.name]
        calls.outcomes[call.outcome] += 1
        calls.durations.add(seconds)

    def refused(self, kind: str, name: str | None, outcome: str) -> None:
        self._refused[kind, name or "", outcome] += 1

    def responded(self, page: str, status: int) -> None:
        self._responses[page, status] += 1

    def turned_away(self, status: int, reason: str) -> None:
        self._refusals[status, reason] += 1

    def measure_store(self, operation: str, outcome: str, seconds: float) -> None:
        self._store[operation, outcome].add(seconds)

    # -- what is shown --------------------------------------------------------------------

    def samples(self) -> Iterator[Sample]:
        """Yield all samples. Another thread may call this: the tables are copied first."""
        requests, errors, durations, *_ = FAMILIES
        failed: Counter[tuple[str, str]] = Counter()
        for (kind, name), calls in list(self._ended.items()):
            labels = {"kind": kind, "name": name}
            failed[kind, name] = sum(calls.outcomes[error] for error in _ERRORS)
            for outcome, count in calls.outcomes.items():
                yield requests, "", {**labels, "outcome": outcome}, count
            yield from calls.durations.samples(durations, labels)
        for (kind, name, outcome), count in list(self._refused.items()):
            failed[kind, name] += count
            yield requests, "", {"kind": kind, "name": name, "outcome": outcome}, count
        for (kind, name), count in failed.items():
            yield errors, "", {"kind": kind, "name": name}, count
        yield "mcp_requests_in_flight", "", {}, self.in_flight
        yield "mcp_requests_waiting", "", {}, self.count_waiting()
        yield "mcp_sessions", "", {}, self.count_sessions()
        for step, count in list(self.logins.items()):
            yield "mcp_logins_total", "", {"step": step}, count
        for name, labels, count in self.counters:
            yield f"mcp_{name}_total", "", labels, count
        for (page, status), count in list(self._responses.items()):
            yield "mcp_http_responses_total", "", {"page": page, "status": str(status)}, count
        for (status, reason), count in list(self._refusals.items()):
            yield "mcp_http_refusals_total", "", {"status": str(status), "reason": reason}, count
        for (operation, outcome), taken in list(self._store.items()):
            labels = {"operation": operation, "outcome": outcome}
            yield from taken.samples("mcp_store_operation_duration_seconds", labels)
        for name in _SERVER if self.server is not None else ():
            family = f"mcp_http_{name}" if name == "connections" else f"mcp_http_{name}_total"
            yield family, "", {}, getattr(self.server, name)

    def snapshot(self) -> Snapshot:
        """Return all metrics as JSON-able values, to be written, or added up by workers."""
        found: Snapshot = {}
        for family, suffix, labels, value in self.samples():
            kind, about = FAMILIES.get(family, ("counter", "Counted by an extension."))
            _add(found, family, kind, about, family + suffix, labels, value)
        if self.prometheus is not None:
            self._add_others(found, self.prometheus)
        return found

    def _add_others(self, found: Snapshot, registry: CollectorRegistry) -> None:
        ours = set(found)
        try:
            for metric in registry.collect():
                family = f"{metric.name}_total" if metric.type == "counter" else metric.name
                kind = _OTHER_KINDS.get(metric.type, metric.type)
                for sample in metric.samples if family not in ours else ():
                    if not sample.name.endswith("_created"):
                        about = metric.documentation, sample.name, sample.labels, sample.value
                        _add(found, family, kind, *about)
        except Exception:  # of a collector of the application's
            logger.exception("Metrics of the application cannot be collected")


def _add(
    found: Snapshot,
    family: str,
    kind: str,
    about: str,
    name: str,
    labels: Mapping[str, str],
    value: float,
) -> None:
    _, _, samples = found.setdefault(family, [kind, about, {}])
    pairs = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items())
    samples.setdefault(name, {})[f"{{{pairs}}}" if pairs else ""] = value


def summable(snapshot: Snapshot) -> Snapshot:
    """Return what of a process's metrics can be added to those of others."""
    return {
        family: [kind, about, {name: _finite(values) for name, values in samples.items()}]
        for family, (kind, about, samples) in snapshot.items()
        if family != "process_start_time_seconds"
    }


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    return {labels: value for labels, value in values.items() if isfinite(value)}


def text_of(snapshot: Snapshot) -> bytes:
    lines: list[str] = []
    for family, (kind, about, samples) in snapshot.items():
        lines += (f"# HELP {family} {about.translate(_HELP_ESCAPES)}", f"# TYPE {family} {kind}")
        for name, values in samples.items():
            lines += (f"{name}{labels} {_number(value)}" for labels, value in values.items())
    return "\n".join([*lines, ""]).encode(errors="backslashreplace")


def _number(value: float) -> str:
    if isnan(value):
        return "NaN"
    return {inf: "+Inf", -inf: "-Inf"}.get(value, str(float(value)))


def log_totals(name: str, snapshot: Snapshot) -> None:
    """Log the last counts, when `/metrics` is gone; the record has all metrics."""
    calls, failed = (
        sum(snapshot.get(family, ("", "", {}))[2].get(family, {}).values())
        for family in ("mcp_requests_total", "mcp_errors_total")
    )
    told = "%s has stopped, after %d calls, of which %d failed"
    logger.info(told, name, calls, failed, extra={"metrics": snapshot})
