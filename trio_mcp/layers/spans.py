"""OpenTelemetry spans, for applications that use it.

Nothing is imported here that the application has not imported itself: where there is no
OpenTelemetry there is no cost. A trace that the caller began is continued, from the `_meta` of its
request (2026-07-28, "OpenTelemetry trace context") or from HTTP headers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from trio_mcp.wire.jsonrpc import Json

TRACE_KEYS: Final = ("traceparent", "tracestate", "baggage")
"""How a trace is named, in `_meta` and in HTTP headers."""
_GOOD: Final = frozenset({"ok", "input required", "cancelled"})


def is_traced() -> bool:
    """Whether the application has loaded OpenTelemetry."""
    return "opentelemetry.trace" in sys.modules


def carrier_of(source: Mapping[Any, Json]) -> dict[str, str]:
    """The trace context that comes with a request, from its `_meta` or its headers."""
    found = {key: source.get(key) or source.get(key.encode()) for key in TRACE_KEYS}
    return {
        key: each.decode("latin-1") if isinstance(each, bytes) else each
        for key, each in found.items()
        if isinstance(each, str | bytes)
    }


def trace_of(headers: Mapping[Any, Json]) -> dict[str, str]:
    """The trace of an HTTP request, to be continued at its span, if it has one."""
    spans: dict[str, str] = {}
    if is_traced():
        from opentelemetry import propagate

        propagate.inject(spans)
    return {**carrier_of(headers), **carrier_of(spans)}


@contextmanager
def span(name: str, carrier: Mapping[str, str], attributes: dict[str, Any]) -> Iterator[Any]:
    """Make a span that lasts for the block; in the caller's trace if it gave one."""
    from opentelemetry import context, propagate, trace

    tracer = trace.get_tracer("trio_mcp")
    parent = propagate.extract(carrier) if carrier else context.get_current()
    with tracer.start_as_current_span(
        name, context=parent, kind=trace.SpanKind.SERVER, attributes=attributes
    ) as current:
        yield current


@contextmanager
def observe_call(call: Any) -> Iterator[None]:
    """Make a span for a `HandlerCall`. It tells names and outcomes, never arguments or results."""
    from opentelemetry.trace import Status, StatusCode

    context = call.context
    attributes = {
        "rpc.system": "jsonrpc",
        "mcp.method.name": context.method,
        "mcp.protocol.version": context.revision.name,
        f"mcp.{call.entry.kind}.name": call.entry.name,
        "jsonrpc.request.id": str(context.id),
    }
    name = f"{context.method} {call.entry.name}"
    with span(name, carrier_of(context.meta or {}), attributes) as current:
        yield
        current.set_attribute("mcp.outcome", call.outcome)
        if call.outcome not in _GOOD:
            current.set_status(Status(StatusCode.ERROR, call.outcome))
