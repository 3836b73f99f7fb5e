"""Spans and durations for OpenTelemetry: what they tell of requests, and what cannot hurt them."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from tests.docs.test_readme import table
from tests.support.processes import ROOT
from tests.support.telemetry import Telemetry, attributes, collecting, is_child, span_id, trace_id
from trio_mcp import (
    Client,
    Context,
    Handlers,
    HttpOptions,
    McpError,
    Registry,
    ToolError,
    connect,
    serve_http,
    serve_stream,
)

pytestmark = pytest.mark.requirement("R1")

LIMIT = 60
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture
def telemetry(monkeypatch: pytest.MonkeyPatch) -> Telemetry:
    return collecting(monkeypatch)


def shop(seen: list[Any] | None = None) -> Registry:
    registry = Registry("shop")

    @registry.tool
    async def buy(item: str, context: Context) -> str:
        if seen is not None:
            seen.append((trace.get_current_span(), baggage.get_all(), context.meta or {}))
        return f"bought {item}"

    @registry.tool
    async def fail() -> str:
        raise ToolError("sold out")

    @registry.prompt
    async def order(item: str) -> str:
        return item

    @registry.resource("stock://{item}")
    async def stock(item: str) -> str:
        raise McpError(-32603, "the shelf is broken")

    return registry


async def plain() -> None:
    """Do nothing."""


@asynccontextmanager
async def over_http(registry: Registry, **options: Any) -> AsyncIterator[Client]:
    async with trio.open_nursery() as nursery:
        handle = await nursery.start(partial(serve_http, registry, port=0))
        async with connect(handle.url, **options) as client:
            yield client
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def over_tcp(registry: Registry, **options: Any) -> AsyncIterator[Client]:
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(
            partial(trio.serve_tcp, partial(serve_stream, registry), 0, host="127.0.0.1")
        )
        stream = await trio.open_tcp_stream(*listeners[0].socket.getsockname()[:2])
        async with connect(stream, **options) as client:
            yield client
        nursery.cancel_scope.cancel()


TRANSPORTS: dict[str, Any] = {"http": over_http, "tcp": over_tcp, "in process": connect}
ERAS = ["modern", "legacy"]


# -- what spans tell ----------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_both_sides_make_a_span_and_the_servers_is_within_the_clients(
    telemetry: Telemetry, transport: str, era: Any
) -> None:
    with trio.fail_after(LIMIT):
        async with TRANSPORTS[transport](shop(), era=era) as client:
            await client.call_tool("buy", {"item": "s3cret"})
    called = telemetry.named("tools/call buy", "CLIENT")
    served = telemetry.named("tools/call buy", "SERVER")
    assert is_child(served, called)
    network = {
        "http": {"network.transport": "tcp", "network.protocol.name": "http"},
        "tcp": {"network.transport": "tcp"},
        "in process": {},
    }[transport]
    for span in (called, served):
        about = attributes(span)
        for key in ("jsonrpc.request.id", "server.address", "server.port", "client.address"):
            about.pop(key, None)
        assert (about.pop("mcp.session.id", None) is not None) == (
            span is served and (era == "legacy" or transport != "http")
        )
        assert about == {
            "mcp.method.name": "tools/call",
            "mcp.protocol.version": "2026-07-28" if era == "modern" else "2025-11-25",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "buy",
            **network,
        }
        assert span.status.is_unset
    assert attributes(called)["jsonrpc.request.id"] == attributes(served)["jsonrpc.request.id"]
    assert "s3cret" not in json.dumps([json.loads(each.to_json()) for each in telemetry.spans])


@pytest.mark.parametrize("era", ERAS)
async def test_every_request_has_a_span_the_handshake_and_lists_as_well(
    telemetry: Telemetry, era: Any
) -> None:
    async with connect(shop(), era=era) as client:
        await client.list_prompts()
        await client.get_prompt("order", {"item": "lamp"})
    first = "server/discover" if era == "modern" else "initialize"
    names = [first, "tools/list", "prompts/list", "prompts/get order"]
    assert [span.name for span in telemetry.spans if span.kind.name == "SERVER"] == names
    for name in names:
        assert is_child(telemetry.named(name, "SERVER"), telemetry.named(name, "CLIENT"))
    assert (
        attributes(telemetry.named("prompts/get order", "SERVER"))["gen_ai.prompt.name"] == "order"
    )


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_errors_are_those_of_whom_they_are(telemetry: Telemetry, transport: str) -> None:
    """A server is not to blame for what its caller gets wrong."""
    async with TRANSPORTS[transport](shop()) as client:
        assert not (await client.call_tool("fail")).success
        for method, params in [
            ("tools/call", {"name": "s3cret"}),
            ("no/such/method", {}),
            ("resources/read", {"uri": "stock://s3cret"}),
        ]:
            with pytest.raises(McpError):
                await client.request(method, params)
    seen = {
        (span.name, span.kind.name): (
            attributes(span).get("error.type"),
            attributes(span).get("rpc.response.status_code"),
            span.status.is_ok or span.status.is_unset,
        )
        for span in telemetry.spans
        if attributes(span).get("mcp.method.name")
    }
    assert seen["tools/call fail", "CLIENT"] == ("tool_error", None, False)
    assert seen["tools/call fail", "SERVER"] == ("tool_error", None, False)
    assert seen["tools/call", "CLIENT"] == ("-32602", "-32602", False)
    assert seen["tools/call", "SERVER"] == (None, "-32602", True)
    assert seen["_OTHER", "CLIENT"] == ("-32601", "-32601", False)
    assert seen["_OTHER", "SERVER"] == (None, "-32601", True)
    assert seen["resources/read", "CLIENT"] == ("-32603", "-32603", False)
    assert seen["resources/read", "SERVER"] == ("-32603", "-32603", False)
    served = telemetry.named("resources/read", "SERVER")
    assert attributes(served)["mcp.resource.uri"] == "stock://{item}"
    assert "s3cret" not in json.dumps([json.loads(each.to_json()) for each in telemetry.spans])


async def test_names_that_are_not_known_are_in_no_metric(telemetry: Telemetry) -> None:
    async with over_http(shop()) as client:
        await client.call_tool("buy", {"item": "lamp"})
        for number in range(20):
            with pytest.raises(McpError):
                await client.request("tools/call", {"name": f"s3cret-{number}"})
            with pytest.raises(McpError):
                await client.request(f"s3cret/{number}", {})
    for side in ("client", "server"):
        points = telemetry.points(f"mcp.{side}.operation.duration")
        assert len(points) == 5  # discovery, the list, the tool, no tool, no method
        assert "s3cret" not in str(points)
        assert not [each for each in points if "jsonrpc.request.id" in each]


@pytest.mark.parametrize("era", ERAS)
async def test_sessions_are_measured(telemetry: Telemetry, era: Any) -> None:
    with trio.fail_after(LIMIT):
        async with over_http(shop(), era=era):
            pass
    (client,) = telemetry.points("mcp.client.session.duration")
    assert {"mcp.protocol.version", "server.port"} <= client.keys()
    server = telemetry.points("mcp.server.session.duration")
    assert len(server) == (era == "legacy")  # modern requests are parts of no session


async def test_rounds_with_answers_are_one_request(telemetry: Telemetry) -> None:
    async def yes(question: Any) -> dict[str, Any]:
        return {"action": "accept", "content": {"value": True}}

    registry = Registry("asking")

    @registry.tool
    async def sure(context: Context) -> bool:
        return (await context.elicit("Sure?", bool)).content is True

    handlers = Handlers(elicitation=yes)
    async with connect(registry, era="modern", handlers=handlers) as client:
        assert await client.call_tool("sure", returns=bool)
    asked = telemetry.named("tools/call sure", "CLIENT")
    served = [span for span in telemetry.spans if span.name == "tools/call sure"][1:]
    assert len(served) == 2
    assert all(is_child(span, asked) for span in served)
    assert all(span.status.is_unset for span in served)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_what_the_server_asks_is_a_part_of_the_call(
    telemetry: Telemetry, transport: str, era: Any
) -> None:
    """In a legacy revision it is a request of the server's; later it is a part of a result."""

    async def say(params: dict[str, Any]) -> dict[str, Any]:
        seen.append(trace.get_current_span().get_span_context())
        return {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}

    seen: list[Any] = []
    registry = Registry("asking")

    @registry.tool
    async def think(context: Context) -> str:
        return str((await context.sample("Say hi", max_tokens=5)).content)

    with trio.fail_after(LIMIT):
        async with TRANSPORTS[transport](
            registry, era=era, handlers=Handlers(sampling=say)
        ) as client:
            assert (await client.call_tool("think")).success
    answered = telemetry.named("sampling/createMessage", "SERVER")
    assert [each.span_id for each in seen] == [answered.context.span_id]
    called = [each for each in telemetry.spans if each.name == "tools/call think"]
    if era == "modern":
        assert is_child(answered, called[0])
    else:
        asked = telemetry.named("sampling/createMessage", "CLIENT")
        assert is_child(answered, asked)
        assert is_child(asked, called[1])


