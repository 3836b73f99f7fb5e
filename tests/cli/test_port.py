"""`trio-mcp port`: what a server for another library uses, and what that is here."""

import re
from pathlib import Path

import pytest

import trio_mcp
import trio_mcp.auth
from tests.cli.support import CommandLine
from trio_mcp import Client, Context, Registry
from trio_mcp.registry.equivalents import EQUIVALENTS

SERVER = """
import asyncio

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError as Refusal
from mcp import types
from pydantic import Field

mcp = FastMCP("shop", mask_error_details=True)


@mcp.tool(tags={"till"}, version="2", enabled=True)
async def order(ctx: Context | None, copies: int = Field(1, ge=1)) -> list[types.TextContent]:
    await ctx.report_progress(1, 2)
    mcp.explode()
    if copies > 9:
        raise ValueError("There are not so many.")
    return []


@mcp.custom_route("/health", methods=["GET"])
async def health(request):
    raise ValueError("This is not a tool.")

mcp.run("http")
"""


LOW_LEVEL = """
from mcp import types
from mcp.server import Server
from mcp.server.fastmcp import Context, FastMCP
from mcp.shared.exceptions import McpError

server = Server("clock")
mcp = FastMCP("clock")


@server.list_tools()
async def list_tools():
    return [types.Tool(name="now", inputSchema={"type": "object"})]


@server.call_tool()
async def call_tool(name, arguments):
    if name != "now":
        raise McpError(types.ErrorData(code=1, message=name))
    return [types.TextContent(type="text", text="noon")]


Server("other", on_call_tool=call_tool)


@mcp.tool()
def later(ctx: Context[ServerSession, None], hours: int = None, zone: str | None = None, *, day: str = None): ...


mcp.run(transport="sse", show_banner=False)
"""


@pytest.fixture
def server(tmp_path: Path) -> Path:
    path = tmp_path / "shop.py"
    path.write_text(SERVER)
    return path


def test_everything_that_a_file_uses_is_said(cli: CommandLine, server: Path) -> None:
    done = cli("port", "--json", str(server))
    assert done.status == 0
    assert {(row["use"], row["status"]) for row in done.json} == {
        ("asyncio", "same or renamed"),
        ("Context", "same or renamed"),
        ("FastMCP", "same or renamed"),
        ("ToolError", "same or renamed"),
        ("TextContent", "same or renamed"),
        ("mask_error_details= of the server", "same or renamed"),
        ("tags= of a tool", "same or renamed"),
        ("version= of a tool", "otherwise"),
        ("enabled= of a tool", "otherwise"),
        ("Field(…) as a default value", "same or renamed"),
        ("the context's report_progress", "same or renamed"),
        ("the server's tool", "same or renamed"),
        ("the server's explode", "unknown"),
        ("raise ValueError(…) in a tool", "same or renamed"),
        ("the server's custom_route", "otherwise"),
        ("the server's run", "same or renamed"),
    }
    (progress,) = (row for row in done.json if row["use"] == "the context's report_progress")
    assert progress["lines"] == [14]
    assert progress["here"] == "context.progress(1, total=3)"


def test_low_level_servers_and_what_older_ones_write(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "clock.py").write_text(LOW_LEVEL)
    done = cli("port", "--json", str(tmp_path))
    found = {row["use"]: row["here"] for row in done.json}
    assert found["the server's list_tools"].startswith("nothing: what is registered is listed")
    assert found["the server's call_tool"].startswith("registry.add_tool(function, name=…, input")
    assert found["inputSchema= of a message"] == "input_schema="
    assert found["type= of a message"] == "nothing: the class says it"
    assert found["raise McpError(…) in a tool"].startswith("ToolError")
    assert found["transport= where the server runs"] == "trio.run(serve, registry), or serve_http"
    assert "show_banner= where the server runs" in found
    (calling,) = (row for row in done.json if row["use"] == "the server's call_tool")
    assert calling["lines"] == [16, 23]
    assert found["Context[…, …]"].startswith("Context, or Context[T] with")
    (none,) = (row for row in done.json if row["use"].startswith("None as a default"))
    assert (none["lines"], none["here"]) == ([27], "annotate it so: … | None")
    person = cli("port", str(tmp_path))
    assert "src/clock.py:11  the server's list_tools" in person.out


def test_a_person_sees_where_it_is_and_how_much_there_is(cli: CommandLine, server: Path) -> None:
    done = cli("port", str(server.parent))
    assert "shop.py:15  the server's explode" in done.out
    assert done.err.startswith("16 things used; 12 same or renamed; 3 otherwise; 1 unknown.")


def test_functions_with_a_context_are_tools_however_they_are_added(
    cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "jobs.py").write_text(
        "from fastmcp import Context\n"
        "async def jobs(ctx: Context, status: str = None): raise ValueError(status)\n"
        "async def helper(status: str = None): raise ValueError(status)\n"
    )
    done = cli("port", "--json", str(tmp_path))
    assert [(row["use"], row["lines"]) for row in done.json] == [
        ("Context", [1]),
        ("None as a default that the annotation does not allow", [2]),
        ("raise ValueError(…) in a tool", [2]),
    ]


def test_a_server_of_another_file_is_one_unless_it_is_ours(
    cli: CommandLine, tmp_path: Path
) -> None:
    tool = "@mcp.tool(tags={'till'})\ndef order(): raise ValueError('Sold out.')\n"
    (tmp_path / "theirs.py").write_text(f"from shop.server import mcp\n{tool}")
    (tmp_path / "ours.py").write_text(f"from trio_mcp import Registry\n{tool}")
    done = cli("port", "--json", str(tmp_path))
    assert {row["use"] for row in done.json if row["file"].endswith("theirs.py")} == {
        "the server's tool",
        "tags= of a tool",
        "raise ValueError(…) in a tool",
    }
    ours = [row["use"] for row in done.json if row["file"].endswith("ours.py")]
    assert ours == ["raise ValueError(…) in a tool"]


def test_files_are_not_run(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "loud.py"
    file.write_text("raise SystemExit('it ran')\n")
    done = cli("port", str(file))
    assert (done.status, done.out) == (0, "")
    assert "uses neither FastMCP nor the official SDK" in done.err


@pytest.mark.parametrize("text", ["def (", "x = '\0'", "(" * 100_000])
def test_what_is_not_python_is_refused(cli: CommandLine, tmp_path: Path, text: str) -> None:
    file = tmp_path / "odd.py"
    file.write_text(text)
    done = cli("port", str(file))
    assert done.status == 1
    assert "odd.py is not Python" in done.err


def test_a_file_that_is_not_there(cli: CommandLine, tmp_path: Path) -> None:
    done = cli("port", str(tmp_path / "none.py"))
    assert done.status == 1
    assert "none.py" in done.err


HERE = [text for names in EQUIVALENTS.values() for text in names.values()]


@pytest.mark.parametrize(
    ("pattern", "owner"),
    [
        (r"context\.(\w+)", Context),
        (r"registry\.(\w+)", Registry("shop")),
        (r"client\.([a-z]\w+)", Client),
        (r"^(?:serve_http\(…, auth=)?(\w+)\(?.*, from trio_mcp\.auth", trio_mcp.auth),
        (r"^(\w+), from trio_mcp$", trio_mcp),
        (r"^([A-Z]\w+)$", trio_mcp),
    ],
)
def test_what_is_named_is_here(pattern: str, owner: object) -> None:
    named = {name for text in HERE for name in re.findall(pattern, text)}
    assert named
    assert {name for name in named if not hasattr(owner, name)} == set()
