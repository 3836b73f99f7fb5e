"""A registry that is made of others: their tools, resources and prompts, under names of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from trio_mcp import ArgumentTransform, Context, Registry, Transform, serve

Stock = dict[str, int]


@asynccontextmanager
async def open_stock(registry: Registry) -> AsyncIterator[Stock]:
    """Read from the store; it may be a database."""
    yield {"rose": 3, "rue": 0}


shop = Registry("shop", version="1.0", lifespan=open_stock, tool_timeout=2.0)


@shop.tool
async def order(plant: str, count: int, urgent: bool, context: Context) -> str:
    """Order plants."""
    stock: Stock = context.lifespan
    stock[plant] = stock.get(plant, 0) + count
    when = "at once" if urgent else "next week"
    return f"{count} {plant}, {when}"


@shop.tool
async def close_for_good() -> str:
    """Sell everything."""
    return "sold"


@shop.resource("stock://{plant}")
async def stock(plant: str, context: Context) -> int:
    """How many there are."""
    left: Stock = context.lifespan
    return left.get(plant, 0)


weather = Registry("weather", version="1.0")


@weather.tool
async def forecast(city: str, units: str = "metric") -> str:
    """Tell tomorrow's weather."""
    return f"Tomorrow in {city}: 20 degrees ({units})"


garden = Registry("garden", version="1.0")
garden.mount(
    shop,
    "shop",
    tools={
        "order": Transform(
            name="buy",
            description="Buy plants for the garden.",
            arguments={
                "plant": ArgumentTransform(name="what", description="Rose, rue, …"),
                "count": ArgumentTransform(default=1),
                "urgent": ArgumentTransform(value=False),
            },
        ),
        "close_for_good": None,
    },
)
garden.mount(weather)


if __name__ == "__main__":
    trio.run(serve, garden)
