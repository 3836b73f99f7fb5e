"""What else may be a handler of a registry for asyncio than a function."""

import asyncio
from functools import partial

import pytest

from tests.aio.support import in_asyncio
from trio_mcp import Context, SchemaError
from trio_mcp.aio import Registry, connect, on_asyncio

pytestmark = pytest.mark.requirement("S5")


async def order(book: str, shop: str) -> str:
    """Order a book."""
    await asyncio.sleep(0)
    return f"{book} from {shop}"


class Shop:
    """Sells books."""

    async def __call__(self, book: str, context: Context) -> str:
        await asyncio.sleep(0)
        await context.info(book)
        return f"{book} by {context.tool}"

    async def sell(self, book: str) -> str:
        await asyncio.sleep(0)
        return f"{book} sold"


@in_asyncio
async def test_partials_objects_and_methods_run_in_the_event_loop():
    registry = Registry("shop")
    registry.tool(partial(order, shop="Bath"), name="order")
    registry.tool(Shop(), name="shop")
    registry.tool(Shop().sell)
    async with connect(registry) as client:
        found = {name: tool.description.description for name, tool in registry.tools.items()}
        assert found == {"order": "Order a book.", "shop": "Sells books.", "sell": None}
        for name, said in (
            ("order", "Emma from Bath"),
            ("shop", "Emma by shop"),
            ("sell", "Emma sold"),
        ):
            assert (await client.call_tool(name, {"book": "Emma"})).text == said


def test_what_has_no_name_needs_one():
    for function in (partial(order, shop="Bath"), Shop()):
        with pytest.raises(SchemaError, match="name="):
            Registry("shop").tool(function)


def test_what_is_not_async_is_refused():
    with pytest.raises(TypeError, match="others run in worker threads"):
        on_asyncio(partial(str, "x"))
