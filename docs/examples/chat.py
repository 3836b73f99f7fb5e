"""A chat: a travel agent that asks what is wanted, makes offers, and books what is liked.

At a terminal: `trio-mcp call docs/examples/chat.py plan_trip`.
"""

from enum import Enum
from typing import Annotated, Literal

import trio
from attrs import frozen

from trio_mcp import Context, McpError, Registry, serve

registry = Registry(
    "travel agent",
    version="1.0",
    instructions="plan_trip asks the user everything itself. Call it as soon as they want to go.",
)

Kind = Literal["sea", "mountains", "city"]
PLACES: dict[Kind, dict[str, int]] = {
    "sea": {"Piran": 110, "Hiddensee": 90},
    "mountains": {"Soglio": 120, "Vent": 80},
    "city": {"Ghent": 130, "Trieste": 100, "Lviv": 60},
}
"""What a night costs for one, by place."""
booked: list[str] = []


@frozen
class Wishes:
    """What the user wants."""

    kind: Annotated[Kind, "What shall be there?"]
    nights: Annotated[int, {"minimum": 1, "maximum": 14}] = 3
    people: Annotated[int, "How many of you?", {"minimum": 1, "maximum": 6}] = 1


class Verdict(Enum):
    """Shall it be this one?"""

    BOOK_IT = "book"
    SHOW_ANOTHER = "another"


@frozen
class Traveller:
    """Who goes."""

    name: Annotated[str, {"minLength": 1}]
    email: Annotated[str, "Where the tickets go.", {"format": "email"}]
    newsletter: bool = False


@registry.tool
async def plan_trip(context: Context) -> str:
    """Plan a trip together with the user, and book it if they like it."""
    wishes = (await context.elicit("What kind of trip shall it be?", Wishes)).value
    for place, night in PLACES[wishes.kind].items():
        price = night * wishes.nights * wishes.people
        praise = await praise_of(place, context)
        verdict = await context.elicit(f"{place} for {price} euros. {praise}", Verdict)
        if verdict.action == "decline":
            return "The user does not want to travel after all."
        if verdict.action == "cancel":
            return f"The user has not decided yet. The last offer was {place}; nothing is booked."
        if verdict.value is Verdict.BOOK_IT:
            break
    else:
        return f"The user liked none of {', '.join(PLACES[wishes.kind])}."
    traveller = (await context.elicit("Who travels?", Traveller)).value
    booked.append(f"{place} for {traveller.name}, {wishes.people} x {wishes.nights} nights")
    return f"Booked {booked[-1]}. {price} euros; the tickets go to {traveller.email}."


async def praise_of(place: str, context: Context) -> str:
    """Let the client's model praise a place, if there is one and the user does not mind."""
    if not context.supports("sampling"):
        return "Guests like it."
    try:
        said = await context.sample(f"Praise {place} in one short sentence.", max_tokens=50)
    except McpError:
        return "Guests like it."
    return said.text


@registry.tool
async def bookings() -> list[str]:
    """List what has been booked."""
    return booked


if __name__ == "__main__":
    trio.run(serve, registry)
