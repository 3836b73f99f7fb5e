"""The official Python client, which knows nothing of our extensions, meets a server that has one."""

import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
import trio
from mcp import MCPError
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.extensions import later
from tests.extensions.later import LATER
from tests.support.processes import ENVIRONMENT, ROOT, TIME_LIMIT

pytestmark = [pytest.mark.requirement("K1", "H10"), pytest.mark.needs("sdk-server")]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_it_is_not_disturbed(mode: str, tmp_path: Path) -> None:
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", later.__name__],
        env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)},
    )
    with trio.fail_after(TIME_LIMIT), (tmp_path / "stderr").open("w") as errors:
        async with Client(stdio_client(parameters, errors), mode=mode) as client:
            assert client.server_info is not None
            assert client.server_info.name == "jobs"
            tools = {each.name: each for each in (await client.list_tools()).tools}
            assert tools["paint"].meta == {LATER: {"always": False}}
            result = await client.call_tool("add", {"a": 1, "b": 2})
            assert result.content == [types.TextContent(text="3")]
            assert LATER not in (result.meta or {})
            failed = await client.call_tool("fail", {"how": "surprise"})  # now, and not later
            assert failed.is_error
            with pytest.raises(MCPError, match=f"extension {LATER}") as refused:
                await client.call_tool("slow", {})
            assert refused.value.error.code == -32021
            needed: Any = {"requiredCapabilities": {"extensions": {LATER: {}}}}
            assert refused.value.error.data == needed
