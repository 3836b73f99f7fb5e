"""Our client against servers made with the official TypeScript SDK, over HTTP, in both eras."""

import os
import subprocess
from pathlib import Path

import pytest
import trio

from tests.store.redis_server import free_port
from tests.support.processes import TIME_LIMIT
from trio_mcp import McpError, connect
from trio_mcp.errors import CannotReach

pytestmark = [pytest.mark.needs("node"), pytest.mark.requirement("F7", "F8")]

SERVER = Path(__file__).with_name("typescript_http_server.mjs")
EVERYTHING = Path("node_modules/@modelcontextprotocol/server-everything/dist/index.js")


@pytest.mark.parametrize("era", [None, "modern", "legacy"])
async def test_a_server_of_both_eras(npm: Path, era) -> None:
    with trio.fail_after(TIME_LIMIT):
        command = ["node", str(SERVER)]
        with subprocess.Popen(
            command, cwd=npm, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            port = int(await trio.to_thread.run_sync(process.stdout.readline))
            async with connect(f"http://127.0.0.1:{port}/mcp", era=era) as client:
                assert client.era == (era or "modern")
                assert client.server_info.name == "typescript"
                assert (await client.call_tool("shout", {"words": "hey"})).text == "HEY"
                assert (await client.read_resource("note://one")).text == "remember"
                prompt = await client.get_prompt("greet", {"name": "Ada"})
                assert prompt.messages[0].content.text == "Hello, Ada!"
                with pytest.raises(McpError, match="nowhere"):
                    await client.get_prompt("nowhere")
            process.stdin.close()


async def test_the_everything_server_has_sessions(npm: Path) -> None:
    port = free_port()
    seen: list[float] = []
    with trio.fail_after(TIME_LIMIT):
        process = await trio.lowlevel.open_process(
            ["node", str(npm / EVERYTHING), "streamableHttp"],
            env={**os.environ, "PORT": str(port)},
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            while True:
                try:
                    async with connect(f"http://127.0.0.1:{port}/mcp") as client:
                        assert client.era == "legacy"
                        assert (await client.call_tool("echo", {"message": "hey"})).success
                        arguments = {"duration": 0.2, "steps": 2}
                        await client.call_tool(
                            "trigger-long-running-operation",
                            arguments,
                            on_progress=lambda progress, total, message: seen.append(progress),
                        )
                        client.tools["trigger-long-running-operation"].timeout = 3
                        arguments = {"duration": 4, "steps": 40}
                        slow = await client.call_tool("trigger-long-running-operation", arguments)
                        assert slow.success  # its progress goes on, whether it is heard or not
                        assert await client.list_resources()
                    break
                except CannotReach:  # it is still starting
                    await trio.lowlevel.checkpoint()
        finally:
            process.kill()
            await process.wait()
    assert seen == [1, 2]
