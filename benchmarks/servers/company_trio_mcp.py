"""The tools of the published comparison, served by this project; the argument is the port."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from benchmarks.servers.company_shop import Shop
from trio_mcp import Registry, serve_http

shop = Shop()


@asynccontextmanager
async def opened(registry: Registry) -> AsyncIterator[None]:
    async with shop.opened():
        yield


registry = Registry("company", version="1.0", lifespan=opened)


@registry.tool
async def search_products(category: str, min_price: float, max_price: float, limit: int) -> str:
    """Search products by category and price."""
    return json.dumps(await shop.search_products(category, min_price, max_price, limit))


@registry.tool
async def get_user_cart(user_id: str) -> str:
    """Show a cart and the last orders."""
    return json.dumps(await shop.get_user_cart(user_id))


@registry.tool
async def checkout(user_id: str, items: list[dict[str, int]]) -> str:
    """Order what is in a cart."""
    return json.dumps(await shop.checkout(user_id, items))


async def main() -> None:
    await serve_http(registry, port=int(sys.argv[1]))


trio.run(main)