async def test_middleware_is_within_the_servers_span(telemetry: Telemetry) -> None:
    from trio_mcp.middleware import McpRequest

    async def note(request: McpRequest, call_next: Any) -> Any:
        seen.append(trace.get_current_span().get_span_context())
        return await call_next(request)

    seen: list[Any] = []
    registry = Registry("shop", middleware=[note])
    registry.add_tool(plain)
    async with connect(registry) as client:
        await client.request("tools/list")
    served = [each for each in telemetry.spans if each.kind.name == "SERVER"]
    assert [each.span_id for each in seen] == [each.context.span_id for each in served]


async def test_a_plain_function_in_its_thread_is_within_the_span_as_well(
    telemetry: Telemetry,
) -> None:
    seen: list[Any] = []
    registry = Registry("shop")

    @registry.tool
    def look() -> None:
        seen.append((trace.get_current_span().get_span_context().span_id, threading.get_ident()))

    async with connect(registry) as client:
        await client.call_tool("look")
    served = telemetry.named("tools/call look", "SERVER")
    ((current, thread),) = seen
    assert current == served.context.span_id
    assert thread != threading.get_ident()


async def test_the_reference_has_every_attribute(telemetry: Telemetry) -> None:
    for transport in TRANSPORTS.values():
        for era in ERAS:
            async with transport(shop(), era=era) as client:
                await client.call_tool("buy", {"item": "lamp"})
                await client.get_prompt("order", {"item": "lamp"})
                with pytest.raises(McpError):
                    await client.read_resource("stock://lamp")
    used = {key for span in telemetry.spans for key in attributes(span)}
    rows = table(ROOT / "docs" / "reference" / "telemetry.md", "Attribute")
    told = {name: of for names, _, of in rows for name in re.findall(r"`([\w.]+)`", names)}
    assert told.keys() == used
    measured = {
        key
        for side in ("client", "server")
        for of in ("operation", "session")
        for point in telemetry.points(f"mcp.{side}.{of}.duration")
        for key in point
    }
    assert {name for name, of in told.items() if of == "spans, metrics"} == measured


