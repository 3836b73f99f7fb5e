"""The tools of the published comparison, served by the official Python SDK on uvicorn."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.routing import Mount

from benchmarks.servers.company_shop import Shop

shop = Shop()
server = MCPServer("company", log_level="ERROR")


@server.tool()
async def search_products(category: str, min_price: float, max_price: float, limit: int) -> str:
    """Search products by category and price."""
    return json.dumps(await shop.search_products(category, min_price, max_price, limit))


@server.tool()
async def get_user_cart(user_id: str) -> str:
    """Show a cart and the last orders."""
    return json.dumps(await shop.get_user_cart(user_id))


@server.tool()
async def checkout(user_id: str, items: list[dict[str, int]]) -> str:
    """Order what is in a cart."""
    return json.dumps(await shop.checkout(user_id, items))


app = server.streamable_http_app(stateless_http=True, json_response=True)


@asynccontextmanager
async def opened(outer: Starlette) -> AsyncIterator[None]:
    async with shop.opened(), app.router.lifespan_context(app):
        yield


uvicorn.run(
    Starlette(lifespan=opened, routes=[Mount("/", app)]),
    host="127.0.0.1",
    port=int(sys.argv[1]),
    log_level="error",
    access_log=False,
)
