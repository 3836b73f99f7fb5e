"""What can be seen from outside: metrics of the app and its server, and traces that go on."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families
from trio.testing import wait_all_tasks_blocked

from tests.transports.http.support import LegacyClient, hosting
from trio_mcp import (
    HttpPolicy,
    Registry,
    SessionOptions,
    ToolError,
    connect,
    serve_http,
)
from trio_mcp.transports.http.metrics import Metrics, text_of

pytestmark = pytest.mark.requirement("G2")


def shop() -> Registry:
    registry = Registry("shop")

    @registry.tool
    async def buy(item: str) -> str:
        return f"bought {item}"

    @registry.tool
    async def fail() -> str:
        raise ToolError("sold out")

    return registry


async def get(url: str, path: str) -> str:
    host, port = re.fullmatch(r"http://([^:/]+):(\d+)/mcp", url).groups()
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        await stream.send_all(
            f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
        )
        return b"".join([chunk async for chunk in stream]).decode()


def value(text: str, metric: str, /, **labels: str) -> float:
    wanted = {f'{key}="{each}"' for key, each in labels.items()}
    for line in text.splitlines():
        found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if found and found[1] == metric and wanted <= set((found[2] or "").split(",")):
            return float(found[3])
    raise AssertionError(f"no {metric} {labels} in {text}")


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_calls_are_counted_and_measured_by_tool_and_outcome(era) -> None:
    async with trio.open_nursery() as nursery:
        handle = await nursery.start(serve_http, shop(), "127.0.0.1", 0)
        async with connect(handle.url, era=era) as client:
            for _ in range(3):
                await client.call_tool("buy", {"item": "secret"})
            await client.call_tool("fail")
            text = await get(handle.url, "/metrics")
            labels = {"kind": "tool", "name": "buy"}
            assert value(text, "mcp_requests_total", **labels, outcome="ok") == 3
            assert value(text, "mcp_request_duration_seconds_count", **labels) == 3
            assert value(text, "mcp_errors_total", **labels) == 0
            assert value(text, "mcp_errors_total", kind="tool", name="fail") == 1
            assert value(text, "mcp_requests_in_flight") == 0
            assert value(text, "mcp_sessions") == (1 if era == "legacy" else 0)
            assert value(text, "mcp_http_connections") >= 2
            assert value(text, "mcp_http_bytes_in_total") > 0
            assert value(text, "mcp_http_bytes_out_total") > 0
            assert "secret" not in text
        nursery.cancel_scope.cancel()


def test_a_call_is_in_every_bucket_that_is_long_enough_for_it() -> None:
    metrics = Metrics()
    for seconds in (0.001, 0.002, 61.0):
        call = SimpleNamespace(entry=SimpleNamespace(kind="tool", name="buy"), outcome="ok")
        metrics.measure_call(call, seconds)
    text = text_of(metrics.snapshot()).decode()
    for le, count in {"0.001": 1, "0.005": 2, "60.0": 2, "+Inf": 3}.items():
        assert value(text, "mcp_request_duration_seconds_bucket", name="buy", le=le) == count
    assert value(text, "mcp_request_duration_seconds_sum", name="buy") == pytest.approx(61.003)


@pytest.mark.requirement("F1")
def test_prometheus_own_parser_reads_what_is_written() -> None:
    metrics, name = Metrics(), 'a "quoted" \\ name\nof two lines, é'
    call = SimpleNamespace(entry=SimpleNamespace(kind="tool", name=name), outcome="ok")
    metrics.measure_call(call, 0.3)
    metrics.refused("tool", None, "not found")
    families = {
        family.name: family
        for family in text_string_to_metric_families(text_of(metrics.snapshot()).decode())
    }
    counted = {
        (sample.labels["name"], sample.labels["outcome"]): sample.value
        for sample in families["mcp_requests"].samples
    }
    assert counted[name, "ok"] == counted["", "not found"] == 1
    assert counted[name, "error"] == 0
    assert {name: family.type for name, family in families.items()} == {
        "mcp_requests": "counter",
        "mcp_errors": "counter",
        "mcp_request_duration_seconds": "histogram",
        "mcp_requests_in_flight": "gauge",
        "mcp_requests_waiting": "gauge",
        "mcp_sessions": "gauge",
    }


async def test_refused_calls_are_counted() -> None:
    registry = shop()

    @registry.prompt
    async def order(item: str) -> str:
        return item

    registry.add_completion(["lamp"], prompt="order", argument="item")
    policy, sessions = HttpPolicy(rate=0.001, burst=10), SessionOptions(max_sessions=1)
    async with hosting(registry, policy, sessions=sessions) as host:
        client = LegacyClient(host, "2025-06-18")
        await client.initialize()
        await client.call("sell-secret")
        for wrong in ({}, {"item": 5}):
            await client.call("buy", **wrong)
        await client.request("resources/read", {"uri": "secret://x"})
        await client.request("prompts/get", {"name": "order"})
        ref = {"type": "ref/prompt", "name": "secret"}
        argument = {"name": "item", "value": ""}
        await client.request("completion/complete", {"ref": ref, "argument": argument})
        stranger = LegacyClient(host)
        stranger.address = ("127.0.0.2", 1)
        busy = client.get()
        await wait_all_tasks_blocked()
        assert (await stranger.post(stranger.initialize_request())).status == 503
        while (await client.begin("ping").end()).status != 429:
            pass
        busy.disconnect()
        text = (await host.ask("GET", "/metrics", client=("127.0.0.3", 1))).body.decode()
    refused = {
        ("tool", "", "not found"): 1,
        ("tool", "buy", "invalid arguments"): 2,
        ("prompt", "order", "invalid arguments"): 1,
        ("completion", "", "not found"): 1,
        ("", "", "too many requests"): 1,
        ("", "", "no capacity"): 1,
    }
    for (kind, name, outcome), count in refused.items():
        labels = {"kind": kind, "name": name}
        assert value(text, "mcp_requests_total", **labels, outcome=outcome) == count
        assert value(text, "mcp_errors_total", **labels) >= count
    assert "secret" not in text
