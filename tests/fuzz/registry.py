"""A server that has some of everything, for strangers to knock at."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import trio
from attrs import frozen

from trio_mcp import Context, Registry, ToolError

registry = Registry("fuzzed", version="1.0")


@frozen
class Place:
    """Where something is."""

    name: str
    height: float = 0.0


@registry.tool
async def echo(text: str) -> str:
    """Say it again."""
    await trio.lowlevel.checkpoint()
    return text


@registry.tool
async def many(
    number: int,
    ratio: float = 1.0,
    kind: Literal["a", "b"] = "a",
    places: list[Place] | None = None,
    named: dict[str, int] | None = None,
) -> dict[str, Any]:
    """Take some of everything."""
    return {"number": number, "places": len(places or [])}


@registry.tool
async def refuse(text: Annotated[str, "why"]) -> str:
    """Fail on purpose."""
    raise ToolError(text)


@registry.tool
async def wait(seconds: float) -> str:
    """Take some time."""
    await trio.sleep(min(max(seconds, 0.0), 10.0))
    return "waited"


@registry.tool
async def ask(context: Context) -> str:
    """Ask the user."""
    answer = await context.elicit("Where?", Place)
    return type(answer).__name__


@registry.resource("note://{year}/{title}{?draft}")
async def note(year: str, title: str, draft: str = "") -> str:
    """Return a note."""
    return f"{year} {title} {draft}"


@registry.resource("file://fixed")
async def fixed() -> str:
    """Return a text."""
    return "fixed"


@registry.prompt
async def greet(name: str, manner: str = "short") -> str:
    """Greet somebody."""
    return f"Greet {name}, {manner}."
