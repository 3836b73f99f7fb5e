"""The run of a task is a part of the trace of the call that began it, whichever process runs it."""

from __future__ import annotations

import pytest
import trio

from tests.extensions.tasks.jobs import Gate, make
from tests.extensions.tasks.support import client_of
from tests.support.telemetry import collecting, is_child
from trio_mcp.extensions.tasks import TasksClient
from trio_mcp.store.memory import MemoryStore

pytestmark = pytest.mark.requirement("R1")


async def test_a_task_that_another_instance_runs_is_within_its_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    telemetry = collecting(monkeypatch)
    store, gates, ours = MemoryStore(), [Gate(), Gate()], TasksClient()
    with trio.fail_after(60):
        async with (
            client_of(make(gates[0], store=store, max_running=1), ours),
            client_of(make(gates[1], store=store, max_running=1), None),
        ):
            first, second = [(await ours.start("wait")).id for _ in range(2)]
            await gates[1].has_begun(1)
            for gate, id in zip(gates, (first, second), strict=True):
                gate.open.set()
                assert (await ours.result(id)).text == "waited"
    spans = [span for span in telemetry.spans if span.name == "tools/call wait"]
    calls = [span for span in spans if span.kind.name == "CLIENT"]
    for call in calls:
        (begun,) = (span for span in spans if is_child(span, call))
        (run,) = (span for span in spans if is_child(span, begun))
        assert (run.end_time or 0) > (begun.end_time or 0)
    assert len(spans) == 3 * len(calls) == 6


async def test_a_call_that_becomes_a_task_is_one_span_of_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its polls are within it: it ends with the task."""
    telemetry = collecting(monkeypatch)
    with trio.fail_after(60):
        async with client_of(make(), TasksClient()) as client:
            assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
    call = telemetry.named("tools/call add", "CLIENT")
    polls = [span for span in telemetry.spans if span.name in ("tasks/get", "subscriptions/listen")]
    assert polls
    assert {span.context.trace_id for span in polls} == {call.context.trace_id}
