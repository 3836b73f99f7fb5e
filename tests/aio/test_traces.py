"""Traces of programs on asyncio: what the loop's task is in reaches the server, and its tools."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry import trace

from tests.support.telemetry import collecting, is_child, span_id
from trio_mcp.aio import Registry, connect

pytestmark = pytest.mark.requirement("R1")


def test_a_call_is_within_the_span_of_its_task_and_its_tool_within_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    telemetry = collecting(monkeypatch)
    registry, seen = Registry("shop"), []

    @registry.tool
    async def buy() -> str:
        asyncio.get_running_loop()
        seen.append(span_id(trace.get_current_span().get_span_context()))
        return "bought"

    async def main() -> None:
        async with connect(registry) as client:
            with trace.get_tracer_provider().get_tracer("agent").start_as_current_span("think"):
                await client.call_tool("buy")

    asyncio.run(main())
    called, served = (telemetry.named("tools/call buy", kind) for kind in ("CLIENT", "SERVER"))
    assert is_child(called, telemetry.named("think", "INTERNAL"))
    assert is_child(served, called)
    assert seen == [span_id(served.context)]
