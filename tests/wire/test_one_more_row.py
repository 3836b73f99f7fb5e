"""One more revision is one more row, and one more method a row and a handler: nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ROOT

REVISION = """    Revision(
        name="2099-01-01",
        modern=True,
        argument_errors_are_results=True,
        structured_objects_only=False,
    ),
)
\"\"\"Oldest first.\"\"\""""
METHOD = '    Method(name="weather/now", since="2099-01-01"),\n'
HANDLER = '    "weather/now": lambda context: {"weather": "fine"},\n'

PROGRAM = """
import json
from functools import partial

import trio
from trio_mcp import McpError, Registry, connect, handle_message

registry = Registry("later")


@registry.tool
async def add(a: int, b: int) -> int:
    return a + b


def request(method, version, **params):
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return json.dumps(message).encode()


async def main():
    ask = partial(handle_message, registry)
    for version in ("2026-07-28", "2099-01-01"):
        found = json.loads(await ask(request("server/discover", version)))["result"]
        assert found["supportedVersions"] == ["2026-07-28", "2099-01-01"], found
        tools = json.loads(await ask(request("tools/list", version)))["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["add"], tools
        arguments = {"name": "add", "arguments": {"a": 1, "b": 2}}
        called = json.loads(await ask(request("tools/call", version, **arguments)))["result"]
        assert called["content"][0]["text"] == "3", called
    said = json.loads(await ask(request("weather/now", "2099-01-01")))
    assert said["result"]["weather"] == "fine", said
    refused = json.loads(await ask(request("weather/now", "2026-07-28")))
    assert refused["error"]["code"] == -32601, refused
    async with connect(registry) as client:
        assert client.revision == "2099-01-01"
        assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
        assert (await client.request("weather/now"))["weather"] == "fine"
    async with connect(registry, era="legacy") as client:
        try:
            await client.request("weather/now")
        except McpError as error:
            assert error.code == -32601
        else:
            raise AssertionError("an older revision has it too")


trio.run(main)
"""


def insert(file: Path, before: str, text: str) -> None:
    whole = file.read_text()
    assert whole.count(before) == 1, f"{file} has changed"
    file.write_text(whole.replace(before, text))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package, to write into."""
    left_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "trio_mcp", tmp_path / "trio_mcp", ignore=left_out)
    return tmp_path


def add_rows(copy: Path, *, handler: bool = True) -> None:
    wire = copy / "trio_mcp" / "wire"
    insert(wire / "revisions.py", ')\n"""Oldest first."""', REVISION)
    row = '    Method(name="ping", era="legacy"),\n'
    insert(wire / "methods.py", row, row + METHOD)
    if handler:
        first = '    "ping": ping,\n'
        insert(copy / "trio_mcp" / "server" / "methods.py", first, first + HANDLER)


def run(copy: Path, program: str) -> str:
    """Run a program with the copy of the package; return what it says on stderr."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=copy,
        env={"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stderr


@pytest.mark.long
def test_a_revision_and_a_method_more_are_served_and_spoken(copy: Path) -> None:
    add_rows(copy)
    assert run(copy, PROGRAM) == ""


def test_a_method_without_a_handler_fails_at_import(copy: Path) -> None:
    add_rows(copy, handler=False)
    assert "KeyError: 'weather/now'" in run(copy, "import trio_mcp.server.methods")


def test_a_name_that_is_no_revisions_fails_at_import(copy: Path) -> None:
    row = '    Method(name="ping", era="legacy"),\n'
    methods = copy / "trio_mcp" / "wire" / "methods.py"
    insert(methods, row, row + METHOD)
    assert "KeyError: '2099-01-01'" in run(copy, "import trio_mcp.wire.methods")
