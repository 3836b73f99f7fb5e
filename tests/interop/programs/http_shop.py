"""A server with something for every way that HTTP can carry messages; served by the tests."""

from __future__ import annotations

from typing import Any

import trio

from trio_mcp import Context, McpError, Registry, ToolError

TOOLS = [
    "text",
    "steps",
    "chat",
    "ask",
    "ask_model",
    "list_roots",
    "wait",
    "until_waiting",
    "fail",
    "pause",
    "mirror",
    "touch",
    "add",
]


class Shop:
    """The registry, and what goes on in it."""

    def __init__(self) -> None:
        self.waiting = 0
        self._changed = trio.lowlevel.ParkingLot()
        self.registry = Registry("shop", version="1.0", instructions="Ask for anything.")
        for tool in (
            self.text,
            self.steps,
            self.chat,
            self.ask,
            self.ask_model,
            self.list_roots,
            self.wait,
            self.until_waiting,
            self.fail,
            self.pause,
        ):
            self.registry.add_tool(tool)
        self.registry.add_tool(self.mirror, input_schema=MIRROR)
        self.registry.add_tool(self.touch)
        self.registry.add_tool(self.add)
        self.registry.add_resource("stock://{item}", stock)
        self.registry.add_prompt(greet)

    async def text(self, words: str) -> str:
        """Return a text."""
        return words

    async def steps(self, context: Context, count: int) -> str:
        """Report progress."""
        for number in range(1, count + 1):
            await context.progress(number, total=count, message=f"step {number}")
        return "done"

    async def chat(self, context: Context) -> str:
        """Log something."""
        await context.debug("quietly")
        await context.warning({"said": "aloud"}, logger="shop")
        return "said"

    async def ask(self, context: Context) -> str:
        """Ask for a name."""
        answer = await context.elicit("Your name?", str, key="name")
        return f"Hello {answer.value}" if answer.accepted else answer.action

    async def ask_model(self, context: Context) -> str:
        """Have a model say something."""
        result = await context.sample("Say hello.", max_tokens=10)
        return result.model

    async def list_roots(self, context: Context) -> list[str]:
        """Ask for the roots."""
        return [each.uri for each in await context.roots()]

    async def wait(self) -> str:
        """Wait for ever."""
        self.waiting += 1
        self._changed.unpark_all()
        try:
            await trio.Event().wait()
        finally:
            self.waiting -= 1
            self._changed.unpark_all()
        return "never"

    async def until_waiting(self, calls: int) -> None:
        """Return when so many calls wait for ever."""
        while self.waiting != calls:
            await self._changed.park()

    async def fail(self, kind: str) -> str:
        """Fail in some way."""
        if kind == "tool":
            raise ToolError("Error: not today")
        if kind == "protocol":
            raise McpError(-32050, "The shop is closed", {"opens": "tomorrow"})
        raise RuntimeError("the secret of the shop")

    async def pause(self, context: Context) -> str:
        """Send the client away, and answer when it is back."""
        context.close_sse_stream()
        await trio.sleep(0.05)
        await context.progress(1)
        return "resumed"

    async def mirror(self, **arguments: Any) -> dict[str, Any]:
        """Return what came; some of it in headers as well."""
        return arguments

    async def touch(self, uris: list[str]) -> None:
        """Say that resources have changed."""
        for uri in uris:
            self.registry.notify_resource_updated(uri)

    async def add(self, name: str) -> None:
        """Add a tool."""
        self.registry.add_tool(self.text, name=name)


MIRROR = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "sure": {"type": "boolean", "x-mcp-header": "Sure"},
        "where": {
            "type": "object",
            "properties": {"tenant": {"type": "string", "x-mcp-header": "Tenant"}},
        },
    },
}


async def stock(item: str) -> str:
    """How much there is of something."""
    return f"some {item}"


async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Greet {name}."
