"""What a type checker says of options; mypy reads this, and nobody runs it.

Each line that ends with an ignored error is one that mypy must refuse: were it accepted, the ignore
would be unused, and that is an error too.
"""

from collections.abc import Mapping

from trio_mcp import (
    Client,
    Context,
    HttpOptions,
    HttpPolicy,
    Registry,
    ServerGroup,
    ToolAnnotations,
    connect,
)
from trio_mcp.compose import open_gateway, open_proxy
from trio_mcp.testing import McpTester
from trio_mcp.transports import ProcessOptions

registry = Registry("typed", icons=[{"src": "https://example.com/a.png"}])
Registry("typed", titel="x")  # type: ignore[call-arg]
Registry("typed", page_size="x")  # type: ignore[arg-type]


@registry.tool
async def plain(a: int) -> int:
    """A decorated function keeps its type."""
    return a


@registry.tool(title="T", timeout=1.0, annotations=ToolAnnotations(read_only_hint=True))
async def decorated(a: int) -> int:
    """So does one with options."""
    return await plain(a) + await plain("a")  # type: ignore[arg-type]


registry.add_tool(plain, name="other", annotations={"readOnlyHint": True}, max_concurrent=1)
registry.add_tool(plain, name="extended", extensions={"com.example/x": 1})
registry.add_tool(plain, extensions=["com.example/x"])  # type: ignore[arg-type]
registry.add_tool(plain, titel="x")  # type: ignore[call-arg]
registry.add_tool(plain, timeout="x")  # type: ignore[arg-type]
registry.add_tool(plain, state="new handle")
registry.add_tool(plain, state="user")  # type: ignore[arg-type]
registry.add_directory("a:{+path}", "/srv", state="caller")  # type: ignore[call-arg]
registry.tool(titel="x")  # type: ignore[call-overload]
registry.tool(icons=["url"])  # type: ignore[list-item]

registry.add_resource("a:b", plain, size=5, cache_scope="public", mime_type="text/plain")
registry.add_resource("a:b", plain, sise=5)  # type: ignore[call-arg]
registry.add_resource("a:b", plain, cache_scope="all")  # type: ignore[arg-type]
registry.resource("a:b", meta=[1])  # type: ignore[arg-type]
registry.add_directory("a:{+path}", "/srv", max_bytes=1, title="Files")
registry.add_directory("a:{+path}", "/srv", size=1)  # type: ignore[call-arg]
registry.add_file("a:b", "/srv/a", titel="x")  # type: ignore[call-arg]

registry.add_prompt(plain, title="P")
registry.add_prompt(plain, annotations={})  # type: ignore[call-arg]
registry.prompt(titel="x")  # type: ignore[call-overload]
registry.completion(prompt="p")  # type: ignore[call-arg]

ProcessOptions(close_timeout=1.0, stderr="ignore")
ProcessOptions(reconnect_timeout=1.0)  # type: ignore[call-arg]


async def main() -> None:
    """A client's options, and what it gives."""
    async with connect(registry, tool_timeout=1.0) as client:
        tools: Mapping[str, object] = client.tools
        number: int = await client.call_tool("plain", {"a": 1}, returns=int)
        text: str = await client.call_tool("plain", returns=int)  # type: ignore[arg-type]
        print(tools, number, text)
    connect(registry, tool_timeuot=1.0)  # type: ignore[call-arg]
    Client()  # type: ignore[call-arg]


async def testing(mcp: McpTester) -> None:
    """What the fixture takes."""
    async with mcp.connect(registry, tool_timeout=1.0, era="modern"):
        pass
    mcp.connect(registry, tool_timeuot=1.0)  # type: ignore[call-arg]
    mcp.serve_http(registry, path="/rpc", policy=HttpPolicy(rate=1.0))
    mcp.serve_http(registry, prot=1)  # type: ignore[call-arg]


class Shop:
    """What a lifespan yields."""

    stock: int = 1


@registry.tool(state="caller")
async def with_state(context: Context) -> str | None:
    """What lasts from call to call is a dict."""
    context.state["unit"] = "kelvin"
    return context.state.handle.upper()  # type: ignore[union-attr]


@registry.tool
async def with_lifespan(context: Context[Shop]) -> int:
    """What the lifespan yielded has its type."""
    return context.lifespan.stock + context.lifespan.price  # type: ignore[attr-defined, no-any-return]


@registry.tool
async def without_a_type(context: Context) -> int:
    """Without one, it is anything."""
    return int(context.lifespan.stock)


async def gather(group: ServerGroup) -> None:
    """Likewise, of many servers."""
    await group.read_resource("web", "a:b", fresh=True)
    await group.read_resource("web", "a:b", fresch=True)  # type: ignore[call-arg]
    await group.get_prompt("web", "greet", timeout="x")  # type: ignore[arg-type]
    open_proxy("https://example.com", era="legacy", http=HttpOptions())
    open_proxy("https://example.com", ira="legacy")  # type: ignore[call-arg]
    open_gateway("mcp.json", reconnect_timeout=1.0, http={"web": HttpOptions()})
    open_gateway("mcp.json", http=HttpOptions())  # type: ignore[arg-type]
