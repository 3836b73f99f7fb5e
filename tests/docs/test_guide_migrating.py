"""What the pages on moving say of the official SDK and of this library: both are asked.

What libraries do when things go wrong is a record, which `tests/benchmarks/test_benchmark_faults.py`
holds against them.
"""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import trio
from mcp.client import auth as their_auth
from mcp.client.auth.extensions import client_credentials as credentials
from mcp.client.auth.extensions import identity_assertion as assertion
from mcp.server import mcpserver
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel, Field

import trio_mcp
import trio_mcp.auth
from tests.docs.test_readme import README, table
from tests.interop.packages import FASTMCP
from tests.interop.packages import FOLDER as NPM
from tests.support.processes import ENVIRONMENT, ROOT, TIME_LIMIT
from trio_mcp import Registry, connect
from trio_mcp.errors import InvalidArguments
from trio_mcp.transports import ProcessOptions

GUIDES = ROOT / "docs" / "guides"
FROM_SDK = GUIDES / "from-official-sdk.md"
FROM_FASTMCP = GUIDES / "from-fastmcp.md"


def names_after(prefix: str, cells: list[str]) -> set[str]:
    """The attributes that cells name of an object."""
    return {name for cell in cells for name in re.findall(rf"\b{prefix}\.([a-z]\w*)", cell)}


def column(page: Any, heading: str, place: int) -> list[str]:
    return [row[place] for row in table(page, heading)]


def test_names_of_the_sdk_exist() -> None:
    cells = column(FROM_SDK, "| Official SDK", 1)
    for prefix, kind in (("mcp", MCPServer), ("ctx", mcpserver.Context)):
        named = names_after(prefix, cells)
        assert named
        assert [name for name in named if not hasattr(kind, name)] == []


