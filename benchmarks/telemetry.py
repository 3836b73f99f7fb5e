"""What telemetry costs a call: `python -m benchmarks.telemetry`.

A client calls an echo tool within one process, so a call has all of both sides and no system call:
the worst case. The ways take turns, each in a fresh process, and are compared with that in which
OpenTelemetry cannot be imported. What is compared is processor time, that of exporters included.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, Final

import trio

from benchmarks.records import show

_WARM_UP: Final = 500


def _absent() -> None:
    sys.modules["opentelemetry"] = None  # type: ignore[assignment]


def _loaded() -> None:
    import opentelemetry.metrics
    import opentelemetry.trace  # noqa: F401


def _traces(share: float = 1.0) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

    class Dropping(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider(sampler=ParentBasedTraceIdRatio(share))
    provider.add_span_processor(BatchSpanProcessor(Dropping()))
    trace.set_tracer_provider(provider)


def _metrics() -> None:
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))


def _both() -> None:
    _traces()
    _metrics()


WAYS: Final[dict[str, Callable[[], None]]] = {
    "not installed": _absent,
    "loaded, no provider": _loaded,
    "spans, 1 % sampled": lambda: _traces(0.01),
    "spans": _traces,
    "durations": _metrics,
    "spans and durations": _both,
}


async def _calls(count: int) -> float:
    """Return the seconds of processor time that a call takes."""
    from trio_mcp import Registry, connect

    registry = Registry("echo")

    @registry.tool
    async def echo(text: str) -> str:
        return text

    async with connect(registry) as client:
        for _ in range(_WARM_UP):
            await client.call_tool("echo", {"text": "hi"})
        began = process_time()
        for _ in range(count):
            await client.call_tool("echo", {"text": "hi"})
        return (process_time() - began) / count


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks.telemetry", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--way", choices=WAYS, help="measure this one here, and print its seconds")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep the figures there")
    options = parser.parse_args()
    if options.way is not None:
        WAYS[options.way]()
        print(trio.run(_calls, options.calls))
        return
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way, seconds in taken.items():
            command = [sys.executable, "-m", "benchmarks.telemetry", "--way", way]
            done = subprocess.run(
                [*command, "--calls", str(options.calls)],
                check=True,
                capture_output=True,
                text=True,
            )
            seconds.append(float(done.stdout))
    least = taken["not installed"]
    rows = []
    for way, seconds in taken.items():
        ratios = [each / first for each, first in zip(seconds, least, strict=True)]
        rows.append([way, f"{median(seconds) * 1e6:.0f}", f"{median(ratios):.2f}"])
    show(["OpenTelemetry", "CPU µs for a call", "× not installed"], rows, options.record)


if __name__ == "__main__":
    main()
