"""A server with something of everything, for the command line to use."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import trio
from attrs import frozen

from trio_mcp import Context, ImageContent, Registry, ResourceLink, TextContent, ToolError

registry = Registry("shop", version="2.0", instructions="Order books, and pay for them.")


@frozen
class Delivery:
    """Where a parcel goes."""

    name: str
    express: bool = False
    size: Literal["small", "large"] = "small"


@registry.tool
async def order(book: str, count: int, context: Context) -> str:
    """Order a book.

    Args:
        book: Its title.
        count: How many.
    """
    answer = await context.elicit("Where to?", Delivery)
    if not answer.accepted:
        return f"not ordered: {answer.action}"
    value = answer.value
    how = ", express" if value.express else ""
    return f"{count} x {book} for {value.name}, {value.size}{how}"


@registry.tool
async def pay(context: Context) -> str:
    """Pay on a web page."""
    answer = await context.elicit_url("Please pay.", "https://shop.example.com/pay/7")
    return f"paid: {answer.action}"


@registry.tool
async def slow(seconds: float, context: Context) -> str:
    """Take some time, and tell of it."""
    steps = round(seconds * 20)
    for step in range(steps):
        await context.progress(step + 1, total=steps, message="packing")
        if step == 1:
            await context.info("the second step")
        await trio.sleep(0.05)
    return "packed"


@registry.tool
async def types(
    text: str,
    number: float = 0.0,
    whole: int = 0,
    flag: bool = False,
    tags: list[str] | None = None,
    anything: Any = None,
    nested: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Show what came."""
    return {
        "text": text,
        "number": number,
        "whole": whole,
        "flag": flag,
        "tags": tags,
        "anything": anything,
        "nested": nested,
    }


@registry.tool
async def several() -> list[TextContent | ImageContent | ResourceLink]:
    """Give blocks of several kinds."""
    return [
        TextContent("A dot:"),
        ImageContent("R0lGODlhAQABAAAAACwAAAAAAQABAAACAkwBADs=", "image/gif"),
        ResourceLink("shop://stock", "stock"),
    ]


@registry.tool
async def escape() -> str:
    """Say something that a terminal would obey."""
    return "before \x1b[31m\x1b]0;title\x07 after"


@registry.tool
async def fail(reason: Annotated[str, "Why."] = "no reason") -> None:
    """Fail."""
    raise ToolError(f"It failed: {reason}\nand there is more")


@registry.tool
async def die() -> None:
    """End the process."""
    os._exit(3)


@registry.tool
async def say(words: str) -> str:
    """Print something, which is not the result."""
    print("printed:", words)
    return f"returned: {words}"


@registry.tool
async def variable(name: str) -> str | None:
    """Show a variable of the environment."""
    return os.environ.get(name)


@registry.tool
async def wrap(paper: Literal["plain", "gold foil"], ribbon: bool = False) -> str:
    """Wrap a book."""
    return f"wrapped in {paper}{' with a ribbon' if ribbon else ''}"


@registry.tool
async def complain() -> str:
    """Write to stderr about something that is over."""
    print("OldError: long forgotten", file=sys.stderr, flush=True)
    return "complained"


@registry.tool
async def restock() -> str:
    """Change the stock."""
    registry.notify_resource_updated("shop://stock")
    return "restocked"


@registry.resource("shop://stock", mime_type="application/json")
async def stock() -> dict[str, int]:
    """What is there."""
    return {"Emma": 3}


@registry.resource("shop://logo", mime_type="image/gif")
async def logo() -> bytes:
    """The sign above the door."""
    return b"GIF89a\x00\xff"


@registry.resource("shop://books/{title}")
async def book(title: str) -> str:
    """A book."""
    return f"The text of {title}, in {Path(__file__).name}"


@registry.prompt
async def review(book: str, tone: str = "kind") -> str:
    """Ask for a review.

    Args:
        book: Its title.
        tone: How it sounds.
    """
    return f"Write a {tone} review of {book}."