# -- how a trace travels ------------------------------------------------------------------


async def test_a_trace_that_the_caller_began_is_continued(telemetry: Telemetry) -> None:
    """The span of the HTTP request is of its headers, and linked to that of the message."""
    seen: list[Any] = []
    async with over_http(shop(seen), http=HttpOptions(headers={"traceparent": PARENT})) as client:
        telemetry.exporter.clear()
        meta = {"traceparent": PARENT, "baggage": "user=ada", "mine": 1}
        await client.request(
            "tools/call", {"name": "buy", "arguments": {"item": "lamp"}, "_meta": meta}
        )
    called, served = (telemetry.named("tools/call buy", kind) for kind in ("CLIENT", "SERVER"))
    posted = telemetry.named("POST /mcp", "SERVER")
    assert {trace_id(span) for span in (called, served, posted)} == {TRACE}
    assert span_id(called.parent) == SPAN
    assert is_child(served, called)
    assert is_child(posted, called)
    assert [link.context.span_id for link in served.links] == [posted.context.span_id]
    ((current, carried, got),) = seen
    assert current.get_span_context() == served.context
    assert carried == {"user": "ada"}
    assert got["traceparent"].split("-")[2] == span_id(called.context)
    assert (got["baggage"], got["mine"]) == ("user=ada", 1)


async def test_headers_alone_carry_a_trace(telemetry: Telemetry) -> None:
    """As those of a client that knows nothing of `_meta` do."""
    import httpx2

    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with trio.open_nursery() as nursery:
        handle = await nursery.start(partial(serve_http, shop(), port=0))
        async with httpx2.AsyncClient() as http:
            response = await http.post(handle.url, json=body, headers={"traceparent": PARENT})
        nursery.cancel_scope.cancel()
    assert response.status_code == 200
    posted, served = telemetry.named("POST /mcp", "SERVER"), telemetry.named("ping", "SERVER")
    assert span_id(posted.parent) == SPAN
    assert is_child(served, posted)
    assert served.links == ()


