"""The tools of the published comparison, served by FastMCP on uvicorn; the argument is the port."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from company_shop import Shop  # type: ignore[import-not-found]  # beside this file
from fastmcp import FastMCP  # type: ignore[import-not-found]  # of another environment

shop = Shop()


@asynccontextmanager
async def opened(server: Any) -> AsyncIterator[None]:
    async with shop.opened():
        yield


async def search_products(category: str, min_price: float, max_price: float, limit: int) -> str:
    """Search products by category and price."""
    return json.dumps(await shop.search_products(category, min_price, max_price, limit))


async def get_user_cart(user_id: str) -> str:
    """Show a cart and the last orders."""
    return json.dumps(await shop.get_user_cart(user_id))


async def checkout(user_id: str, items: list[dict[str, int]]) -> str:
    """Order what is in a cart."""
    return json.dumps(await shop.checkout(user_id, items))


server = FastMCP("company", lifespan=opened)
for tool in (search_products, get_user_cart, checkout):
    server.tool(tool)
app = server.http_app(stateless_http=True, json_response=True)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False)
