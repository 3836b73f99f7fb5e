"""A trace goes on through a proxy, whichever way it came: one call is one trace."""

from __future__ import annotations

import sys
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import trio

from tests.compose.openapi.support import Service, document, get
from tests.support.telemetry import attributes, collecting, is_child, span_id, trace_id
from trio_mcp import Context, HttpOptions, Registry, Remote, connect, serve_http

pytestmark = pytest.mark.requirement("L4")
LIMIT = 60
TRACE = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": "vendor=1",
    "baggage": "user=ada",
}


def traced(seen: list[Any]) -> Registry:
    """A server that notes the `_meta` of calls."""
    registry = Registry("behind")

    @registry.tool
    async def look(context: Context) -> None:
        """Note what came."""
        seen.append(context.meta or {})

    return registry


async def through(seen: list[Any], up: Any, down: Any, headers: dict[str, str], **call: Any) -> Any:
    """Call through a proxy over HTTP, and return what reached the server behind."""
    front = Registry("front")
    front.mount(Remote(traced(seen), era=up))
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            handle = await nursery.start(partial(serve_http, front, port=0))
            async with connect(handle.url, era=down, http=HttpOptions(headers=headers)) as client:
                await client.call_tool("look", **call)
            nursery.cancel_scope.cancel()
    return seen[-1]


@pytest.mark.parametrize("up", ["modern", "legacy"])
@pytest.mark.parametrize("down", ["modern", "legacy"])
async def test_headers_do_not_end_at_a_proxy(up: Any, down: Any) -> None:
    meta = await through([], up, down, TRACE)
    assert trace_in(meta) == trace_in(TRACE)


def trace_in(carrier: dict[str, str]) -> list[str]:
    """Name the trace, and what travels with it. The span may be the proxy's own."""
    return [carrier["traceparent"].split("-")[1], carrier["tracestate"], carrier["baggage"]]


async def test_the_request_itself_counts_more_than_its_headers() -> None:
    own = {"traceparent": "00-" + 32 * "c" + "-" + 16 * "d" + "-00"}
    meta = await through([], "modern", "modern", TRACE, meta=own)
    assert meta["traceparent"] == own["traceparent"]
    assert "baggage" not in meta


@pytest.mark.requirement("R1")
@pytest.mark.parametrize("up", ["modern", "legacy"])
@pytest.mark.parametrize("down", ["modern", "legacy"])
async def test_a_call_through_two_proxies_is_one_trace(
    monkeypatch: pytest.MonkeyPatch, up: Any, down: Any
) -> None:
    """Each hop is a span of the client within that of the server, and the last one is told."""
    seen: list[Any] = []
    telemetry = collecting(monkeypatch)
    middle = Registry("middle")
    middle.mount(Remote(traced(seen), era=up))
    front = Registry("front")
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            behind = await nursery.start(partial(serve_http, middle, port=0))
            front.mount(Remote(behind.url, era=up))
            handle = await nursery.start(partial(serve_http, front, port=0))
            async with connect(handle.url, era=down) as client:
                await client.call_tool("look")
            nursery.cancel_scope.cancel()
    hops = [span for span in telemetry.spans if span.name == "tools/call look"]
    assert [span.kind.name for span in hops] == 3 * ["CLIENT", "SERVER"]
    assert hops[0].parent is None
    assert all(is_child(span, above) for above, span in pairwise(hops))
    _, trace, parent, _ = seen[-1]["traceparent"].split("-")
    assert (trace, parent) == (trace_id(hops[0]), span_id(hops[-2].context))


@pytest.mark.requirement("R1")
async def test_a_server_process_gets_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry = collecting(monkeypatch)
    program = (
        "import trio_mcp as m\nr = m.Registry('p')\n@r.tool\n"
        "async def look(context: m.Context) -> str:\n    return context.meta['traceparent']\n"
        "import trio\ntrio.run(m.serve, r)"
    )
    with trio.fail_after(LIMIT):
        async with connect([sys.executable, "-c", program]) as client:
            seen = (await client.call_tool("look")).text
    called = telemetry.named("tools/call look", "CLIENT")
    assert seen.split("-")[1:3] == [trace_id(called), span_id(called.context)]
    assert attributes(called)["network.transport"] == "pipe"


async def test_without_a_trace_there_is_none() -> None:
    meta = await through([], "modern", "modern", {"baggage": "user=ada"})
    assert not TRACE.keys() & meta.keys()


@pytest.mark.requirement("R1")
async def test_a_service_behind_a_tool_gets_the_trace_and_nothing_that_travels_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    telemetry, service = collecting(monkeypatch), Service()
    registry = service.registry(document({"/": get()}))
    async with connect(registry) as client:
        await client.request("tools/call", {"name": "it", "_meta": TRACE})
    served = telemetry.named("tools/call it", "SERVER")
    sent = service.request.headers
    assert sent["traceparent"].split("-")[1:3] == [trace_id(served), span_id(served.context)]
    assert not {"baggage", "tracestate"} & sent.keys()
