"""`pydantic`: a model as an argument."""

import pydantic
import trio

from trio_mcp import Registry, connect

registry = Registry("shop")


class Plant(pydantic.BaseModel):
    name: str
    days: int


@registry.tool
async def add(plant: Plant) -> str:
    return f"{plant.name}: {plant.days}"


async def main() -> None:
    async with connect(registry) as client:
        result = await client.call_tool("add", {"plant": {"name": "Fern", "days": 3}})
        assert result.text == "Fern: 3"


trio.run(main)
