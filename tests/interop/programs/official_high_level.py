"""A server made with the high level of the official Python SDK, for our client to meet."""

from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context, Elicit, ListRoots, MCPServer, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import (
    CreateMessageResult,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

server = MCPServer("official", version="2.0", instructions="Ask away.", log_level="CRITICAL")


class Point(BaseModel):
    x: float
    y: float
    labels: list[str]


class Name(BaseModel):
    name: str


class Waiting:
    """The calls that wait."""

    calls = 0
    changed = anyio.Event()

    @classmethod
    def add(cls, number: int) -> None:
        cls.calls += number
        cls.changed.set()
        cls.changed = anyio.Event()


@server.tool()
async def text(words: str) -> str:
    """Return a text."""
    return words


@server.tool()
async def structured(x: float, y: float = 0.0) -> Point:
    """Return an object."""
    return Point(x=x, y=y, labels=["here", "ünïcode"])


@server.tool()
async def refuse() -> str:
    """Fail with a text for the caller."""
    raise ToolError("not today")


@server.tool()
async def steps(count: int, ctx: Context[Any, Any]) -> str:
    """Report progress at each step."""
    for number in range(1, count + 1):
        await ctx.report_progress(number, count, f"step {number}")
    return "done"


@server.tool()
async def wait() -> str:
    """Wait until cancelled."""
    Waiting.add(1)
    try:
        await anyio.sleep_forever()
    finally:
        Waiting.add(-1)


@server.tool()
async def until_waiting(calls: int) -> str:
    """Return as soon as so many calls wait."""
    while Waiting.calls != calls:
        await Waiting.changed.wait()
    return "so it is"


async def ask_name() -> Elicit[Name]:
    return Elicit("Who are you?", Name)


@server.tool(structured_output=False)
async def greet(name: Annotated[Name, Resolve(ask_name)]) -> str:
    """Ask the user for a name."""
    return f"Hello, {name.name}"


async def ask_model() -> Sample:
    question = TextContent(type="text", text="What is the weather like?")
    return Sample([SamplingMessage(role="user", content=question)], max_tokens=10)


@server.tool(structured_output=False)
async def forecast(answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Ask the client's model."""
    assert isinstance(answer.content, TextContent)
    return f"{answer.model} says {answer.content.text}"


async def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool(structured_output=False)
async def places(roots: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Ask for the client's roots."""
    return ", ".join(str(root.uri) for root in roots.roots)


server.run("stdio")
