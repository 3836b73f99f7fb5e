"""Our metrics in a registry of prometheus_client, beside the application's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from trio_mcp.transports.http.metrics import FAMILIES, Metrics


class _Ours(Collector):
    """Collects the metrics of an app, in whichever thread."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> Iterable[Metric]:
        """Name all families, so that a registry refuses another collector of the same."""
        return [_empty(name) for name in FAMILIES]

    def collect(self) -> Iterable[Metric]:
        found: dict[str, Metric] = {}
        for family, suffix, labels, value in self._metrics.samples():
            metric = found.get(family) or found.setdefault(family, _empty(family))
            metric.add_sample(family + suffix, dict(labels), value)
        return found.values()


def _empty(family: str) -> Metric:
    kind, about = FAMILIES.get(family, ("counter", "Counted by an extension."))
    return Metric(family.removesuffix("_total"), about, kind)


@contextmanager
def registered(metrics: Metrics, registry: CollectorRegistry) -> Iterator[None]:
    """Have a registry collect the metrics of an app, for the length of the block.

    Raises:
        ValueError: It has metrics of these names already: those of another app.
    """
    ours = _Ours(metrics)
    try:
        registry.register(ours)
    except ValueError as error:
        why = "prometheus: the registry has the metrics of another app; give it one of its own"
        raise ValueError(why) from error
    try:
        yield
    finally:
        registry.unregister(ours)
