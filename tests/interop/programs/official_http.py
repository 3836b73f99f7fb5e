"""A server made with the official Python SDK, over HTTP on uvicorn.

Usage: official_http.py sessions|stateless|sse. It says on stderr which port it has, and what it hears.
"""

import socket
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import BaseModel, Field

warnings.simplefilter("ignore", MCPDeprecationWarning)
server = MCPServer("official", version="2.0", log_level="CRITICAL")
Ctx = Context[Any, Any]


def say(text: str) -> None:
    """Tell the test."""
    print(text, file=sys.stderr, flush=True)


class Events(EventStore):
    """Keeps all events in memory."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(
        self, last_event_id: str, send_callback: Callable[[EventMessage], Awaitable[None]]
    ) -> str | None:
        say(f"resumed after {last_event_id}")
        start = int(last_event_id)
        stream_id, _ = self.events[start - 1]
        for number, (stream, message) in enumerate(self.events[start:], start + 1):
            if stream == stream_id and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream_id


class Reader(BaseModel):
    name: str


@server.tool(annotations=types.ToolAnnotations(read_only_hint=True))
async def add(a: int, b: int) -> int:
    return a + b


Region = Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]
Count = Annotated[int, Field(json_schema_extra={"x-mcp-header": "Count"})]


@server.tool()
async def mirror(region: Region, count: Count = 1) -> str:
    return f"{region} {count}"


@server.tool()
async def steps(count: int, ctx: Ctx) -> str:
    for number in range(1, count + 1):
        await ctx.report_progress(number, count, f"step {number}")
    return "done"


@server.tool()
async def wait() -> str:
    say("waiting")
    try:
        await anyio.sleep_forever()
    finally:
        say("cancelled")


@server.tool()
async def pause(ctx: Ctx) -> str:
    """Break the stream off, and answer when nobody is there."""
    await ctx.close_sse_stream()
    await anyio.sleep(0.2)
    return "resumed"


async def who() -> Elicit[Reader]:
    return Elicit("Who are you?", Reader)


@server.tool(structured_output=False)
async def greet(reader: Annotated[Reader, Resolve(who)]) -> str:
    return f"Hello {reader.name}"


@server.tool()
async def touch(ctx: Ctx) -> None:
    """Say that the list of tools has changed."""
    if ctx.protocol_version == "2026-07-28":
        await ctx.notify_tools_changed()
    else:
        session: Any = ctx.session
        await session.send_tool_list_changed()


@server.resource("config://app")
async def config() -> str:
    return "open"


def main(mode: str) -> None:
    """Serve in one of three ways."""
    apps: dict[str, Callable[[], Any]] = {
        "sessions": lambda: server.streamable_http_app(event_store=Events(), retry_interval=50),
        "stateless": lambda: server.streamable_http_app(stateless_http=True, json_response=True),
        "sse": server.sse_app,
    }
    app = apps[mode]()
    listener = socket.create_server(("127.0.0.1", 0))
    say(f"port {listener.getsockname()[1]}!")
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


main(sys.argv[1])
