"""Spans and measured durations for OpenTelemetry, by its conventions for MCP.

Nothing is imported or measured unless the application has set a provider of traces or of metrics.
No exception of theirs reaches a request: it is logged, and the request goes on without a span.

A trace travels as `traceparent`, `tracestate` and `baggage`, in the `_meta` of a request
(2026-07-28, "OpenTelemetry trace context") and in HTTP headers. What is longer than its bound, or
is not text for a header, is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter, time_ns
from typing import Any, Final, Literal

from trio_mcp.loggers import logger_of
from trio_mcp.version import __version__
from trio_mcp.wire.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RESOURCE_NOT_FOUND,
    McpError,
)
from trio_mcp.wire.jsonrpc import Id, Json
from trio_mcp.wire.methods import CALL_TOOL, GET_PROMPT

logger = logger_of("trio_mcp.telemetry")

Side = Literal["client", "server"]

BOUNDS: Final = {"traceparent": 512, "tracestate": 8192, "baggage": 8192}
"""How a trace is named, in `_meta` and in HTTP headers, and the most characters of each."""
BUCKETS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Seconds: the histograms' bounds, by the conventions."""
CALLERS_MISTAKES: Final = frozenset(
    {PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, RESOURCE_NOT_FOUND}
)
"""The codes of errors that are not the server's fault."""
OTHER: Final = "_OTHER"
"""What stands for a method that is not known."""
PIPE: Final[Mapping[str, Any]] = {"network.transport": "pipe"}
HTTP: Final[Mapping[str, Any]] = {"network.transport": "tcp", "network.protocol.name": "http"}
_LONGEST_ID: Final = 128
_NOT_MEASURED: Final = frozenset(
    {"jsonrpc.request.id", "mcp.session.id", "mcp.resource.uri", "client.address"}
)
"""Attributes of spans that have any number of values, so that metrics must not have them."""
_TARGETS: Final = {CALL_TOOL.name: "gen_ai.tool.name", GET_PROMPT.name: "gen_ai.prompt.name"}


def is_configured() -> bool:
    """Whether the application has set a provider of traces, or of metrics."""
    return any(
        module in sys.modules and _is_set(getattr(sys.modules[module], getter)())
        for module, getter in (
            ("opentelemetry.trace", "get_tracer_provider"),
            ("opentelemetry.metrics", "get_meter_provider"),
        )
    )


def _is_set(provider: object) -> bool:
    """Whether a provider is more than what the API has until one is set."""
    return not type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metric"))


# -- what travels -------------------------------------------------------------------------


def carrier_of(source: Mapping[Any, Json]) -> dict[str, str]:
    """Return the trace that comes with a request, from its `_meta` or its headers."""
    found = {}
    for key, limit in BOUNDS.items():
        value = source.get(key) or source.get(key.encode())
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        if not isinstance(text, str) or len(text) > limit:
            continue
        if text.isascii() and text.isprintable():
            found[key] = text
    return found


def trace_of(headers: Mapping[Any, Json]) -> dict[str, str]:
    """Return the trace of an HTTP request, to be continued at its span, if it has one."""
    return {**carrier_of(headers), **current_trace()}


def current_trace() -> dict[str, str]:
    """Return the trace that the current task is in; nothing without one."""
    found: dict[str, str] = {}
    if is_configured():
        from opentelemetry import propagate

        with _harmless():
            propagate.inject(found)
    return found


def current_ids() -> dict[str, str]:
    """Return the ids of the current trace and span, for the log; nothing without a span."""
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace import format_span_id, format_trace_id, get_current_span

    found = get_current_span().get_span_context()
    if not found.is_valid:
        return {}
    return {
        "trace_id": format_trace_id(found.trace_id),
        "span_id": format_span_id(found.span_id),
    }


def continued(params: Mapping[str, Json]) -> dict[str, Json]:
    """Return the parameters of a request with the trace that the current task is in."""
    trace, meta = current_trace(), params.get("_meta", {})
    if not trace or not isinstance(meta, dict):
        return dict(params)
    kept = {key: value for key, value in meta.items() if key not in BOUNDS}
    return {**params, "_meta": {**kept, **trace}}


