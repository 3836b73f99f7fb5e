"""The three tools of the published comparison: what each of them reads and writes.

The addresses of the HTTP API and of Redis are in the environment. It runs on Trio and on asyncio,
and so the Python servers that are compared do the same work with the same libraries.
"""

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import time
from typing import Any

import anyio
import coredis
import httpx2

API, REDIS = "COMPANY_API", "COMPANY_REDIS"
_TOP = 10
_RECENT = 5
_KEPT = httpx2.Limits(max_connections=100, max_keepalive_connections=100)


class Shop:
    """A client of the API and of Redis, while `opened` lasts."""

    def __init__(self) -> None:
        self.http: httpx2.AsyncClient
        self.redis: Any

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Connect for the length of the block."""
        async with (
            httpx2.AsyncClient(base_url=os.environ[API], limits=_KEPT) as self.http,
            coredis.Redis.from_url(os.environ[REDIS], decode_responses=True) as self.redis,
        ):
            yield

    async def search_products(
        self, category: str, min_price: float, max_price: float, limit: int
    ) -> dict[str, Any]:
        """Find products, and say how popular each is."""
        wanted: dict[str, str | float] = {
            "category": category,
            "min_price": min_price,
            "max_price": max_price,
            "limit": limit,
        }
        response, ranks = await both(
            lambda: self.http.get("/products/search", params=wanted),
            lambda: self.redis.zrevrange("bench:popular", 0, _TOP - 1),
        )
        popular = [int(member.partition(":")[2]) for member in ranks]
        found = response.json()
        shown = ("id", "sku", "name", "price", "rating")
        products = [
            {
                **{name: each[name] for name in shown},
                "popularity_rank": popular.index(each["id"]) + 1 if each["id"] in popular else 0,
            }
            for each in found["products"]
        ]
        return {
            "category": category,
            "total_found": found["total_found"],
            "products": products,
            "top10_popular_ids": popular,
        }

    async def get_user_cart(self, user_id: str) -> dict[str, Any]:
        """Show a cart and the last orders."""
        cart = await self.redis.hgetall(f"bench:cart:{user_id}")
        items = json.loads(cart["items"])
        _, history = await both(
            lambda: self.http.get(f"/products/{items[0]['product_id']}"),
            lambda: self.redis.lrange(f"bench:history:{user_id}", 0, _RECENT - 1),
        )
        total = float(cart["total"])
        return {
            "user_id": user_id,
            "cart": {"items": items, "item_count": len(items), "estimated_total": total},
            "recent_history": [json.loads(each) for each in history],
        }

    async def checkout(self, user_id: str, items: list[dict[str, int]]) -> dict[str, Any]:
        """Price a cart, and write the order down."""
        order = {"order_id": f"ORD-{user_id}-{int(time())}", "items": items}
        response, count = await both(
            lambda: self.http.post("/cart/calculate", json={"user_id": user_id, "items": items}),
            lambda: self._write_down(user_id, order),
        )
        priced = response.json()
        return {
            "order_id": priced["order_id"],
            "user_id": user_id,
            "total": priced["total"],
            "items_count": len(items),
            "rate_limit_count": count,
            "status": "confirmed",
        }

    async def _write_down(self, user_id: str, order: dict[str, Any]) -> int:
        async with self.redis.pipeline(transaction=False) as pipeline:
            number = int(user_id.partition("-")[2]) % 100
            count = pipeline.incr(f"bench:ratelimit:user-{number:05d}")
            pipeline.rpush(f"bench:history:{user_id}", [json.dumps(order)])
            pipeline.zincrby("bench:popular", f"product:{order['items'][0]['product_id']}", 1)
        return int(await count)


async def both(
    one: Callable[[], Awaitable[Any]], other: Callable[[], Awaitable[Any]]
) -> tuple[Any, Any]:
    """Await two at the same time."""
    found: dict[str, Any] = {}

    async def keep(name: str, begin: Callable[[], Awaitable[Any]]) -> None:
        found[name] = await begin()

    async with anyio.create_task_group() as group:
        group.start_soon(keep, "other", other)
        await keep("one", one)
    return found["one"], found["other"]
