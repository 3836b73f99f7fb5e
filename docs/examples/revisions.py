"""A station: its tools mean the same in every revision, and answer as each one has it."""

import trio
from attrs import frozen

from trio_mcp import Context, Registry, ResourceLink, serve

registry = Registry("station", version="1.0")


@frozen
class Departure:
    """A train that leaves."""

    to: str
    platform: int


@registry.tool(title="Next departure")
async def departure(line: str) -> Departure:
    """Look up the next train of a line."""
    return Departure(to="Graz", platform=4)


@registry.tool
async def timetable(line: str) -> ResourceLink:
    """Say where the timetable of a line is."""
    return ResourceLink(f"https://rail.example.com/{line}.pdf", f"Timetable of line {line}")


@registry.tool
async def caller(context: Context) -> str:
    """Say who calls."""
    name = context.client.name if context.client else "a client"
    return f"{name}, in revision {context.revision}"


if __name__ == "__main__":
    trio.run(serve, registry)
