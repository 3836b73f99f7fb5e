"""Tool search before a registry for asyncio: its tools, and a ranking that is written for asyncio."""

import asyncio

import pytest

from tests.aio.support import in_asyncio
from trio_mcp.aio import Registry, connect
from trio_mcp.compose import searchable


@pytest.mark.requirement("Q1")
@in_asyncio
async def test_what_is_found_is_ranked_and_run_in_the_loop_of_asyncio():
    registry, loops = Registry("naps"), []

    @registry.tool
    async def nap(times: int) -> str:
        """Sleep for a moment."""
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return f"slept {times} times"

    async def rank(query, offers):
        loops.append(asyncio.get_running_loop())
        return list(offers)

    async with connect(searchable(registry, rank=rank)) as client:
        found = await client.call_tool("search_tools", {"query": "anything"})
        assert found.text == "nap(times: integer)\n  Sleep for a moment."
        call = {"name": "nap", "arguments": {"times": 2}}
        assert (await client.call_tool("call_tool", call)).text == "slept 2 times"
    assert loops == [asyncio.get_running_loop()] * 2
