"""What the page on moving says of the official SDK and of this library: both are asked.

Of FastMCP it cannot be asked, which is no dependency of the tests.
"""

import functools
import inspect
import logging
import re
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
import trio
from mcp import Client as TheirClient
from mcp.client import auth as their_auth
from mcp.client.auth.extensions import client_credentials as credentials
from mcp.client.auth.extensions import identity_assertion as assertion
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError as TheirToolError
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, Field

import trio_mcp
import trio_mcp.auth
from tests.docs.test_readme import table
from tests.support.processes import ENVIRONMENT, ROOT, TIME_LIMIT
from trio_mcp import McpError, Registry, SchemaError, ToolError, connect
from trio_mcp.errors import InvalidArguments
from trio_mcp.transports import ProcessOptions

GUIDE = ROOT / "docs" / "guides" / "migrating.md"

Answer = tuple[bool, str, Any]
"""Whether it is an error, its text, and its structured content."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Making a server of the SDK's configures the log of the whole process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def row(beginning: str) -> tuple[str, str]:
    """What the page says of the SDK, and of this library, in the row that begins so."""
    lines = GUIDE.read_text().splitlines()
    (line,) = (each for each in lines if each.startswith(f"| {beginning} |"))
    _, sdk, _, ours = (cell.strip() for cell in line.strip("|").split(" | "))
    return sdk, ours


async def numbers(of: list[int]) -> str:
    return str(of)


async def double(number: int) -> int:
    return 2 * number


async def crash() -> str:
    raise KeyError("secret")


async def theirs(name: str, arguments: dict[str, Any] | None = None) -> Answer:
    """What a tool of an SDK server answers."""

    async def order() -> str:
        raise TheirToolError("Sold out.")

    server = MCPServer("theirs")
    for function in (numbers, double, order):
        server.add_tool(function)
    server.add_tool(crash, name="crash")
    async with TheirClient(server) as client:
        result = await client.call_tool(name, arguments or {})
    block: Any = result.content[0]
    return result.is_error, block.text, result.structured_content


async def ours(name: str, arguments: dict[str, Any] | None = None) -> Answer:
    """What a tool of this library answers."""

    async def order() -> str:
        raise ToolError("Sold out.")

    registry = Registry("ours")
    for function in (numbers, double, order, crash):
        registry.add_tool(function)
    async with connect(registry) as client:
        call = {"name": name, "arguments": arguments or {}}
        result = await client.request("tools/call", call)
    is_error = result.get("isError", False)
    return is_error, result["content"][0]["text"], result.get("structuredContent")


async def test_failures() -> None:
    sdk, here = row('A tool raises `KeyError("secret")`')
    assert (await theirs("crash"))[:2] == (True, sdk.strip('"').replace("order", "crash"))
    assert (await ours("crash"))[:2] == (True, here.strip('"').replace("order", "crash"))
    sdk, here = row('`ToolError("Sold out.")`')
    assert (await theirs("order"))[:2] == (True, sdk.strip('"'))
    assert (await ours("order"))[:2] == (True, here.strip('"'))


def wrongly_a_dict() -> dict:  # type: ignore[type-arg]
    return "a text"  # type: ignore[return-value]


def wrongly_a_bool() -> bool:
    return "a text"  # type: ignore[return-value]


def some() -> list[str]:
    return ["a", "b"]


def refusing() -> str:
    raise MCPError(code=-32000, message="Sold out.")


def refuses() -> str:
    raise McpError(-32000, "Sold out.")


@functools.wraps(crash)
def passes_on() -> Any:
    return double(1)


async def of_theirs(function: Callable[..., Any]) -> str:
    """What becomes of a call of an SDK server, in the words of the page."""
    server = MCPServer("theirs")
    server.add_tool(function, name="it")
    async with TheirClient(server) as client:
        try:
            result = await client.call_tool("it", {})
        except MCPError:
            return "a JSON-RPC error"
    if result.is_error:
        return "an error for the model"
    return "a block for each" if len(result.content) > 1 else "the text"


async def of_ours(function: Callable[..., Any]) -> str:
    registry = Registry("ours")
    registry.add_tool(function, name="it")
    async with connect(registry) as client:
        try:
            result = await client.request("tools/call", {"name": "it", "arguments": {}})
        except McpError as error:
            return f"the error {error.code}" if error.code != -32000 else "a JSON-RPC error"
    (block,) = result["content"]
    if block["text"].startswith("["):
        return "one block, of JSON"
    return "is awaited, if `functools.wraps` was used" if block["text"] == "2" else block["text"]


@pytest.mark.parametrize(
    ("beginning", "function", "of_this"),
    [
        ("`-> dict`, and a text is returned", wrongly_a_dict, wrongly_a_dict),
        ("`-> bool`, and a text is returned", wrongly_a_bool, wrongly_a_bool),
        ("`-> list[str]`", some, some),
        ('`MCPError(code=…, message="Sold out.")` in a tool', refusing, refuses),
        ("A plain function that returns what an `async def` one does", passes_on, passes_on),
    ],
)
async def test_results_that_are_told_in_another_way(
    beginning: str, function: Callable[..., Any], of_this: Callable[..., Any]
) -> None:
    assert (await of_theirs(function), await of_ours(of_this)) == row(beginning)


async def test_a_default_that_the_annotation_does_not_allow() -> None:
    def find(words: str = None) -> str:  # type: ignore[assignment]  # noqa: RUF013
        return str(words)

    assert await of_theirs(find) == "the text"
    with pytest.raises(SchemaError, match=r"str \| None"):
        Registry("ours").add_tool(find)
    assert row("`words: str = None`")[1].startswith("`SchemaError`")


async def test_an_argument_that_there_is_not() -> None:
    assert row("An argument that the tool does not have") == ("is ignored", "is refused")
    arguments = {"number": 1, "colour": "red"}
    assert (await theirs("double", arguments))[:2] == (False, "2")
    is_error, text, _ = await ours("double", arguments)
    assert is_error
    assert "'colour'" in text


async def test_text_for_a_number() -> None:
    assert row('`"2"` where an integer is expected') == ("is taken as 2", "is taken as 2")
    assert (await theirs("double", {"number": "2"}))[:2] == (False, "4")
    assert (await ours("double", {"number": "2"}))[:2] == (False, "4")


async def test_text_for_a_list() -> None:
    assert row('`"[1, 2]"` where a list is expected') == (
        "is taken as a list",
        "is taken as a list",
    )
    assert (await theirs("numbers", {"of": "[1, 2]"}))[:2] == (False, "[1, 2]")
    assert not (await ours("numbers", {"of": "[1, 2]"}))[0]


async def test_a_number_as_result() -> None:
    sdk, here = row("`-> int`")
    assert (await theirs("double", {"number": 1}))[2] == {"result": 2}
    assert 'structuredContent: {"result": ' in sdk
    assert (await ours("double", {"number": 1}))[1:] == ("2", 2)
    assert here.startswith("`structuredContent: 3` and a schema from 2026-07-28 on")


async def test_an_unknown_tool() -> None:
    sdk, here = row("A call of an unknown tool")
    assert (await theirs("dance"))[0]
    assert sdk == "a result with `isError`"
    with pytest.raises(McpError) as refused:
        await ours("dance")
    assert here == f"the error {refused.value.code}"


async def test_two_tools_of_one_name() -> None:
    sdk, here = row("Two tools of one name")
    assert (sdk, here) == ("the first one, and a warning", "`SchemaError`")
    server = MCPServer("theirs")
    server.add_tool(double)
    server.add_tool(crash, name="double")
    async with TheirClient(server) as client:
        assert not (await client.call_tool("double", {"number": 1})).is_error
    registry = Registry("ours")
    registry.add_tool(double)
    with pytest.raises(SchemaError, match="registered already"):
        registry.add_tool(crash, name="double")


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
    for theirs, _, here in table(GUIDE, "Official SDK | FastMCP"):
        for name in re.findall(r"`(?:a )?([A-Z]\w+)", theirs):
            assert name in sdk, name
        for name, argument in re.findall(r"`(\w+)\((\w+)=", theirs):
            assert argument in inspect.signature(sdk[name]).parameters
        for name in re.findall(r"`([A-Z]\w+)[(.]", here):
            assert name in {*trio_mcp.MODULES, *trio_mcp.auth.MODULES}, name
    (provider,) = (
        row[0] for row in table(GUIDE, "Official SDK | FastMCP") if "server_url," in row[0]
    )
    arguments = re.findall(r"[(,] ?(\w+)", provider)
    assert arguments == list(inspect.signature(sdk["OAuthClientProvider"]).parameters)[:5]
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