def meta_of(members: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the `_meta` of parameters, or of a description; nothing if there is none."""
    meta = members.get("_meta")
    return meta if isinstance(meta, dict) else {}


# -- what is measured ---------------------------------------------------------------------


def request_attributes(
    method: str, target: str | None, revision: str | None, id: Id, network: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the attributes of a request.

    Args:
        method: Its method; `OTHER` for an unknown one.
        target: The tool or the prompt that it names, if there is such a thing.
        revision: That of the protocol.
        id: Its id.
        network: What it travels by.
    """
    found: dict[str, Any] = {"mcp.method.name": method, **network}
    if revision is not None:
        found["mcp.protocol.version"] = revision
    if method == CALL_TOOL.name:
        found["gen_ai.operation.name"] = "execute_tool"
    if target is not None and method in _TARGETS:
        found[_TARGETS[method]] = target
    if id != "":
        found["jsonrpc.request.id"] = str(id)[:_LONGEST_ID]
    return found


class Outcome:  # plain, because to make a class of attrs takes longer than all of this module
    """How a request ends, as far as it is known."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.attributes: dict[str, Any] = {}
        self.failed = False

    def note(self, answer: object) -> None:
        """Take note of what answers a request: an error, or the members of a result."""
        if isinstance(answer, McpError):
            code = str(answer.code)
            self.attributes["rpc.response.status_code"] = code
            if self.side == "client" or answer.code not in CALLERS_MISTAKES:
                self.fail(code)
        elif isinstance(answer, Mapping) and answer.get("isError") is True:
            self.fail("tool_error")
        elif isinstance(answer, Exception):
            self.fail(type(answer).__qualname__)

    def fail(self, kind: str) -> None:
        self.failed = True
        self.attributes["error.type"] = kind


class Telemetry:
    """Spans and durations of the requests of one side. Make one where `is_configured`."""

    def __init__(self, side: Side) -> None:
        from opentelemetry import metrics, trace

        self.side = side
        self._kind = trace.SpanKind.SERVER if side == "server" else trace.SpanKind.CLIENT
        self._tracer = trace.get_tracer_provider().get_tracer("trio_mcp", __version__)
        self._meter = metrics.get_meter_provider().get_meter("trio_mcp", __version__)
        self._requests = self._histogram("operation", "How long requests take.")
        self._sessions = self._histogram("session", "How long sessions last.")

    def _histogram(self, of: str, description: str) -> Any:
        name = f"mcp.{self.side}.{of}.duration"
        return self._meter.create_histogram(
            name, "s", description, explicit_bucket_boundaries_advisory=BUCKETS
        )

    @contextmanager
    def request(
        self, attributes: dict[str, Any], meta: Mapping[str, Json], *, ago: float = 0.0
    ) -> Iterator[Outcome]:
        """Measure a request for the length of the block, in which its span is the current one.

        Args:
            attributes: As `request_attributes` returns them.
            meta: Its `_meta`, whose trace it is part of.
            ago: Seconds since it has begun.

        What the block raises is noted, unless the outcome is noted otherwise.
        """
        name = attributes["mcp.method.name"]
        target = attributes.get(_TARGETS.get(name, ""))
        name = name if target is None else f"{name} {target}"
        began, outcome = perf_counter() - ago, Outcome(self.side)
        with self.span(name, attributes, meta, ago) as span:
            try:
                yield outcome
            except Exception as error:
                outcome.note(error)
                raise
            finally:
                with _harmless():
                    _finish(span, outcome)
                    seconds = perf_counter() - began
                    self._requests.record(seconds, _measured({**attributes, **outcome.attributes}))

    @contextmanager
    def span(
        self, name: str, attributes: Mapping[str, Any], carrier: Mapping[Any, Json], ago: float = 0
    ) -> Iterator[Any]:
        """Make a span for the length of the block: in the trace that a request names, if any."""
        from opentelemetry import context, trace

        span = token = None
        with _harmless():
            parent, links = self._parent(carrier_of(carrier))
            started = time_ns() - int(ago * 1e9)
            span = self._tracer.start_span(
                name, parent, self._kind, attributes, links, start_time=started
            )
            token = context.attach(trace.set_span_in_context(span, parent))
        try:
            yield span or trace.INVALID_SPAN
        finally:
            with _harmless():
                if token is not None:
                    context.detach(token)
                if span is not None:
                    span.end()

    def _parent(self, carrier: dict[str, str]) -> tuple[Any, list[Any]]:
        """Return the context that a span is made in, and its links.

        That is the one that the request names. The current one is linked, or takes its place if
        both are of one trace and the request is still to be sent.
        """
        from opentelemetry import baggage, context, propagate, trace

        here = trace.get_current_span().get_span_context()
        ambient = context.get_current()
        if not carrier:
            return ambient, []
        given = propagate.extract(carrier, baggage.clear(ambient))
        there = trace.get_current_span(given).get_span_context()
        if not (there.is_valid and here.is_valid) or there.span_id == here.span_id:
            return given, []
        if self.side == "client" and there.trace_id == here.trace_id:
            return trace.set_span_in_context(trace.get_current_span(), given), []
        return given, [trace.Link(here)]

    def session_ended(
        self, seconds: float, attributes: Mapping[str, Any], error: Exception | None = None
    ) -> None:
        """Measure a session that has ended, perhaps with an error."""
        kind = {} if error is None else {"error.type": type(error).__qualname__}
        with _harmless():
            self._sessions.record(seconds, _measured({**attributes, **kind}))


def _measured(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in attributes.items() if key not in _NOT_MEASURED}


def _finish(span: Any, outcome: Outcome) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attributes(outcome.attributes)
    if outcome.failed:
        span.set_status(Status(StatusCode.ERROR))


@contextmanager
def _harmless() -> Iterator[None]:
    """Log what an exporter, or whatever else the application has set, raises in the block."""
    try:
        yield
    except Exception as error:
        logger.warning("OpenTelemetry failed: %s", type(error).__name__, exc_info=error)
