"""Without any extra: a server in this process, and one as a process of its own."""

import sys

import trio
from plants import registry

from trio_mcp import connect

SERVER = "import plants, trio, trio_mcp; trio.run(trio_mcp.serve, plants.registry)"


async def main() -> None:
    for target in (registry, [sys.executable, "-c", SERVER]):
        async with connect(target) as client:
            result = await client.call_tool("find_plant", {"name": "Fern"})
            assert result.text == "Fern wants water every 3 days."


trio.run(main)