MEGABYTE = 1_000_000
NONSENSE: dict[str, Any] = {
    "no trace": "nonsense",
    "a megabyte": "00-" + MEGABYTE * "a" + "-b7ad6b7169203331-01",
    "a megabyte of dashes": MEGABYTE * "-",
    "lines": f"{PARENT}\r\nx-evil: 1",
    "zeros": f"00-{32 * '0'}-{16 * '0'}-01",
    "a number": 5,
    "a list": [PARENT],
    "half a character": "\ud800",
}


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_nonsense_begins_a_trace_of_its_own(
    telemetry: Telemetry, transport: str, nonsense: Any
) -> None:
    seen: list[Any] = []
    if nonsense == "\ud800":
        nonsense = "\u2028"  # the other cannot be sent at all
    meta = {"traceparent": nonsense, "tracestate": MEGABYTE * "a", "baggage": nonsense}
    with trio.fail_after(LIMIT):
        async with TRANSPORTS[transport](shop(seen)) as client:
            telemetry.exporter.clear()
            await client.request(
                "tools/call", {"name": "buy", "arguments": {"item": "lamp"}, "_meta": meta}
            )
    called, served = (telemetry.named("tools/call buy", kind) for kind in ("CLIENT", "SERVER"))
    assert called.parent is None
    assert is_child(served, called)
    assert len(str(seen[0][2])) < 1000


async def test_baggage_is_bounded(telemetry: Telemetry) -> None:
    """By the 8,192 bytes that W3C has every party pass on."""
    seen: list[Any] = []
    async with connect(shop(seen)) as client:
        for size in (8_001, 8_201, MEGABYTE):
            half = f"{(size - 5) // 2 * 'b'}"
            meta = {"traceparent": PARENT, "baggage": f"a={half},b={half}"}
            params = {"name": "buy", "arguments": {"item": "lamp"}, "_meta": meta}
            await client.request("tools/call", params)
    assert [len(str(carried.get("a", ""))) for _, carried, _ in seen] == [3_998, 0, 0]


# -- what is wrong with the application's own ---------------------------------------------


class Raising(SpanProcessor):
    """Raises at the beginning or at the end of a span."""

    def __init__(self, where: str) -> None:
        setattr(self, where, self._fail)

    def _fail(self, *_: Any, **__: Any) -> None:
        raise ValueError("the collector is gone")


@pytest.mark.parametrize("where", ["on_start", "on_end"])
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_what_raises_does_not_fail_a_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: str, transport: str
) -> None:
    collecting(monkeypatch, Raising(where))
    with trio.fail_after(LIMIT), caplog.at_level(logging.WARNING, "trio_mcp.telemetry"):
        async with TRANSPORTS[transport](shop()) as client:
            assert await client.call_tool("buy", {"item": "lamp"}, returns=str) == "bought lamp"
    assert "OpenTelemetry failed: ValueError" in caplog.messages


async def test_an_exporter_that_hangs_does_not_hold_a_call(monkeypatch: Any) -> None:
    class Hanging(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            reached.set()
            go_on.wait()
            return SpanExportResult.SUCCESS

    reached, go_on = threading.Event(), threading.Event()
    batches = BatchSpanProcessor(Hanging(), schedule_delay_millis=1)
    collecting(monkeypatch, batches)
    try:
        with trio.fail_after(LIMIT):
            async with connect(shop()) as client:
                await client.call_tool("buy", {"item": "lamp"})
                await trio.to_thread.run_sync(reached.wait)
                await client.call_tool("buy", {"item": "lamp"})
    finally:
        go_on.set()
        batches.shutdown()  # type: ignore[no-untyped-call]


# -- where nothing is collected -----------------------------------------------------------


async def test_a_lifespan_may_set_what_collects(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Telemetry] = []

    @asynccontextmanager
    async def lifespan(_: Registry) -> AsyncIterator[None]:
        found.append(collecting(monkeypatch))
        yield

    registry = Registry("late", lifespan=lifespan)
    registry.add_tool(plain)
    with trio.fail_after(LIMIT):
        async with over_tcp(registry, list_tools=False) as client:
            await client.request("tools/list")
    assert "tools/list" in {span.name for span in found[0].spans}


async def test_without_a_provider_a_trace_is_passed_on_as_it_came() -> None:
    seen: list[Any] = []
    meta = {"traceparent": PARENT, "baggage": "user=ada"}
    async with connect(shop(seen)) as client:
        await client.request(
            "tools/call", {"name": "buy", "arguments": {"item": "lamp"}, "_meta": meta}
        )
    assert {key: seen[0][2][key] for key in meta} == meta
    assert "opentelemetry" in sys.modules


async def test_without_a_provider_nothing_that_measures_is_imported() -> None:
    program = (
        "import sys, trio, opentelemetry.trace, opentelemetry.metrics, trio_mcp as m\n"
        "async def main():\n"
        "    async with m.connect(m.Registry('r')): pass\n"
        "trio.run(main)\n"
        "print([n for n in ('trio_mcp.client.traced', 'trio_mcp.server.tracing') if n in sys.modules])"
    )
    done = await trio.run_process([sys.executable, "-c", program], capture_stdout=True)
    assert done.stdout.decode().strip() == "[]"
