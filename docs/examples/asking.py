"""Asking: questions to the user, to the model and to the client, in the middle of a call."""

from typing import Literal

import trio
from attrs import frozen

from trio_mcp import Context, Registry, serve

registry = Registry("bookshop", version="1.0")

Book = Literal["Emma", "Middlemarch"]
PRICES = {"Emma": 9, "Middlemarch": 14}
STOCK = {"Emma": 3, "Middlemarch": 1}
held: set[tuple[str, str]] = set()
orders: list[str] = []


@frozen
class Delivery:
    """Where a parcel goes."""

    name: str
    street: str
    speed: Literal["normal", "express"] = "normal"


@registry.tool
async def order(book: Book, context: Context) -> str:
    """Order a book."""
    price = PRICES[book]  # runs again after each question, and does no harm
    answer = await context.elicit(f"{book} costs {price} euros. Where shall it go?", Delivery)
    if answer.action == "decline":
        return "The user does not want the book."
    if answer.action == "cancel":
        return "The user did not decide. Ask again later."
    delivery = answer.value
    orders.append(f"{book} to {delivery.name}, {delivery.speed}")  # after the last question: once
    return f"Ordered {orders[-1]}."


@registry.tool
async def reserve(book: Book, reader: str, context: Context) -> str:
    """Reserve a book; it is held while the user thinks."""
    held.add((book, reader))  # runs again as well: holding it twice is holding it
    question = f"There are {STOCK[book]} left. Reserve one?"  # by then there may be fewer
    answer = await context.elicit(question, bool, key="reserve")
    if answer.accepted and answer.value:
        return f"{book} is reserved for {reader}."
    held.discard((book, reader))
    return "Nothing is reserved."


@registry.tool
async def recommend(context: Context) -> str:
    """Recommend a book, from the answers to two questions that are asked at the same time."""
    told: dict[str, str] = {}

    async def ask(about: str) -> None:
        told[about] = (await context.elicit(f"Your favourite {about}?", str)).value

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "author")
        nursery.start_soon(ask, "book")
    if not context.supports("sampling"):
        return f"Something like {told['book']}."
    wish = f"One book for a reader who likes {told['book']} by {told['author']}?"
    return (await context.sample(wish, max_tokens=50)).text


@registry.tool
async def pay(bill: int, context: Context) -> str:
    """Let the user pay on a web page, so that no card number passes through the client."""
    answer = await context.elicit_url("Please pay.", f"https://shop.example.com/pay/{bill}")
    return "The page was opened." if answer.accepted else "Not paid."


@registry.tool
async def export(context: Context) -> str:
    """Say where a list of all orders would be written."""
    roots = await context.roots()
    return f"{roots[0].uri}/orders.csv" if roots else "nowhere"


if __name__ == "__main__":
    trio.run(serve, registry)
