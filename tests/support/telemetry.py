"""What an application collects with OpenTelemetry, for the length of a test."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define, field
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


@define
class Telemetry:
    """What was collected."""

    exporter: InMemorySpanExporter = field(factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(factory=InMemoryMetricReader)

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended, in the order of their beginning."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str, kind: str) -> ReadableSpan:
        """The only span of that name and kind."""
        (span,) = (each for each in self.spans if (each.name, each.kind.name) == (name, kind))
        return span

    def points(self, name: str) -> list[dict[str, Any]]:
        """The attributes of all series of a metric."""
        data: Any = self.reader.get_metrics_data()
        return [
            dict(point.attributes)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


def collecting(monkeypatch: pytest.MonkeyPatch, *processors: SpanProcessor) -> Telemetry:
    """Set providers of traces and metrics for the length of a test; OpenTelemetry has no way to."""
    found = Telemetry()
    tracing = TracerProvider()
    for processor in processors or [SimpleSpanProcessor(found.exporter)]:
        tracing.add_span_processor(processor)
    metering = MeterProvider([found.reader])
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: tracing)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: metering)
    return found


def trace_id(span: ReadableSpan) -> str:
    return format(span.context.trace_id, "032x")


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def span_id(span: Any) -> str:
    return format(span.span_id, "016x")


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    """Whether a span is made directly within another one."""
    return span.parent is not None and span.parent.span_id == parent.context.span_id