@pytest.mark.needs("fastmcp")
def test_names_of_fastmcp_exist() -> None:
    cells = column(FROM_FASTMCP, "| FastMCP", 1)
    named = {"FastMCP": names_after("mcp", cells) | names_after("FastMCP", cells)}
    named["Context"] = names_after("ctx", cells)
    assert all(named.values())
    program = (
        "import fastmcp, json, sys\n"
        "for kind, names in json.loads(sys.argv[1]).items():\n"
        "    print(*(n for n in names if not hasattr(getattr(fastmcp, kind), n)), end='')\n"
    )
    given = json.dumps({kind: sorted(names) for kind, names in named.items()})
    done = subprocess.run(
        [FASTMCP.python, "-c", program, given], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""


# -- the comparison in the README -----------------------------------------------------------------


def compared(library: str) -> dict[str, str]:
    """What the README says of a library, by the first cell of each row."""
    header, *_ = re.findall(r"^\| \| trio-mcp \|.*$", README.read_text(), re.MULTILINE)
    titles = [cell.strip() for cell in header.strip("|").split("|")]
    (place,) = (at for at, title in enumerate(titles) if title.startswith(library))
    return {row[0]: row[place] for row in table(README, "| trio-mcp")}


@pytest.mark.requirement("T5")
def test_what_is_said_of_the_sdk() -> None:
    said = compared("Python SDK")
    assert said["Middleware for requests"] == "provisional"
    assert "Provisional" in (MCPServer.middleware.__doc__ or "")
    assert said["Tools that ask users, revision 2026-07-28"] == (
        "a declared parameter, or guard tools"
    )
    assert {"Resolve", "Elicit"} <= set(dir(mcpserver))
    assert hasattr(mcpserver.Context, "input_responses")
    assert said["Several versions of a tool"] == said["Tools from FastAPI"] == "no"
    assert "version" not in inspect.signature(MCPServer.tool).parameters
    assert not hasattr(MCPServer, "from_fastapi")
    assert said["Login server with accounts of its own"] == "base class"
    assert "auth_server_provider" in inspect.signature(MCPServer).parameters


@pytest.mark.requirement("T5")
@pytest.mark.needs("fastmcp")
def test_what_is_said_of_fastmcp() -> None:
    program = """if True:
        import inspect
        from fastmcp import Context, FastMCP
        from fastmcp.server import context
        from fastmcp.server.auth import OAuthProvider
        from fastmcp.server.middleware import Middleware
        assert {"timeout", "version"} <= set(inspect.signature(FastMCP.tool).parameters)
        assert "mask_error_details" in inspect.signature(FastMCP).parameters
        assert hasattr(FastMCP, "from_fastapi")
        assert hasattr(Context, "input_responses")
        assert hasattr(Middleware, "on_request")
        print(context._ELICIT_MODERN_ERROR)
    """
    done = subprocess.run(
        [FASTMCP.python, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "unavailable on 2026-07-28" in done.stdout
    said = compared("FastMCP")
    assert [
        said[row] for row in said if row.startswith(("Several", "Middleware", "Tools from"))
    ] == ["yes"] * 3
    assert said["Tools that ask users, revision 2026-07-28"].startswith("guard tools")


@pytest.mark.requirement("T5")
@pytest.mark.needs("node")
def test_what_is_said_of_the_typescript_sdk(tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(NPM / "node_modules")
    script = tmp_path / "look.mjs"
    program = """
        import { McpServer, inputRequired } from "@modelcontextprotocol/server";
        console.log(typeof inputRequired, ...Object.getOwnPropertyNames(McpServer.prototype));
    """
    script.write_text(program)
    done = subprocess.run(["node", str(script)], capture_output=True, text=True, check=True)
    asks, *methods = done.stdout.split()
    assert asks != "undefined"
    assert "registerTool" in methods
    assert not [name for name in methods if re.search("middleware|^use$", name, re.IGNORECASE)]
    said = compared("TypeScript SDK")
    assert said["Tools that ask users, revision 2026-07-28"] == "guard tools"
    assert said["Middleware for requests"] == "no"


class Model(BaseModel):
    number: int = 1


async def test_pydantic() -> None:
    async def takes(model: Model) -> Model:
        return model

    async def bounded(number: Annotated[int, Field(ge=1, description="How many.")]) -> str:
        raise AssertionError

    async def minimum(number: Annotated[int, {"minimum": 1}, "How many."]) -> str:
        raise AssertionError

    async def default(number: int = Field(1, ge=1)) -> str:
        return str(number)

    async def after(number: Annotated[int, Field(ge=1)] = 1) -> str:
        return str(number)

    registry = Registry("ours")
    for function in (takes, bounded, minimum, default, after):
        registry.add_tool(function)
    async with connect(registry) as client:
        for name in ("default", "after"):
            assert (await client.call_tool(name)).text == "1"
        described = client.tools["bounded"].input_schema["properties"]["number"]
        assert described["description"] == "How many."
        for name in ("bounded", "minimum", "default", "after"):
            with pytest.raises(InvalidArguments, match="at least 1"):
                await client.call_tool(name, {"number": 0})
    taken = await registry.call("takes", {"model": {"number": "2"}})
    assert taken == Model(number=2)


def test_names_of_authorization() -> None:
    """Those of the SDK and ours that the table has exist, and mean what it says."""
    sdk = {**vars(their_auth), **vars(credentials), **vars(assertion), "MCPServer": MCPServer}
    sdk |= {each.__name__: each for each in (AuthSettings, AccessToken, TokenVerifier)}
    rows = table(FROM_SDK, "Official SDK")
    for theirs, here in rows:
        for name in re.findall(r"`(?:a )?([A-Z]\w+)", theirs):
            assert name in sdk, name
        for name, argument in re.findall(r"`(\w+)\((\w+)=", theirs):
            assert argument in inspect.signature(sdk[name]).parameters
        for name in re.findall(r"`([A-Z]\w+)[(.]", here):
            assert name in {*trio_mcp.MODULES, *trio_mcp.auth.MODULES}, name
    (provider,) = (row[0] for row in rows if "server_url," in row[0])
    arguments = re.findall(r"[(,] ?(\w+)", provider)
    assert arguments == list(inspect.signature(sdk["OAuthClientProvider"]).parameters)[:5]
    for _, here in table(FROM_FASTMCP, "FastMCP"):
        for name in re.findall(r"`([A-Z]\w+)[(.]", here):
            assert name in {*trio_mcp.MODULES, *trio_mcp.auth.MODULES}, name
    assert {"client_id", "scopes", "expires_at", "subject"} <= set(AccessToken.model_fields)
    assert inspect.iscoroutinefunction(TokenVerifier.verify_token)


@pytest.mark.long
async def test_a_server_of_the_sdk_runs_in_trio() -> None:
    program = (
        "import anyio, sniffio\n"
        "from mcp.server.mcpserver import MCPServer\n"
        "mcp = MCPServer('theirs')\n"
        "@mcp.tool()\n"
        "async def where() -> str:\n"
        "    return sniffio.current_async_library()\n"
        "anyio.run(mcp.run_stdio_async, backend='trio')\n"
    )
    options = ProcessOptions(env=ENVIRONMENT)
    with trio.fail_after(TIME_LIMIT):
        async with connect([sys.executable, "-c", program], process_options=options) as client:
            assert (await client.call_tool("where", timeout=TIME_LIMIT)).text == "trio"
