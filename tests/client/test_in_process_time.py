"""Time limits of a registry in the same process: whose it was, the tool's or the caller's."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio

from tests.support.tools import registry_of
from trio_mcp import Context, Handlers, connect
from trio_mcp.errors import CallTimeout

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


async def slow_answer(params: Any) -> Any:
    await trio.sleep(200)
    return {"action": "accept", "content": {"value": True}}


@pytest.mark.requirement("B1", "E4")
@ERAS
async def test_a_tools_own_limit_is_told_as_its_own_also_after_a_question(
    era: Any, autojump_clock: Any
) -> None:
    async def ask(context: Context) -> str:
        await context.elicit("Well?", bool)
        await trio.sleep(30)
        return "never"

    registry = registry_of(ask, tool_timeout=4)
    handlers = Handlers(elicitation=slow_answer)
    async with connect(registry, era=era, handlers=handlers) as client:
        result = await client.call_tool("ask")
        assert result.error == "Tool ask timed out after 4 s"
        assert round(trio.current_time()) == 204


@pytest.mark.requirement("E4", "G1")
@ERAS
async def test_a_callers_limit_is_logged_as_its_cancellation(
    era: Any, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def wait() -> None:
        await trio.sleep(30)

    caplog.set_level(logging.INFO, "trio_mcp.calls")
    async with connect(registry_of(wait), era=era) as client:
        with pytest.raises(CallTimeout):
            await client.call_tool("wait", timeout=3)
    [record] = [each for each in caplog.records if each.name == "trio_mcp.calls"]
    assert record.outcome == "cancelled"  # type: ignore[attr-defined]
