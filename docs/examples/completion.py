"""Completion: suggestions while a user fills in a prompt or a URI template."""

from enum import Enum

import trio

from trio_mcp import Completion, Registry, serve

registry = Registry("travel", version="1.0")

CITIES = {
    "Austria": ["Graz", "Linz", "Vienna"],
    "Italy": ["Bologna", "Rome", "Turin", "Venice"],
}


class Season(Enum):
    """When to go."""

    SPRING = "spring"
    SUMMER = "summer"
    AUTUMN = "autumn"
    WINTER = "winter"


@registry.prompt
async def trip(country: str, city: str, season: Season = Season.SPRING) -> str:
    """Plan a trip."""
    return f"Plan a {season.value} trip to {city} in {country}."


registry.add_completion(list(CITIES), prompt="trip", argument="country")


@registry.completion(prompt="trip", argument="city")
async def city(value: str, arguments: dict[str, str]) -> list[str]:
    """The cities of the country that was chosen."""
    known = CITIES.get(arguments.get("country", ""), [])
    return [title for title in known if title.casefold().startswith(value.casefold())]


@registry.resource("trains://{number}")
async def train(number: int) -> dict[str, int]:
    """A train."""
    return {"number": number, "coaches": 3 + number % 7}


@registry.completion(resource="trains://{number}", argument="number")
async def number(value: str) -> Completion:
    """Some of many, with the count of all."""
    found = [text for text in map(str, range(1, 10_000)) if text.startswith(value)]
    return Completion(found[:20], total=len(found))


if __name__ == "__main__":
    trio.run(serve, registry)
