"""Nothing here is run: mypy checks that the faces for asyncio have the types of Trio's classes."""

from typing import assert_type

from starlette.applications import Starlette
from starlette.routing import Mount, Route

import trio_mcp
from trio_mcp import CallResult, Handlers, Registry, ServerEvent
from trio_mcp.aio import Client, connect, connect_all, http_app


async def told(progress: float, total: float | None, message: str | None) -> None:
    """An `async def` callback."""


async def use(registry: Registry) -> None:
    """Each call has the result that it has under Trio."""
    connection = connect(registry, handlers=Handlers(), tool_timeout=1.0)
    client = await connection.open()
    assert_type(client, Client)
    assert_type(await client.call_tool("add", {"a": 1}, on_progress=told), CallResult)
    assert_type(await client.call_tool("add", {"a": 1}, returns=float), float)
    connect(registry, tool_timeout="1")  # type: ignore[arg-type]
    await client.call_tool("add", timout=1)  # type: ignore[call-overload]
    async with connect_all({"one": registry}, reconnect_timeout=1.0) as group:
        assert_type(await group.call_tool("one_add", returns=int), int)
        async for event in group.states():
            assert_type(event, ServerEvent)


def mount(registry: Registry) -> Starlette:
    """An app goes wherever a framework takes an ASGI app."""
    mcp = Mount("/tools", http_app(registry))
    return Starlette(
        routes=[mcp, Route("/mcp", http_app(registry)), Mount("/trio", trio_mcp.http_app(registry))]
    )
