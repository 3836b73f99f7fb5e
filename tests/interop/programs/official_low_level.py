"""A server made with the low level of the official Python SDK, for our client to meet.

It lists its tools page by page, answers with JSON-RPC errors, and asks modern clients for input
in a way of its own: with a state to bring back, and twice in a row.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

Context = ServerRequestContext[Any, Any]
Result = types.CallToolResult | types.InputRequiredResult
Handler = Callable[[Context, types.CallToolRequestParams], Awaitable[Result]]

PAGE = 3
NUMBER = {"type": "number"}
STRING = {"type": "string"}


def schema(**properties: Any) -> dict[str, Any]:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required}


def said(words: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=words)], is_error=is_error)


async def text(context: Context, params: types.CallToolRequestParams) -> Result:
    words = (params.arguments or {}).get("words")
    if not isinstance(words, str):
        raise MCPError(types.INVALID_PARAMS, "words must be a string", {"argument": "words"})
    return said(words)


async def structured(context: Context, params: types.CallToolRequestParams) -> Result:
    point = {"x": (params.arguments or {})["x"], "y": 0.0, "labels": ["here", "ünïcode"]}
    return types.CallToolResult(content=[], structured_content=point)


async def refuse(context: Context, params: types.CallToolRequestParams) -> Result:
    return said("not today", is_error=True)


async def steps(context: Context, params: types.CallToolRequestParams) -> Result:
    count = (params.arguments or {})["count"]
    for number in range(1, count + 1):
        await context.session.report_progress(number, count, f"step {number}")
    return said("done")


class Waiting:
    """The calls that wait."""

    calls = 0
    changed = anyio.Event()

    @classmethod
    def add(cls, number: int) -> None:
        cls.calls += number
        cls.changed.set()
        cls.changed = anyio.Event()


async def wait(context: Context, params: types.CallToolRequestParams) -> Result:
    Waiting.add(1)
    try:
        await anyio.sleep_forever()
    finally:
        Waiting.add(-1)
    raise AssertionError


async def until_waiting(context: Context, params: types.CallToolRequestParams) -> Result:
    while Waiting.calls != (params.arguments or {})["calls"]:
        await Waiting.changed.wait()
    return said("so it is")


def elicitation(what: str) -> types.ElicitRequest:
    form = types.ElicitRequestFormParams(
        message=f"Your {what}?", requested_schema=schema(name=STRING)
    )
    return types.ElicitRequest(params=form)


async def greet(context: Context, params: types.CallToolRequestParams) -> Result:
    if context.session.can_send_request:
        name = await context.session.elicit_form("Your name?", schema(name=STRING))
        return said(f"Hello, {(name.content or {})['name']}")
    answers = params.input_responses or {}
    if params.request_state is None:
        asked: dict[str, Any] = {"first": elicitation("name")}
        return types.InputRequiredResult(input_requests=asked, request_state="once")
    if params.request_state == "once":
        (answer,) = answers.values()
        assert isinstance(answer, types.ElicitResult)
        state = f"twice {(answer.content or {})['name']}"
        return types.InputRequiredResult(request_state=state)  # nothing to ask, only to bring back
    return said(f"Hello, {params.request_state.removeprefix('twice ')}")


async def forecast(context: Context, params: types.CallToolRequestParams) -> Result:
    question = types.SamplingMessage(role="user", content=types.TextContent(text="What weather?"))
    if context.session.can_send_request:
        asked = types.CreateMessageRequest(
            params=types.CreateMessageRequestParams(messages=[question], max_tokens=10)
        )
        answer = await context.session.send_request(asked, types.CreateMessageResult)
    elif params.input_responses is None:
        asked = types.CreateMessageRequest(
            params=types.CreateMessageRequestParams(messages=[question], max_tokens=10)
        )
        return types.InputRequiredResult(input_requests={"weather": asked})
    else:
        answer = params.input_responses["weather"]
    assert isinstance(answer, types.CreateMessageResult)
    assert isinstance(answer.content, types.TextContent)
    return said(f"{answer.model} says {answer.content.text}")


async def places(context: Context, params: types.CallToolRequestParams) -> Result:
    if context.session.can_send_request:
        roots = await context.session.send_request(types.ListRootsRequest(), types.ListRootsResult)
    elif params.input_responses is None:
        return types.InputRequiredResult(input_requests={"roots": types.ListRootsRequest()})
    else:
        roots = params.input_responses["roots"]
    assert isinstance(roots, types.ListRootsResult)
    return said(", ".join(str(root.uri) for root in roots.roots))


TOOLS: dict[str, tuple[Handler, dict[str, Any]]] = {
    "text": (text, schema(words=STRING)),
    "structured": (structured, schema(x=NUMBER)),
    "refuse": (refuse, schema()),
    "steps": (steps, schema(count=NUMBER)),
    "wait": (wait, schema()),
    "until_waiting": (until_waiting, schema(calls=NUMBER)),
    "greet": (greet, schema()),
    "forecast": (forecast, schema()),
    "places": (places, schema()),
}


async def list_tools(
    context: Context, params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    start = int(params.cursor) if params and params.cursor else 0
    tools = [types.Tool(name=name, input_schema=each) for name, (_, each) in TOOLS.items()]
    following = str(start + PAGE) if start + PAGE < len(tools) else None
    return types.ListToolsResult(tools=tools[start : start + PAGE], next_cursor=following)


async def call_tool(context: Context, params: types.CallToolRequestParams) -> Result:
    if params.name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    handler, _ = TOOLS[params.name]
    return await handler(context, params)


server = Server(
    "official",
    version="2.0",
    instructions="Ask away.",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
)


async def main() -> None:
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


anyio.run(main)
