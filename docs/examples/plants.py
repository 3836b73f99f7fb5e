"""A windowsill of plants, as an MCP server."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Literal

import trio
from attrs import evolve, frozen

from trio_mcp import Context, Registry, ResourceNotFound, ToolError, serve

Room = Literal["kitchen", "bathroom", "study"]


@frozen
class Plant:
    """A plant, and when it last had water."""

    name: str
    room: Room
    every: int
    watered: date

    @property
    def due(self) -> date:
        """When it wants water again."""
        return self.watered + timedelta(days=self.every)


PLANTS = {
    "Basil": Plant("Basil", "kitchen", 1, date(2026, 5, 4)),
    "Fern": Plant("Fern", "bathroom", 3, date(2026, 5, 2)),
    "Cactus": Plant("Cactus", "study", 20, date(2026, 4, 20)),
}


class Windowsill:
    """The plants that are there, and the file that remembers them."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.plants = dict(PLANTS)
        if file.exists():
            days = json.loads(file.read_text())
            self.plants = {
                name: evolve(PLANTS[name], watered=date.fromisoformat(day))
                for name, day in days.items()
            }

    def find(self, name: str) -> Plant:
        """Find a plant, or tell the model which there are."""
        if name not in self.plants:
            raise ToolError(f"There is no {name}; the plants are: {', '.join(self.plants)}")
        return self.plants[name]

    def save(self) -> None:
        """Write down when each plant had water."""
        days = {plant.name: plant.watered.isoformat() for plant in self.plants.values()}
        self.file.write_text(json.dumps(days))


@asynccontextmanager
async def open_windowsill(registry: Registry) -> AsyncIterator[Windowsill]:
    """What the server has while it runs."""
    beside = Path(__file__).with_name("plants.json")
    yield Windowsill(Path(os.environ.get("PLANTS_FILE", beside)))


registry = Registry("plants", version="1.0", lifespan=open_windowsill)


@registry.tool
async def find_plant(name: str, context: Context) -> Plant:
    """Look a plant up.

    Args:
        name: The plant.
    """
    windowsill: Windowsill = context.lifespan
    return windowsill.find(name)


@registry.tool
async def thirsty(
    day: date,
    context: Context,
    within: Annotated[int, {"minimum": 0, "maximum": 30}] = 0,
    room: Room | None = None,
) -> list[str]:
    """Name the plants that want water.

    Args:
        day: The day to look at.
        within: How many days to look ahead.
        room: Look into this room only.
    """
    windowsill: Windowsill = context.lifespan
    last = day + timedelta(days=within)
    return [
        plant.name
        for plant in windowsill.plants.values()
        if plant.due <= last and room in (None, plant.room)
    ]


@registry.tool
async def water(name: str, day: date, context: Context) -> Plant:
    """Note that a plant had water.

    Args:
        name: The plant.
        day: The day on which it had water.
    """
    windowsill: Windowsill = context.lifespan
    plant = windowsill.find(name)
    if day < plant.watered:
        raise ToolError(f"{name} had water later than that, on {plant.watered}")
    windowsill.plants[name] = evolve(plant, watered=day)
    windowsill.save()
    return windowsill.plants[name]


@registry.resource("plants://all")
async def all_plants(context: Context) -> list[Plant]:
    """All plants."""
    windowsill: Windowsill = context.lifespan
    return list(windowsill.plants.values())


@registry.resource("plants://{name}")
async def one_plant(name: str, context: Context) -> Plant:
    """One plant."""
    windowsill: Windowsill = context.lifespan
    if name not in windowsill.plants:
        raise ResourceNotFound(f"plants://{name}")
    return windowsill.plants[name]


@registry.prompt
async def holiday(leaving: date, back: date) -> str:
    """Write a note to the neighbour who waters the plants.

    Args:
        leaving: The first day away.
        back: The day of the return.
    """
    days = (back - leaving).days
    return (
        f"I am away from {leaving} for {days} days. Find out with the tool thirsty what will want "
        "water in that time, and write a friendly note to the neighbour: what, where, and when."
    )


@registry.tool
async def give_away(name: str, context: Context) -> str:
    """Give a plant away for good.

    Args:
        name: The plant.
    """
    windowsill: Windowsill = context.lifespan
    plant = windowsill.find(name)
    answer = await context.elicit(f"Give the plant {plant.name} away for good?", bool)
    if not (answer.accepted and answer.value):
        return f"{name} stays."
    del windowsill.plants[name]
    windowsill.save()
    return f"{name} is given away."


if __name__ == "__main__":
    trio.run(serve, registry)
