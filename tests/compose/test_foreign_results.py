"""Results of a kind that the caller of a server behind a proxy never asked for."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from trio_mcp import Handlers, McpError, Registry, connect
from trio_mcp.compose import open_proxy
from trio_mcp.extensions.tasks import Tasks, TasksClient
from trio_mcp.middleware import McpRequest

pytestmark = pytest.mark.requirement("L4", "E9")

SAID = {"content": [{"type": "text", "text": "said"}]}
TASK = {
    "resultType": "task",
    "taskId": "7",
    "status": "working",
    "createdAt": "2026-11-26T00:00:00Z",
    "lastUpdatedAt": "2026-11-26T00:00:00Z",
    "ttlMs": 1000,
    "pollIntervalMs": 1000,
}
QUESTION = {
    "resultType": "input_required",
    "inputRequests": {"a": {"method": "roots/list", "params": {}}},
    "requestState": "state",
}


def answering(result: dict[str, Any]) -> Registry:
    """A server that answers every call so."""

    async def answer(request: McpRequest, call_next: Any) -> Any:
        return result if request.method == "tools/call" else await call_next(request)

    registry = Registry("odd", middleware=[answer], extensions=[Tasks()])

    @registry.tool
    async def say() -> str:
        return "never"

    return registry


def extensions(declared: bool) -> list[TasksClient]:
    return [TasksClient()] if declared else []


@pytest.mark.parametrize("kind", [TASK, QUESTION], ids=lambda kind: kind["resultType"])
async def test_a_legacy_result_is_of_one_kind_whatever_it_says(kind: dict[str, Any]) -> None:
    async with connect(answering({**kind, **SAID}), era="legacy") as client:
        assert (await client.call_tool("say")).text == "said"


@pytest.mark.parametrize("kind", [TASK, QUESTION], ids=lambda kind: kind["resultType"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("declared", [True, False])
async def test_a_legacy_server_behind_a_proxy_makes_no_tasks_and_no_modern_questions(
    kind: dict[str, Any], era: Any, declared: bool
) -> None:
    with trio.fail_after(60):
        async with open_proxy(answering({**kind, **SAID}), era="legacy") as registry:
            async with connect(registry, era=era, extensions=extensions(declared)) as client:
                result = await client.request("tools/call", {"name": "say", "arguments": {}})
                assert result["content"] == SAID["content"]
                assert result.get("resultType", "complete") == "complete"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_task_that_nothing_asked_for_is_an_error(era: Any) -> None:
    ours = TasksClient()
    with trio.fail_after(60):
        async with open_proxy(answering(TASK)) as registry:
            async with connect(registry, era=era) as client:
                answered = await client.call_tool("say")
                assert answered.error is not None
                assert "did not answer (ProtocolError)" in answered.text
            async with connect(registry, extensions=[ours]):
                assert (await ours.start("say")).id not in ("", TASK["taskId"])


async def test_a_question_whose_state_is_too_long_to_be_passed_on_is_an_error_with_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    question = {**QUESTION, "requestState": "x" * 300_000}
    handlers = Handlers(roots=["file:///home"])
    with trio.fail_after(60):
        async with open_proxy(answering(question)) as registry:
            async with connect(registry, era="modern", handlers=handlers) as client:
                with pytest.raises(McpError, match="request state that is too long to be passed"):
                    await client.request("tools/call", {"name": "say", "arguments": {}})
    assert not any(record.exc_info for record in caplog.records)
