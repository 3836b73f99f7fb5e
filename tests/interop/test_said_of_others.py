"""What pages say of other libraries beside what `docs/measured/peers.json` records: they are asked."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from mcp import MCPError
from mcp.client.client import Client as TheirClient
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import DEFAULT_MAX_SSE_EVENT_SIZE

from benchmarks.peers import python_server
from tests.interop.packages import FASTMCP
from tests.support.processes import ENVIRONMENT, ROOT, TIME_LIMIT
from trio_mcp import connect
from trio_mcp.transports import ProcessOptions

pytestmark = [pytest.mark.requirement("T5"), pytest.mark.long]

GUIDES = ROOT / "docs" / "guides"
OURS = python_server("trio_mcp_echo.py")
"""A server of ours that has a tool, and nothing else."""


def page(path: Path) -> str:
    """A page, with each paragraph on one line."""
    return path.read_text().replace("\n", " ")


async def test_a_list_that_a_server_does_not_have_is_an_error_in_the_python_client() -> None:
    assert "the official Python client raises -32601 there" in page(GUIDES / "client.md")
    command, *arguments = OURS.arguments
    parameters = StdioServerParameters(command=command, args=arguments, env=ENVIRONMENT)
    with trio.fail_after(TIME_LIMIT):
        async with TheirClient(stdio_client(parameters)) as client:
            with pytest.raises(MCPError) as refused:
                await client.list_resources()
    assert refused.value.error.code == -32601


@pytest.mark.needs("node")
def test_it_is_empty_in_the_typescript_client(npm: Path) -> None:
    assert "as the official TypeScript client does" in page(GUIDES / "client.md")
    script = npm / "lists.mjs"
    script.write_text(
        'import { Client } from "@modelcontextprotocol/client";\n'
        'import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";\n'
        "const [command, ...args] = process.argv.slice(2);\n"
        'const client = new Client({ name: "lists", version: "1.0" });\n'
        "await client.connect(new StdioClientTransport({ command, args, env: process.env }));\n"
        "console.log(JSON.stringify((await client.listResources()).resources));\n"
        "await client.close();\n"
    )
    done = subprocess.run(
        [str(shutil.which("node")), str(script), *OURS.arguments],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_how_much_the_python_client_takes_in_one_event() -> None:
    (size,) = (
        each for each in (1, 2, 4, 8, 10, 16, 64) if each << 20 == DEFAULT_MAX_SSE_EVENT_SIZE
    )
    said = page(ROOT / "docs" / "limits.md")
    assert f"the official Python SDK 2.x takes at most {size} MiB in one event by default" in said


@pytest.mark.needs("fastmcp")
def test_a_client_of_fastmcp_unwraps_what_is_wrapped() -> None:
    assert "Clients of trio-mcp and FastMCP unwrap it" in page(GUIDES / "results.md")
    program = f"""if True:
        import asyncio
        from fastmcp import Client
        from fastmcp.client.transports import StdioTransport
        async def main():
            server = StdioTransport({sys.executable!r}, ["-c", {LISTS!r}], env={OWN!r})
            async with Client(server, mode="legacy") as client:
                result = await client.call_tool("names")
                print(result.structured_content, result.data)
        asyncio.run(main())
    """
    done = subprocess.run(
        [FASTMCP.python, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.split("\n")[0] == "{'result': ['a', 'b']} ['a', 'b']", done.stderr


LISTS = """
import trio
from trio_mcp import Registry, serve
registry = Registry("lists")
@registry.tool
async def names() -> list[str]:
    return ["a", "b"]
trio.run(serve, registry)
"""
OWN = {**ENVIRONMENT, "PYTHONPATH": str(ROOT)}
TAGGED = """
from fastmcp import FastMCP
server = FastMCP("tagged")
@server.tool(tags={"admin"})
def restart() -> str:
    return "done"
server.run(show_banner=False)
"""


@pytest.mark.needs("fastmcp")
async def test_tags_are_where_fastmcp_has_them() -> None:
    assert "as `fastmcp.tags`, which is where FastMCP has them" in page(GUIDES / "composition.md")
    options = ProcessOptions(env=ENVIRONMENT)
    command = [str(FASTMCP.python), "-c", TAGGED]
    with trio.fail_after(TIME_LIMIT):
        async with connect(command, process_options=options) as client:
            assert client.tools["restart"].tags == {"admin"}
